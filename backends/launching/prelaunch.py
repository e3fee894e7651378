"""Launch counting and marking kernels on the arrays of another kernel, before it runs.

Each of these kernels is an ordinary kernel of the backend. `key` names the state on which its result depends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...compiler.errors import DeviceError
from ...compiler.ir.cached import cached_property
from ...compiler.ir.kernels import Kernel
from ...compiler.ir.nodes import Arg, Random, Shape, StackAlloca
from ...compiler.ir.roles import ARRAY_READS
from ...compiler.ir.walk import walk, walk_kernel
from ...compiler.sizing.count_limit import ROOM
from ...compiler.sizing.counting_kernel import count_within
from ..base import (
    SLABS,
    Arrays,
    Backend,
    Draws,
    Executable,
    LaunchTooLong,
    MemoryLimited,
    Options,
    Remote,
    Scalars,
    Sizes,
)
from ..host_memory import memory_of_machine
from .launch_collectors import execute
from .lowered import LoweringLike, MarkingKernelLike

DEPTHS, ROWS, TOTALS = "$depths", "$rows", "$totals"
"""Names of the arrays that the counting kernel fills.

They hold the depth of each stack in the order of the text; three rows a task, in the order of SLABS; and the sum of the
depths of each stack over all iterations.
"""

LITTLE = 1 << 28
"""Number of bytes of adstacks that every machine has."""

CONFLICTS, PLANES = "$conflicts", 3
"""Name of the array of conflicts that a marking kernel fills, and number of marks of an element."""

NO_SIZES = Sizes()
NO_DRAWS = Draws()


class PreLaunch:
    """Represent a kernel that is launched before another kernel on the same arrays, with the inputs that it reads.

    Attributes:
        kernel: counting or marking kernel
        backend: backend that compiles and runs it
        options: options by which it is compiled
        executable: the executable, if it is compiled
        params: array parameters that are arrays of the other kernel
        loads: those of `params` from which the kernel loads elements
        shapes: arrays whose shape is read
        scalars: scalars that are read
        reals: those of `scalars` that are real
        draws: True if the kernel draws
    """

    def __init__(self, kernel: Kernel, own: frozenset[str], backend: Backend, options: Options) -> None:
        """Analyze the inputs of a kernel; `own` names parameters that get arrays of their own at each launch."""
        self.kernel = kernel
        self.backend = backend
        self.options = options
        self.executable: Executable | None = None
        types = kernel.array_types()
        self.params = tuple(p.name for p in kernel.params if p.name in types and p.name not in own)
        statements = list(walk_kernel(kernel))
        read = {s.array for s in statements if isinstance(s, ARRAY_READS)}
        self.loads = tuple(name for name in self.params if name in read)
        self.shapes = tuple(sorted({s.array for s in statements if isinstance(s, Shape)} - own))
        scalars = kernel.scalar_types()
        self.scalars = tuple(sorted({s.name for s in statements if isinstance(s, Arg)}))
        self.reals = tuple(name for name in self.scalars if scalars[name].is_real)
        self.draws = any(isinstance(s, Random) for s in statements)

    def key(self, arrays: Arrays, scalars: Scalars, draws: Draws, versions: tuple[int, ...] | None) -> object | None:
        """Return a key of all on which the kernel's result depends, or None if it reads an array without a version.

        Equal keys mean equal results. There is no key if the caller keeps no versions of arrays that are loaded.
        """
        if versions is None:
            if self.loads:
                return None
            versions = ()
        shapes = tuple([arrays[name].shape for name in self.shapes])
        values = tuple([scalars[name] for name in self.scalars])
        # The number -0.0 equals 0.0, but a result may depend on the sign.
        signs = tuple([math.copysign(1.0, scalars[name]) for name in self.reals])
        return versions, shapes, values, signs, draws if self.draws else None

    def compile(self) -> Executable:
        """Return the executable of the kernel, compiled at the first call."""
        if self.executable is None:
            self.executable = self.backend.compile(self.kernel, self.options)
        return self.executable


class MarkingLaunch(PreLaunch):
    """Represent the marking kernel of a launcher, and run it before a gradient to find conflicts."""

    def __init__(self, marking: MarkingKernelLike, backend: Backend, options: Options) -> None:
        super().__init__(marking.kernel, frozenset((CONFLICTS, *marking.names)), backend, options)
        self.marking = marking
        self.shapes = tuple(sorted({*self.shapes, *marking.marked}))

    def look(self, arrays: Arrays, scalars: Scalars, draws: Draws) -> None:
        """Run the marking kernel on new arrays of marks, and raise an error if two accesses conflict."""
        self.marking.check_sizes({name: arrays[name].size for name in self.marking.marked})
        marks = [np.zeros((*arrays[name].shape, PLANES), np.int64) for name in self.marking.marked]
        conflicts = np.zeros((len(self.marking.reads), self.marking.width), np.int64)
        memory = {name: arrays[name] for name in self.params}
        memory |= dict(zip(self.marking.names, marks))
        execute(self.compile(), {**memory, CONFLICTS: conflicts}, scalars, NO_SIZES, draws)
        if conflicts.any():
            raise self.marking.refusal(marks, conflicts)


class CountingLaunch(PreLaunch):
    """Represent the counting kernel of a launcher, and run it to find the sizes of the adstacks."""

    def __init__(self, lowered: LoweringLike, backend: Backend, options: Options) -> None:
        assert lowered.counting is not None
        own = frozenset((DEPTHS, ROWS, TOTALS, ROOM))
        super().__init__(lowered.counting, own, backend, replace(options, interruptible=True))
        self.counted = lowered.kernel
        self.may_be_endless = False
        if not getattr(backend, "ends_long_launches", False):
            self._end_with_memory()
        self.shadow = tuple(sorted(lowered.shadow))
        self.slots = [s for s in walk_kernel(lowered.kernel) if isinstance(s, StackAlloca)]
        self.tasks = len(lowered.kernel.tasks)

    def copy(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of an array, in device memory if the backend runs kernels on a device."""
        return self.backend.duplicate(array) if isinstance(self.backend, Remote) else array.copy()

    def _end_with_memory(self) -> None:
        """Let the counting kernel stop as soon as it has counted more than any memory can hold."""
        self.kernel = count_within(self.counted, self.kernel)
        self.options = replace(self.options, endless=True)
        self.executable, self.may_be_endless = None, any(p.name == ROOM for p in self.kernel.params)

    def count(self, arrays: Arrays, scalars: Scalars, draws: Draws) -> Sizes:
        """Run the counting kernel on copies of the arrays that it writes, and return the adstack sizes found.

        Where no memory holds the stacks, the true depths may exceed those that are found.
        """
        try:
            return self._count(arrays, scalars, draws)
        except LaunchTooLong:
            self._end_with_memory()
            return self._count(arrays, scalars, draws)

    def _count(self, arrays: Arrays, scalars: Scalars, draws: Draws) -> Sizes:
        """Run the counting kernel once and return its sizes; raise LaunchTooLong if the kernel runs too long."""
        depths = np.zeros(len(self.slots), np.int64)
        totals = np.zeros_like(depths)
        rows = np.zeros(len(SLABS) * self.tasks, np.int64)
        memory = {name: arrays[name] for name in self.params}
        for name in self.shadow:
            memory[name] = self.copy(memory[name])
        memory |= {DEPTHS: depths, ROWS: rows, TOTALS: totals}
        if self.may_be_endless:
            memory[ROOM] = np.array([self._room[0]])
        execute(self.compile(), memory, scalars, NO_SIZES, draws)
        capacities = {s.stack: int(d) for s, d in zip(self.slots, depths) if s.capacity is None}
        counted = iter(rows.tolist())
        needs = {(task, slab): next(counted) for task in range(self.tasks) for slab in SLABS}
        return Sizes(capacities, needs, {s.stack: int(t) for s, t in zip(self.slots, totals)})

    @cached_property
    def _room(self) -> tuple[int, str]:
        """Return the most bytes that the adstacks can get, and a text that names the cause of this limit."""
        return self.backend.most_bytes() if isinstance(self.backend, MemoryLimited) else memory_of_machine()

    def refuse_beyond(self, sizes: Sizes, counted: bool) -> None:
        """Raise DeviceError if the adstacks of one iteration need more bytes than any heap can have.

        Smaller needs are left to the heap. `counted` says that the sizes were counted, which may have ended at this
        limit.
        """
        ended = counted and self.may_be_endless
        for index, task in enumerate(self.counted.tasks):
            mine = [s for s in walk(task.body) if isinstance(s, StackAlloca)]
            bytes_of = {s: _slot_bytes(s) * sizes.capacities.get(s.stack, s.capacity or 0) for s in mine}
            if (ended or sum(bytes_of.values()) > LITTLE) and sum(bytes_of.values()) > self._room[0]:
                raise DeviceError(self._refusal(index, bytes_of, " or more" if ended else ""))

    def _refusal(self, task: int, bytes_of: Mapping[StackAlloca, int], more: str) -> str:
        """Return an error message that names the largest adstack of a task, its source line and a cure."""
        stack = max(bytes_of, key=lambda s: bytes_of[s])
        span, slots = self.counted.span(stack.loc), bytes_of[stack] // _slot_bytes(stack)
        whole, (room, owner) = sum(bytes_of.values()), self._room
        lines = [
            f"kernel {self.counted.name}, task {task}: the adstacks of one iteration need {whole} bytes{more}, and "
            f"{owner} {room} bytes; nothing was run",
            f"most of it, {bytes_of[stack]} bytes{more}, for the history of {stack.variable or stack.stack}: {slots} "
            f"slots{more} of {_slot_bytes(stack)} bytes",
            *(span.render().splitlines() if span else ()),
            "cure: run fewer steps of the loop per launch, or keep its state in a field and launch once a step",
        ]
        return "\n    ".join(lines)


def _slot_bytes(stack: StackAlloca) -> int:
    """Return the bytes of a slot of a stack."""
    return stack.dtype.size * (2 if stack.adjoint else 1)
