"""Represent one direction of a program, forward or gradient, and the gradient of a binding with its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..compiler.ir.kernels import Kernel
from ..compiler.ir.roles import ACCESSES
from ..compiler.ir.types import ArrayType
from ..compiler.ir.walk import walk_kernel
from ..compiler.sizing.regions import AccessRegions, Box
from ..data.fields import Array
from ..runtime.session import RUNTIME, stamp
from .bound import GRAD, KeptBoxes, bound_to, boxes_by_field, fields_of, memory_of, shapes_of, version_source

if TYPE_CHECKING:
    from ..backends.base import Draws, Scalars
    from ..backends.launching.launcher import Launcher
    from .program import Binding
    from .saved_boxes import BeforeContent

NOTHING: Mapping[str, BeforeContent] = {}


class ProgramSide:
    """Represent one direction of a program: its launcher, and the names of the arrays that it uses.

    Attributes:
        launcher: The launcher of the direction.
        arrays: Names of all arrays that a launch gets.
        writes: Names of the arrays that a launch writes.
        reads: Names of the arrays that a launch reads, including those whose contents decide sizes.
    """

    __slots__ = ("launcher", "arrays", "writes", "reads")

    def __init__(self, launcher: Launcher) -> None:
        kernel, lowered = launcher.kernel, launcher.lowered
        implicit = implicit_adjoints(kernel)
        copies = lowered.before.keys() | lowered.states.keys()
        names = [p.name for p in kernel.params if isinstance(p.type, ArrayType) and p.name not in copies]
        self.launcher = launcher
        self.arrays = (*names, *implicit)
        self.writes = tuple(sorted((lowered.writes | implicit) - copies))
        self.reads = tuple(sorted(set(lowered.reads) | set(launcher.bound_arrays)))


class TouchedArrays(NamedTuple):
    """Hold the arrays that a program's gradient uses, and the analysis of which elements its launch touches.

    Attributes:
        side: The arrays of the launch.
        regions: The elements of these arrays that the launch touches.
    """

    side: ProgramSide
    regions: AccessRegions


class BoundGradient:
    """Represent the gradient of a binding: its launcher, its arrays, and the primals that it reads.

    Attributes:
        program: The program.
        arrays: The arrays of the binding by name.
        launcher: The launcher of the gradient.
        memory: The memory of the gradient by name.
        written: The fields that the gradient writes.
        reads: The fields, without adjoints, whose contents the gradient needs for its sweeps or for the sizes of its
            adstacks.
        foreign: Names of the arrays that the gradient needs and whose contents a tape cannot restore: NumPy arrays,
            which other code may write without notice, unless they were made for this launch; and gradients of fields,
            which other launches update.
        before: For each array parameter that is a copy of earlier contents, the name of the original.
        states: For each array parameter that is a state of an adjoint, the name of the adjoint.
        regions: The elements that a launch of the gradient touches.
    """

    __slots__ = (
        "program",
        "arrays",
        "launcher",
        "memory",
        "written",
        "reads",
        "foreign",
        "before",
        "states",
        "regions",
        "_writes",
        "_versions",
        "_boxes",
    )

    def __init__(self, binding: Binding, direction: TouchedArrays) -> None:
        program, arrays = binding.program, binding.arrays
        side = direction.side
        self.program = program
        self.regions = direction.regions
        self.before = side.launcher.lowered.before
        self.states = side.launcher.lowered.states
        self.arrays = arrays
        self.launcher = side.launcher
        self.memory = memory_of(program, arrays, side.arrays)
        self._writes = side.writes
        self.written = fields_of(program, arrays, side.writes)
        named = dict.fromkeys(self.before.get(name, name) for name in side.reads)
        adjoints = {name + GRAD for name in program.gradients}
        primals = [name for name in named if name in arrays and name not in adjoints]
        others = [name for name in primals if _is_foreign(arrays[name])]
        self.reads = fields_of(program, arrays, [name for name in primals if name not in others])
        self.foreign = tuple(name for name in others if name not in binding.own)
        self._versions = version_source(program, arrays, side.launcher)
        self._boxes = KeptBoxes()

    @property
    def has_effect(self) -> bool:
        """Return False if launching the gradient changes nothing and checks nothing, as no derivative flows."""
        lowered = self.launcher.lowered
        return bool(self._writes) or lowered.marking is not None or lowered.claims is not None

    def read_boxes(self, scalars: Scalars, kept: Mapping[str, BeforeContent] = NOTHING) -> Mapping[Array, list[Box]]:
        """Return the boxes of each primal array that the gradient may read with these scalar arguments.

        Args:
            scalars: The scalar arguments by name.
            kept: The saved earlier contents by parameter. A copy that is made of saved contents alone does not read the
                primal.
        """
        if not kept:
            return self._boxes.of(scalars, lambda: self._find_read(scalars, kept))
        return self._find_read(scalars, kept)

    def _find_read(self, scalars: Scalars, kept: Mapping[str, BeforeContent]) -> dict[Array, list[Box]]:
        found = self.regions.read_boxes(scalars, self._shapes())
        read = found.keys() - self.states.keys()
        boxes = {name: own for name, own in found.items() if name in read and not self._is_kept(name, own, kept)}
        return boxes_by_field(self.program, self.arrays, boxes, self.reads, self.before)

    def _is_kept(self, name: str, boxes: list[Box], kept: Mapping[str, BeforeContent]) -> bool:
        """Return True if the saved contents hold all boxes that a gradient reads of an array's earlier contents."""
        before = kept.get(self.before.get(name, ""))
        return before is not None and all(before.primal.holds(box) for box in boxes)

    def adjoint_boxes(self, array: Array, scalars: Scalars) -> list[Box]:
        """Return the boxes of an array's adjoint that the gradient may read or write."""
        # A gradient of an array that the kernel does not use is data to it, and no adjoint.
        own = [name + GRAD for name in self.program.gradients if name + GRAD in self.memory]
        names, shapes = [n for n in own if bound_to(self.program, self.arrays, n) is array.grad], self._shapes()
        found = (self.regions.read_boxes(scalars, shapes), self.regions.write_boxes(scalars, shapes))
        return [box for boxes in found for name in names for box in boxes.get(name, ())]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each array of the gradient by name, including copies of earlier contents."""
        copies = {copy: self.arrays[name].shape for copy, name in (*self.before.items(), *self.states.items())}
        return {**shapes_of(self.memory), **copies}

    def is_gradient(self, name: str) -> bool:
        """Return True if an array parameter is a gradient that the kernel reads as data, or a copy of one."""
        found = self.arrays.get(self.before.get(name, name))
        return name in self.states or isinstance(found, Array) and found.is_grad

    def in_place_of(self, gradients: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return those of the given copies of adjoint arrays that the gradient reads, by the name of its parameter."""
        named = {**{name: name for name in self.foreign}, **self.states}
        return {parameter: gradients[name] for parameter, name in named.items() if name in gradients}

    def present_states(self) -> dict[str, np.ndarray]:
        """Return the states of adjoints that the launch reads: copies of the present contents, by parameter."""
        return copied_states(self.states, self.memory)

    def states_along(self, duals: Mapping[str, list[np.ndarray]], direction: int | None) -> dict[str, np.ndarray]:
        """Return `present_states` with their tangents along a direction, given the tangents of gradients by name."""
        along = {f"{copy}.dual": duals[name][direction or 0].copy() for copy, name in self.states.items()}
        return {**self.present_states(), **along}

    def verify(self, scalars: Scalars, draws: Draws) -> None:
        """Raise a located NotDifferentiable if the gradient would be wrong for the present contents of the arrays."""
        self.launcher.verify(self.memory, scalars, draws, self._stamps())

    def _stamps(self) -> tuple[int, ...] | None:
        """Return the versions of the arrays that decide adstack sizes, or None if one of the arrays has no version."""
        versions = self._versions
        return None if versions is None else tuple([f.version for f in versions])

    def run(self, scalars: Scalars, draws: Draws, replaced: Mapping[str, np.ndarray], verified: bool = False) -> None:
        """Run the gradient once, without notifying watchers; see `Binding.launch_grad`.

        Args:
            scalars: The scalar arguments by name.
            draws: The key of the random numbers of the forward launch.
            replaced: Arrays to use in place of bound ones, by parameter name.
            verified: True if `verify` has already run, after the forward launch.
        """
        if not self.states.keys() <= replaced.keys():
            replaced = {**self.present_states(), **replaced}
        memory = {**self.memory, **replaced} if replaced else self.memory
        # The version of an array is that of its present content, and not that of the array in its place.
        versions = self._stamps() if replaced.keys().isdisjoint(self.launcher.versioned) else None
        try:
            self.launcher.run(memory, scalars, draws, versions, verified)
        finally:
            for field in self.written:
                field.version = stamp()


