"""A source kernel made launchable: `Program` lowers and compiles it, `Binding` ties it to memory and launches it.

Invariant: after a launch, also one that raised, every field it may have written has a new version; before it, every
active tape has saved what the launch will destroy and an earlier gradient still reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np

from .backends.base import Draws
from .backends.launcher import NO_DRAWS, Launcher
from .backends.words import WATCHED
from .bound import bound_to, boxes_by_field, fields_of, memory_of, shapes_of, version_source
from .compiler.errors import NotDifferentiable, Span
from .compiler.ir.nodes import Kernel, Random
from .compiler.ir.types import ArrayType
from .compiler.ir.walk import walk_kernel
from .compiler.sizing.regions import Box, Regions
from .directions import Backward, Direction, Side, is_by_hand, is_checked
from .dump import dump_kernels
from .fields import Array
from .halves import accumulators, rounded
from .lowerings import lowered
from .session import RUNTIME, stamp
from .watched import launch_watched

if TYPE_CHECKING:
    from .backends.base import Scalars
    from .backends.launcher import Lowered
    from .guards import Guard
    from .ordered import Ordering

NOTHING: Mapping[str, np.ndarray] = {}
Replaced = Callable[[int | None], Mapping[str, np.ndarray]]
"""Arrays by name; with the number of a direction of forward mode their tangents, `x.dual`, too."""
_KEPT_DRAWS = 65536


def nothing(direction: int | None) -> Mapping[str, np.ndarray]:
    """No array stands in for another one."""
    return NOTHING


class Program:
    """A source kernel under the settings of one generation. Lowered and compiled when first needed.

    span: where the kernel is defined, for messages. constant: its launches are, to derivatives; its gradient is empty.
    Raises the located errors of the compiler on first use.
    """

    __slots__ = (
        "kernel",
        "span",
        "generation",
        "has_random",
        "_forward",
        "_reverse",
        "_draws",
        "_forward_regions",
        "_reverse_regions",
        "_forward_side",
        "_reverse_side",
        "_tangents",
        "_second",
        "_taped",
        "_detached",
        "_overwritten",
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
        self._forward: Launcher | None = None
        self._reverse: Launcher | None = None
        self._draws: dict[object, Draws] = {}
        self._forward_regions: Regions | None = None
        self._reverse_regions: Regions | None = None
        self._forward_side: Side | None = None
        self._reverse_side: Side | None = None
        self._tangents: dict[tuple[frozenset[str], frozenset[str]], Launcher] = {}
        self._second: dict[tuple[frozenset[str], frozenset[str], bool], Launcher] = {}
        self._detached: dict[frozenset[str], Program] = {}
        self._overwritten: frozenset[str] | None = None
        self._taped: Direction | None = None
        self.orderings: dict[bool, Ordering | None] = {}
        self.guards: tuple[Guard, ...] = ()

    @property
    def label(self) -> str:
        """How messages name the kernel: its name, and file and line if it has them."""
        return f"{self.kernel.name} ({self.span.file}:{self.span.line})" if self.span else self.kernel.name

    @property
    def forward(self) -> Launcher:
        """Launches the kernel itself."""
        if self._forward is None:
            from .compiler.driver import prepare_forward

            debug = RUNTIME.settings.debug
            self._forward = self._launcher(lowered(prepare_forward, self.kernel, check=debug, stated=debug), "forward")
        return self._forward

    @property
    def reverse(self) -> Launcher:
        """Launches its gradient. Raises NotDifferentiable and Unsupported, located."""
        if self._reverse is None:
            self._need_gradients()
            from .compiler.driver import prepare_reverse

            made = lowered(prepare_reverse, self.kernel, check=RUNTIME.settings.debug, stated=is_checked())
            self._reverse = self._launcher(made, "reverse")
        return self._reverse

    @property
    def taped(self) -> Direction:
        """The gradient where the state before the launch is at hand: that of hand-called gradients if it needs none."""
        if self._taped is None:
            self._taped = self._own_taped() or Direction(self.reverse_side, self.reverse_regions)
        return self._taped

    def _own_taped(self) -> Direction | None:
        """The gradient that takes copies of what was there before; None if it needs none, and is `reverse`."""
        if self._reverse is not None and not is_by_hand(self._reverse):
            return None
        self._need_gradients()
        from .compiler.driver import prepare_reverse

        check = RUNTIME.settings.debug
        made = lowered(prepare_reverse, self.kernel, check=check, taped=True, stated=is_checked())
        launcher = self._launcher(made, "reverse.taped" if made.before else "reverse")
        if made.before or self._reverse is not None:
            return Direction(Side(launcher), Regions(launcher.kernel))
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
        """Launches the kernel with tangents `x.dual` of these array parameters. Raises NotDifferentiable, located.

        constants: carriers of which the kernel reads content alone; what it stores there still has tangents.
        """
        found = self._tangents.get((carriers, constants))
        if found is None:
            from .compiler.ad.detach import detach_loads
            from .compiler.driver import prepare_tangent

            kernel = detach_loads(self.kernel, constants)
            made = lowered(prepare_tangent, kernel, carriers, check=RUNTIME.settings.debug)
            found = self._tangents[carriers, constants] = self._launcher(made, "tangent")
        return found

    def second(self, carriers: frozenset[str], constants: frozenset[str], taped: bool) -> Launcher:
        """Launches the gradient with tangents; see `tangent`. taped: the gradient that tapes take."""
        found = self._second.get((carriers, constants, taped))
        if found is None:
            from .compiler.driver import prepare_second

            gradient = (self.taped.side if taped else self.reverse_side).launcher
            before, check = gradient.lowered.before, RUNTIME.settings.debug
            made = lowered(prepare_second, gradient.kernel, carriers, constants, before, check=check)
            found = self._second[carriers, constants, taped] = self._launcher(made, "reverse.tangent")
        return found

    def detached(self, names: frozenset[str]) -> Program:
        """The kernel as a constant, of which these arrays alone have adjoints; see `compiler.ad.detach`."""
        found = self._detached.get(names)
        if found is None:
            from .compiler.ad.detach import detach

            found = self._detached[names] = Program(detach(self.kernel, names), self.span)
        return found

    @property
    def overwritten(self) -> frozenset[str]:
        """Real array parameters of which the kernel may replace elements, and whose adjoints it does not use."""
        if self._overwritten is None:
            from .compiler.ad.detach import overwritten_arrays

            self._overwritten = overwritten_arrays(self.kernel)
        return self._overwritten

    @property
    def forward_side(self) -> Side:
        """What a forward launch does to which arrays."""
        if self._forward_side is None:
            self._forward_side = Side(self.forward)
        return self._forward_side

    @property
    def reverse_side(self) -> Side:
        """What a gradient launch does to which arrays."""
        if self._reverse_side is None:
            self._reverse_side = Side(self.reverse)
        return self._reverse_side

    @property
    def forward_regions(self) -> Regions:
        """Which elements a forward launch touches."""
        if self._forward_regions is None:
            self._forward_regions = Regions(self.forward.kernel)
        return self._forward_regions

    @property
    def reverse_regions(self) -> Regions:
        """Which elements a gradient launch touches."""
        if self._reverse_regions is None:
            self._reverse_regions = Regions(self.reverse.kernel)
        return self._reverse_regions

    @property
    def launchers(self) -> tuple[Launcher | None, Launcher | None]:
        """Forward and reverse, as far as they were needed."""
        taped = self._taped.side.launcher if self._taped else None
        return self._forward, self._reverse or taped

    @property
    def gradients(self) -> tuple[str, ...]:
        """Array parameters that have an adjoint array."""
        return tuple(p.name for p in self.kernel.params if isinstance(p.type, ArrayType) and p.type.grad)

    def _launcher(self, made: Lowered, kind: str) -> Launcher:
        dump_kernels(self.kernel, made, kind)
        launcher = Launcher(made, RUNTIME.backend, RUNTIME.options)
        RUNTIME.launchers.add(launcher)
        return launcher

    # -- random numbers -------------------------------------------------------------------------------------

    def draws_forward(self, arguments: tuple[object, ...]) -> Draws:
        """The key of a new forward launch, kept for the gradient at the same arguments."""
        draws = RUNTIME.draws()
        if len(self._draws) >= _KEPT_DRAWS:
            self._draws.pop(next(iter(self._draws)))
        self._draws[arguments] = draws
        return draws

    def draws_reverse(self, arguments: tuple[object, ...]) -> Draws:
        """The key of the last forward launch with these arguments: the gradient replays its draws."""
        try:
            return self._draws[arguments]
        except KeyError:
            raise NotDifferentiable(
                f"kernel {self.kernel.name} draws random numbers, and was not launched with these arguments before",
                "launch the kernel with the same arguments before its grad",
                self.span,
            ) from None


class Binding:
    """A program and the memory it runs on.

    arrays: a field, or a NumPy array, for each array parameter, and, only where it is not the field's own gradient,
    for `x.grad`. The arrays fit their parameters (the maker of the binding has checked). own: those of one launch
    alone. again: does what the launch of the binding does, with arrays of its own where it has any.
    """

    __slots__ = (
        "program",
        "arrays",
        "memory",
        "written",
        "backward",
        "taped",
        "again",
        "own",
        "halves",
        "_versions",
        "_detached",
        "_places",
        "__weakref__",
    )

    def __init__(self, program: Program, arrays: Mapping[str, Array | np.ndarray]) -> None:
        self.program = program
        self.arrays = dict(arrays)
        side = program.forward_side
        self.memory = memory_of(program, self.arrays, side.arrays)
        self.written = fields_of(program, self.arrays, side.writes)
        self._versions = version_source(program, self.arrays, side.launcher)
        self.backward: Backward | None = None
        self.taped: Backward | None = None
        self.again: Callable[[Scalars], None] = self.launch
        self.own: Mapping[str, np.ndarray] = NOTHING
        self.halves = accumulators(self.arrays.values())
        self._detached: dict[frozenset[str], Binding] = {}
        self._places: tuple[int, ...] | None = None

    def launch(self, scalars: Scalars) -> None:
        """Run the kernel. Scalars by name, of the parameters' types."""
        with rounded(self.halves):
            if RUNTIME.words[WATCHED] and launch_watched(self, scalars):
                return
            self.run(scalars, self.draws_forward(scalars) if self.program.has_random else NO_DRAWS)

    def run(self, scalars: Scalars, draws: Draws) -> None:
        """Run the kernel with this key of random numbers, unwatched."""
        versions = self._versions
        try:
            self.program.forward.run(
                self.memory, scalars, draws, None if versions is None else tuple([f.version for f in versions])
            )
        finally:
            for field in self.written:
                field.version = stamp()

    def launch_grad(
        self, scalars: Scalars, draws: Draws | None = None, replaced: Replaced = nothing, taped: bool = False
    ) -> None:
        """Run the gradient at the current content of all arrays; adjoints are in the `.grad` arrays.

        draws: of the forward launch; None for those of the last one with the same scalars. replaced: gives arrays for
        bound ones, new each time. taped: with all of `prepare_taped().before`, whose `verify` saw what it left.
        """
        if self.program.constant:
            return
        backward = self.prepare_taped() if taped else self.prepare_grad()
        draws = self.draws_reverse(scalars) if draws is None else draws
        with rounded(self.halves):
            if RUNTIME.forward is not None:
                if not taped:
                    backward.verify(scalars, draws)
                RUNTIME.forward.run_gradient(self, backward, scalars, draws, replaced)
            else:
                given, capture = replaced(None), RUNTIME.capture
                with nullcontext() if capture is None else capture.recorded(self, "reverse", scalars, draws, given):
                    backward.run(scalars, draws, given, verified=taped)

    def draws_forward(self, scalars: Scalars) -> Draws:
        """The key of random numbers of a new launch."""
        return self.program.draws_forward(self._arguments(scalars)) if self.program.has_random else NO_DRAWS

    def draws_reverse(self, scalars: Scalars) -> Draws:
        """The key of the last launch with these numbers on these arrays. Raises NotDifferentiable."""
        return self.program.draws_reverse(self._arguments(scalars)) if self.program.has_random else NO_DRAWS

    def _arguments(self, scalars: Scalars) -> tuple[object, ...]:
        """What tells launches apart: where their arrays are, and their numbers.

        Results, whose names begin with $, and read-only copies of the caller's arrays are made anew for each launch.
        """
        if self._places is None:
            lasting = [a for name, a in self.memory.items() if a.flags.writeable and not name.startswith("$")]
            self._places = tuple([a.__array_interface__["data"][0] for a in lasting])
        return self._places, *scalars.values()

    def touched_boxes(self, scalars: Scalars) -> dict[Array, list[Box]]:
        """Which elements of which fields a launch with these arguments may read or write."""
        shapes, regions = shapes_of(self.memory), self.program.forward_regions
        found: dict[Array, list[Box]] = {}
        for boxes in (regions.read_boxes(scalars, shapes), regions.write_boxes(scalars, shapes)):
            for name, own in boxes.items():
                array = self.arrays.get(name)
                if isinstance(array, Array):
                    found.setdefault(array, []).extend(own)
        return found

    def write_boxes(self, scalars: Scalars) -> dict[Array, list[Box]]:
        """Which elements of which fields a launch with these arguments may write."""
        boxes = self.program.forward_regions.write_boxes(scalars, shapes_of(self.memory))
        return boxes_by_field(self.program, self.arrays, boxes, self.written)

    def prepare_grad(self) -> Backward:
        """The gradient tied to memory, lowered at the first call."""
        if self.backward is None:
            self.backward = Backward(self, Direction(self.program.reverse_side, self.program.reverse_regions))
        return self.backward

    def prepare_taped(self) -> Backward:
        """The gradient for a tape, which also takes copies of arrays as they were before the launch."""
        if self.taped is None:
            self.taped = Backward(self, self.program.taped)
        return self.taped

    def detached(self, names: frozenset[str]) -> Binding:
        """The kernel as a constant: its gradient ends the adjoints of what it replaces in these arrays, no more."""
        found = self._detached.get(names)
        if found is None:
            found = self._detached[names] = Binding(self.program.detached(names), self.arrays)
            found.own = self.own
        return found

    def lookup(self, name: str) -> Array | np.ndarray:
        """What a parameter of the kernel, or of its gradient, is bound to."""
        return bound_to(self.program, self.arrays, name)
