"""Define `Program`, which lowers and compiles a source kernel, and `Binding`, which launches it on arrays.

Invariant: after a launch, also one that raised, every field it may have written has a new version; before it, every
active tape has saved what the launch will destroy and an earlier gradient still reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..backends.base import Draws
from ..backends.launching.launcher import NO_DRAWS, Launcher
from ..backends.words import WATCHED
from ..compiler.errors import NotDifferentiable, Refusals, Span
from ..compiler.ir.kernels import Kernel
from ..compiler.ir.nodes import Random
from ..compiler.ir.types import ArrayType
from ..compiler.ir.walk import walk_kernel
from ..compiler.sizing.regions import AccessRegions, Box
from ..data.fields import Array
from ..data.half_accumulators import accumulators_of, rounding_launch
from ..runtime.dump import dump_kernels
from ..runtime.session import RUNTIME, stamp
from .bound import KeptBoxes, bound_to, fields_of, memory_of, shapes_of, version_source, written_boxes
from .directions import BoundGradient, ProgramSide, TouchedArrays, is_by_hand, is_checked
from .kept_draws import KeptDraws
from .lowerings import block_options, cached_lowering
from .watched_launches import launch_watched

if TYPE_CHECKING:
    from ..backends.base import Scalars
    from ..backends.launching.launcher import LoweringLike
    from ..compiler.driver import Lowering
    from ..runtime.guards import Guard
    from .ordered_launches import OrderedLaunch

NOTHING: Mapping[str, np.ndarray] = {}
Replaced = Callable[[int | None], Mapping[str, np.ndarray]]
"""A function that returns arrays by name; given a direction of forward mode, also their tangents `x.dual`."""


def no_arrays(direction: int | None) -> Mapping[str, np.ndarray]:
    """Return an empty mapping of replacements, so that a gradient reads the arrays that are bound."""
    return NOTHING


class Program:
    """Represent a source kernel under fixed settings of the runtime, lowered and compiled on demand.

    `span` is where the kernel is defined, for messages. `constant` is True if its launches are constant to derivatives
    and its gradient is empty. The located errors of the compiler are raised at first use.
    """

    __slots__ = (
        "kernel",
        "span",
        "generation",
        "has_random",
        "gradients",
        "_forward",
        "_reverse",
        "draws",
        "_forward_regions",
        "_reverse_regions",
        "_forward_side",
        "_reverse_side",
        "_tangents",
        "_second",
        "_taped",
        "_detached",
        "_overwritten",
        "_refusals",
        "orderings",
        "guards",
        "constant",
    )

    def __init__(self, kernel: Kernel, span: Span | None = None, constant: bool = False) -> None:
        RUNTIME.ensure()
        self.kernel = kernel
        self.span = span
        self.constant = constant
        self.generation = RUNTIME.generation
        self.has_random = any(isinstance(s, Random) for s in walk_kernel(kernel))
        self.gradients = tuple(p.name for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad)
        self._forward: Launcher | None = None
        self._reverse: Launcher | None = None
        self.draws = KeptDraws()
        self._forward_regions: AccessRegions | None = None
        self._reverse_regions: AccessRegions | None = None
        self._forward_side: ProgramSide | None = None
        self._reverse_side: ProgramSide | None = None
        self._tangents: dict[tuple[frozenset[str], frozenset[str]], Launcher] = {}
        self._second: dict[tuple[frozenset[str], frozenset[str], bool], Launcher] = {}
        self._detached: dict[frozenset[str], Program] = {}
        self._overwritten: frozenset[str] | None = None
        self._taped: TouchedArrays | None = None
        self._refusals = Refusals()
        self.orderings: dict[bool, OrderedLaunch | None] = {}
        self.guards: tuple[Guard, ...] = ()

    @property
    def label(self) -> str:
        """Return the name of the kernel for messages, with file and line if it has them."""
        return f"{self.kernel.name} ({self.span.file}:{self.span.line})" if self.span else self.kernel.name

    def forward(self) -> Launcher:
        """Return the launcher for forward launches of the kernel."""
        if self._forward is None:
            from ..compiler.driver import prepare_forward as prepare

            options = dict.fromkeys(("check", "stated"), RUNTIME.settings.debug) | block_options(self.kernel)
            self._forward = self._launcher(self._lowered("forward", prepare, **options), "forward")
        return self._forward

    def reverse(self) -> Launcher:
        """Return the launcher of the gradient. Raise a located NotDifferentiable or Unsupported if it has none."""
        if self._reverse is None:
            self._need_gradients()
            from ..compiler.driver import prepare_reverse

            check = RUNTIME.settings.debug
            made = self._lowered("reverse", prepare_reverse, check=check, stated=is_checked())
            self._reverse = self._launcher(made, "reverse")
        return self._reverse

    def taped(self) -> TouchedArrays:
        """Return the gradient that tapes launch; it may read copies of elements that the kernel overwrote.

        If it needs no copies, it is the gradient that is called by hand.
        """
        if self._taped is None:
            self._taped = self._own_taped() or TouchedArrays(self.reverse_side(), self.reverse_regions())
        return self._taped

    def _own_taped(self) -> TouchedArrays | None:
        """Return the gradient that reads copies of overwritten contents, or None if `reverse` needs no copies."""
        if self._reverse is not None and not is_by_hand(self._reverse):
            return None
        self._need_gradients()
        from ..compiler.driver import prepare_reverse

        check = RUNTIME.settings.debug
        made = self._lowered("taped", prepare_reverse, check=check, taped=True, stated=is_checked())
        launcher = self._launcher(made, "reverse.taped" if made.before else "reverse")
        if made.before or self._reverse is not None:
            return TouchedArrays(ProgramSide(launcher), AccessRegions(launcher.kernel))
        self._reverse = launcher
        return None

    def _need_gradients(self) -> None:
        if self.constant:
            reason = f"kernel {self.kernel.name} is decorated with no_grad, so its gradient is empty"
            raise NotDifferentiable(reason, "take that of the kernel without the decorator", self.span)
        if not self.gradients:
            raise NotDifferentiable(
                f"missing gradient: no array that kernel {self.kernel.name} uses has one",
                "make the fields and ndarrays to differentiate, and the results, with needs_grad=True; "
                "NumPy arrays have no gradient",
                self.span,
            )

    def tangent(self, carriers: frozenset[str], constants: frozenset[str] = frozenset()) -> Launcher:
        """Return the launcher of the tangent kernel, with tangents of the parameters `carriers`.

        Raise NotDifferentiable if there is none.
        """
        found = self._tangents.get((carriers, constants))
        if found is None:
            from ..compiler.ad.detach import detach_loads
            from ..compiler.driver import prepare_tangent

            kernel, check = detach_loads(self.kernel, constants), RUNTIME.settings.debug
            work = partial(cached_lowering, prepare_tangent, kernel, carriers, check=check)
            made = self._refusals.once(("tangent", carriers, constants), work)
            found = self._tangents[carriers, constants] = self._launcher(made, "tangent")
        return found

    def second(self, carriers: frozenset[str], constants: frozenset[str], taped: bool) -> Launcher:
        """Return the launcher of the tangent kernel of the gradient (that of tapes, if `taped`); see `tangent`."""
        found = self._second.get((carriers, constants, taped))
        if found is None:
            from ..compiler.driver import prepare_second

            gradient = (self.taped().side if taped else self.reverse_side()).launcher
            before, check = gradient.lowered.before, RUNTIME.settings.debug
            work = partial(cached_lowering, prepare_second, gradient.kernel, carriers, constants, before, check=check)
            made = self._refusals.once(("second", carriers, constants, taped), work)
            found = self._second[carriers, constants, taped] = self._launcher(made, "reverse.tangent")
        return found

    def detached(self, names: frozenset[str]) -> Program:
        """Return a program of the same kernel whose gradient only sets adjoints to 0; see `compiler.ad.detach`."""
        found = self._detached.get(names)
        if found is None:
            from ..compiler.ad.detach import detach

            found = self._detached[names] = Program(detach(self.kernel, names), self.span)
        return found

    def overwritten(self) -> frozenset[str]:
        """Return the real array parameters that the kernel may overwrite."""
        if self._overwritten is None:
            from ..compiler.ad.detach import overwritten_arrays

            self._overwritten = overwritten_arrays(self.kernel)
        return self._overwritten

    def forward_side(self) -> ProgramSide:
        """Return the forward direction of the program: its launcher and the names of the arrays it uses."""
        if self._forward_side is None:
            self._forward_side = ProgramSide(self.forward())
        return self._forward_side

    def reverse_side(self) -> ProgramSide:
        """Return the gradient direction of the program: its launcher and the names of the arrays it uses."""
        if self._reverse_side is None:
            self._reverse_side = ProgramSide(self.reverse())
        return self._reverse_side

    def forward_regions(self) -> AccessRegions:
        """Return an analysis of which array elements a forward launch reads and writes."""
        if self._forward_regions is None:
            self._forward_regions = AccessRegions(self.forward().kernel)
        return self._forward_regions

    def reverse_regions(self) -> AccessRegions:
        """Return an analysis of which array elements a gradient launch reads and writes."""
        if self._reverse_regions is None:
            self._reverse_regions = AccessRegions(self.reverse().kernel)
        return self._reverse_regions

    @property
    def launchers(self) -> tuple[Launcher | None, Launcher | None]:
        """Return the forward launcher and the gradient launcher; each is None if it was not needed yet."""
        taped = self._taped.side.launcher if self._taped else None
        return self._forward, self._reverse or taped

    def _lowered(self, work: str, prepare: Callable[..., Lowering], **options: bool | str) -> Lowering:
        """Return a lowering of the kernel. Raise the error of an earlier attempt again without lowering it."""
        return self._refusals.once(work, partial(cached_lowering, prepare, self.kernel, **options))

    def _launcher(self, made: LoweringLike, kind: str) -> Launcher:
        dump_kernels(self.kernel, made, kind)
        launcher = Launcher(made, RUNTIME.backend, RUNTIME.options)
        RUNTIME.launchers.add(launcher)
        return launcher


class Binding:
    """Represent a program bound to the arrays that it runs on; it can be launched with any scalar arguments.

    `arrays` has a field or a NumPy array for each array parameter, already checked, and for `x.grad` if it is not the
    adjoint of the field. `own` has arrays made for one launch; `replay` launches again, with new ones in their place.
    """

    __slots__ = (
        "program",
        "arrays",
        "memory",
        "written",
        "backward",
        "taped",
        "replay",
        "own",
        "halves",
        "_versions",
        "_detached",
        "_boxes",
        "_places",
        "__weakref__",
    )

    def __init__(self, program: Program, arrays: Mapping[str, Array | np.ndarray]) -> None:
        self.program = program
        self.arrays = dict(arrays)
        side = program.forward_side()
        self.memory = memory_of(program, self.arrays, side.arrays)
        self.written = fields_of(program, self.arrays, side.writes)
        self._versions = version_source(program, self.arrays, side.launcher)
        self.backward: BoundGradient | None = None
        self.taped: BoundGradient | None = None
        self.replay: Callable[[Scalars], None] | None = None
        self.own: Mapping[str, np.ndarray] = NOTHING
        self.halves = accumulators_of(self.arrays.values())
        self._detached: dict[frozenset[str], Binding] = {}
        self._boxes = KeptBoxes()
        self._places: tuple[int, ...] | None = None

    def launch(self, scalars: Scalars) -> None:
        """Run the kernel with these scalar arguments, and notify tapes and other watchers."""
        with rounding_launch(self.halves):
            if RUNTIME.words[WATCHED] and launch_watched(self, scalars):
                return
            self.run(scalars, self.draws_forward(scalars) if self.program.has_random else NO_DRAWS)

    def again(self, scalars: Scalars) -> None:
        """Launch the kernel again, as a replay of a tape does: by calling `replay` if it is set, else `launch`."""
        # A bound method in `replay` would be a cycle, and keep arrays of calls alive until garbage is collected.
        (self.replay or self.launch)(scalars)

    def run(self, scalars: Scalars, draws: Draws) -> None:
        """Run the kernel with this random key, without notifying tapes and other watchers."""
        versions = self._versions
        try:
            self.program.forward().run(
                self.memory, scalars, draws, None if versions is None else tuple([f.version for f in versions])
            )
        finally:
            for field in self.written:
                field.version = stamp()

    def launch_grad(
        self, scalars: Scalars, draws: Draws | None = None, replaced: Replaced = no_arrays, taped: bool = False
    ) -> None:
        """Run the gradient with the current contents of all arrays, and add to the adjoints in the `.grad` arrays.

        `draws` is the random key of the forward launch; None for the last one with the same scalars. `replaced` returns
        arrays for bound ones, if `taped` all of `prepare_taped().before`; then `verify` ran after the forward launch.
        """
        if self.program.constant or not self.program.kernel.has_real_arrays():
            return
        backward = self.prepare_taped() if taped else self.prepare_grad()
        draws = self.draws_reverse(scalars) if draws is None else draws
        with rounding_launch(self.halves):
            if RUNTIME.forward is not None:
                if not taped:
                    backward.verify(scalars, draws)
                RUNTIME.forward.run_gradient(self, backward, scalars, draws, replaced)
            else:
                given, capture = replaced(None), RUNTIME.capture
                with nullcontext() if capture is None else capture.recorded(self, "reverse", scalars, draws, given):
                    backward.run(scalars, draws, given, verified=taped)

    def draws_forward(self, scalars: Scalars) -> Draws:
        """Return the random key of a new launch with these scalar arguments."""
        return self.program.draws.new(self._arguments(scalars)) if self.program.has_random else NO_DRAWS

    def draws_reverse(self, scalars: Scalars) -> Draws:
        """Return the random key of the last launch with these arguments. Raise NotDifferentiable if there is none."""
        program = self.program
        return program.draws.last(self._arguments(scalars), program) if program.has_random else NO_DRAWS

    def _arguments(self, scalars: Scalars) -> tuple[object, ...]:
        """Return a key that identifies a launch by the addresses of its arrays and by its scalar arguments.

        It leaves out results, whose names begin with $, and read-only copies of arrays: they are new for each launch.
        """
        if self._places is None:
            lasting = [a for name, a in self.memory.items() if a.flags.writeable and not name.startswith("$")]
            self._places = tuple([a.__array_interface__["data"][0] for a in lasting])
        return self._places, *scalars.values()

    def touched_boxes(self, scalars: Scalars) -> dict[Array, list[Box]]:
        """Return the boxes of each field that a launch with these arguments may read or write."""
        shapes, regions = shapes_of(self.memory), self.program.forward_regions()
        found: dict[Array, list[Box]] = {}
        for boxes in (regions.read_boxes(scalars, shapes), regions.write_boxes(scalars, shapes)):
            for name, own in boxes.items():
                array = self.arrays.get(name)
                if isinstance(array, Array):
                    found.setdefault(array, []).extend(own)
        return found

    def write_boxes(self, scalars: Scalars) -> Mapping[Array, list[Box]]:
        """Return the boxes of each field that a launch with these arguments may write."""
        return self._boxes.of(scalars, lambda: written_boxes(self, scalars))

    def prepare_grad(self) -> BoundGradient:
        """Return the gradient bound to the arrays of this binding; the first call lowers it."""
        if self.backward is None:
            self.backward = BoundGradient(
                self, TouchedArrays(self.program.reverse_side(), self.program.reverse_regions())
            )
        return self.backward

    def prepare_taped(self) -> BoundGradient:
        """Return the gradient for a tape, bound to these arrays; it may need copies of their earlier contents."""
        if self.taped is None:
            self.taped = BoundGradient(self, self.program.taped())
        return self.taped

    def detached(self, names: frozenset[str]) -> Binding:
        """Return a binding that is constant to a tape; its gradient only clears adjoints of overwritten elements."""
        found = self._detached.get(names)
        if found is None:
            found = self._detached[names] = Binding(self.program.detached(names), self.arrays)
            found.own = self.own
        return found

    def lookup(self, name: str) -> Array | np.ndarray:
        """Return the array that a parameter of the kernel, or of its gradient, is bound to."""
        return bound_to(self.program, self.arrays, name)