def copied_states(states: Mapping[str, str], memory: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return copies of the present contents of adjoint arrays, which `states` names, by parameter."""
    if states:
        RUNTIME.settle()
    return {copy: memory[name].copy() for copy, name in states.items()}


def _is_foreign(array: Array | np.ndarray) -> bool:
    """Return True if a tape cannot put back earlier contents of an array: foreign memory, or a gradient."""
    return not isinstance(array, Array) or array.is_grad


def implicit_adjoints(kernel: Kernel) -> frozenset[str]:
    """Return the names `x.grad` of adjoint arrays that a grad kernel uses without declaring them."""
    named = {p.name for p in kernel.params}
    adjoints = {p.name + GRAD for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad} - named
    used = {s.array for s in walk_kernel(kernel) if isinstance(s, ACCESSES)}
    return frozenset(used & adjoints)


def is_checked() -> bool:
    """Return True if claims of the program, such as `sg.assume_unique`, are checked before each gradient."""
    return RUNTIME.settings.debug or RUNTIME.settings.arch == "reference"


def is_by_hand(reverse: Launcher) -> bool:
    """Return True if the gradient's marking kernel also finds elements overwritten later, as only `k.grad` needs."""
    return reverse.lowered.marking is not None and reverse.lowered.marking.by_hand
