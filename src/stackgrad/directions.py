"""One direction of a program: what a launch of it does to which arrays, and a gradient tied to memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .bound import GRAD, bound_to, boxes_by_field, fields_of, memory_of, shapes_of, version_source
from .compiler.ir.nodes import Atomic, Kernel, Load, Store
from .compiler.ir.types import ArrayType
from .compiler.ir.walk import walk_kernel
from .compiler.sizing.regions import Box, Regions
from .fields import Array
from .session import RUNTIME, stamp

if TYPE_CHECKING:
    from .backends.base import Draws, Scalars
    from .backends.launcher import Launcher
    from .kept import Before
    from .program import Binding

NOTHING: Mapping[str, Before] = {}


class Side:
    """One direction of a program: its launcher, and the names of the arrays it uses, writes, reads and is sized by."""

    __slots__ = ("launcher", "arrays", "writes", "reads")

    def __init__(self, launcher: Launcher) -> None:
        kernel, lowered = launcher.kernel, launcher.lowered
        implicit = implicit_adjoints(kernel)
        names = [p.name for p in kernel.params if isinstance(p.type, ArrayType) and p.name not in lowered.before]
        self.launcher = launcher
        self.arrays = (*names, *implicit)
        self.writes = tuple(sorted((lowered.writes | implicit) - lowered.before.keys()))
        self.reads = tuple(sorted(set(lowered.reads) | set(launcher.bound_arrays)))


class Direction(NamedTuple):
    """A gradient: what its launch does to which arrays, and to which of their elements."""

    side: Side
    regions: Regions


class Backward:
    """The gradient of a binding: its memory, what it writes, and which primals it reads.

    reads: fields whose content the gradient needs, by the sweep or by the count of its adstacks; adjoints are not
    among them. foreign: names of NumPy arrays it needs, whose writes nobody sees; not those of one launch alone.
    before: the array behind each copy of what was there before the launch.
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
        "regions",
        "_versions",
    )

    def __init__(self, binding: Binding, direction: Direction) -> None:
        program, arrays = binding.program, binding.arrays
        side = direction.side
        self.program = program
        self.regions = direction.regions
        self.before = side.launcher.lowered.before
        self.arrays = arrays
        self.launcher = side.launcher
        self.memory = memory_of(program, arrays, side.arrays)
        self.written = fields_of(program, arrays, side.writes)
        named = dict.fromkeys(self.before.get(name, name) for name in side.reads)
        primals = [name for name in named if name in arrays and not name.endswith(GRAD)]
        self.reads = fields_of(program, arrays, primals)
        others = (name for name in primals if not isinstance(arrays[name], Array))
        self.foreign = tuple(name for name in others if name not in binding.own)
        self._versions = version_source(program, arrays, side.launcher)

    def read_boxes(self, scalars: Scalars, kept: Mapping[str, Before] = NOTHING) -> dict[Array, list[Box]]:
        """Which elements of which primals the gradient with these arguments may read.

        kept: of what was there before the launch; a copy that is made of nothing else does not read the primal.
        """
        found = self.regions.read_boxes(scalars, self._shapes())
        boxes = {name: own for name, own in found.items() if not self._is_kept(name, own, kept)}
        return boxes_by_field(self.program, self.arrays, boxes, self.reads, self.before)

    def _is_kept(self, name: str, boxes: list[Box], kept: Mapping[str, Before]) -> bool:
        before = kept.get(self.before.get(name, ""))
        return before is not None and all(before.primal.holds(box) for box in boxes)

    def adjoint_boxes(self, array: Array, scalars: Scalars) -> list[Box]:
        """Which elements of the adjoint of an array the gradient may read or write."""
        shapes, names = self._shapes(), [n for n in self.memory if bound_to(self.program, self.arrays, n) is array.grad]
        found = (self.regions.read_boxes(scalars, shapes), self.regions.write_boxes(scalars, shapes))
        return [box for boxes in found for name in names for box in boxes.get(name, ())]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        copies = {copy: self.arrays[name].shape for copy, name in self.before.items()}
        return {**shapes_of(self.memory), **copies}

    def verify(self, scalars: Scalars, draws: Draws) -> None:
        """Raise NotDifferentiable, located, where the gradient would be wrong at the present state; see `marks`."""
        self.launcher.verify(self.memory, scalars, draws, self._stamps())

    def _stamps(self) -> tuple[int, ...] | None:
        versions = self._versions
        return None if versions is None else tuple([f.version for f in versions])

    def run(self, scalars: Scalars, draws: Draws, replaced: Mapping[str, np.ndarray], verified: bool = False) -> None:
        """Run the gradient once, unwatched; see `Binding.launch_grad`. verified: by `verify`, after the launch."""
        memory = {**self.memory, **replaced} if replaced else self.memory
        try:
            self.launcher.run(memory, scalars, draws, self._stamps(), verified)
        finally:
            for field in self.written:
                field.version = stamp()


def implicit_adjoints(kernel: Kernel) -> frozenset[str]:
    """Adjoint arrays that a kernel of stage adjoint uses by the name `x.grad` without a parameter of that name."""
    named = {p.name for p in kernel.params}
    adjoints = {p.name + GRAD for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad} - named
    used = {s.array for s in walk_kernel(kernel) if isinstance(s, (Load, Store, Atomic))}
    return frozenset(used & adjoints)


def is_checked() -> bool:
    """Whether what the program claims is looked at."""
    return RUNTIME.settings.debug or RUNTIME.settings.arch == "reference"


def is_by_hand(reverse: Launcher) -> bool:
    """Whether some launches of a gradient are refused that are right where the state before the launch is at hand."""
    return reverse.lowered.marking is not None and reverse.lowered.marking.by_hand
