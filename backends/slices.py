"""Kernels that are launched before another one, on its arrays: to count what it pushes, to mark what it overwrites.

Each is an ordinary kernel of the backend. `key` names the state that its result depends on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from ..compiler.errors import DeviceError
from ..compiler.ir.nodes import Arg, Atomic, Kernel, Load, Random, Shape, StackAlloca
from ..compiler.ir.walk import walk, walk_kernel
from ..compiler.sizing.count import count_within
from ..compiler.sizing.fuel import ROOM
from .base import SLABS, Arrays, Backend, Draws, Executable, Limited, Options, Remote, Scalars, Sizes, TooLong
from .host_memory import memory_of_machine
from .lowered import Lowered, Marking
from .profiling import execute

DEPTHS, ROWS, TOTALS = "$depths", "$rows", "$totals"
"""Arrays that the counting kernel fills: the depth of each stack in order of text; three rows a task, as SLABS; the sum
of the depths of each stack over all iterations."""

LITTLE = 1 << 28
"""Bytes of adstacks that are less than any machine has."""

CONFLICTS, PLANES = "$conflicts", 3
"""What a marking kernel fills beside the marks; numbers for each element of a marked array."""

NO_SIZES = Sizes()
NO_DRAWS = Draws()


class Slice:
    """A kernel launched before another one, on its arrays: what its result depends on."""

    def __init__(self, kernel: Kernel, own: frozenset[str], backend: Backend, options: Options) -> None:
        """own: parameters that are arrays of this launch alone."""
        self.kernel = kernel
        self.backend = backend
        self.options = options
        self.executable: Executable | None = None
        types = kernel.array_types()
        self.params = tuple(p.name for p in kernel.params if p.name in types and p.name not in own)
        statements = list(walk_kernel(kernel))
        read = {s.array for s in statements if isinstance(s, (Load, Atomic))}
        self.loads = tuple(name for name in self.params if name in read)
        self.shapes = tuple(sorted({s.array for s in statements if isinstance(s, Shape)} - own))
        scalars = kernel.scalar_types()
        self.scalars = tuple(sorted({s.name for s in statements if isinstance(s, Arg)}))
        self.reals = tuple(name for name in self.scalars if scalars[name].is_real)
        self.draws = any(isinstance(s, Random) for s in statements)

    def key(self, arrays: Arrays, scalars: Scalars, draws: Draws, versions: tuple[int, ...] | None) -> object | None:
        """Equal keys, equal sizes. None if the caller keeps no versions of what is loaded."""
        if versions is None:
            if self.loads:
                return None
            versions = ()
        shapes = tuple([arrays[name].shape for name in self.shapes])
        values = tuple([scalars[name] for name in self.scalars])
        signs = tuple([math.copysign(1.0, scalars[name]) for name in self.reals])  # -0.0 == 0.0
        return versions, shapes, values, signs, draws if self.draws else None

    def compile(self) -> Executable:
        if self.executable is None:
            self.executable = self.backend.compile(self.kernel, self.options)
        return self.executable


class Marks(Slice):
    """The marking kernel of a launcher."""

    def __init__(self, marking: Marking, backend: Backend, options: Options) -> None:
        super().__init__(marking.kernel, frozenset((CONFLICTS, *marking.names)), backend, options)
        self.marking = marking
        self.shapes = tuple(sorted({*self.shapes, *marking.marked}))

    def look(self, arrays: Arrays, scalars: Scalars, draws: Draws) -> None:
        """Run the marking kernel on arrays of marks of this launch. Raises what they say."""
        self.marking.check_sizes({name: arrays[name].size for name in self.marking.marked})
        marks = [np.zeros((*arrays[name].shape, PLANES), np.int64) for name in self.marking.marked]
        conflicts = np.zeros((len(self.marking.reads), self.marking.width), np.int64)
        memory = {name: arrays[name] for name in self.params}
        memory |= dict(zip(self.marking.names, marks))
        execute(self.compile(), {**memory, CONFLICTS: conflicts}, scalars, NO_SIZES, draws)
        if conflicts.any():
            raise self.marking.refusal(marks, conflicts)


class Counting(Slice):
    """The counting kernel of a launcher: how it is read."""

    def __init__(self, lowered: Lowered, backend: Backend, options: Options) -> None:
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
        """Other memory with the same content, where the backend has its arrays."""
        return self.backend.duplicate(array) if isinstance(self.backend, Remote) else array.copy()

    def _end_with_memory(self) -> None:
        """From now on, counts end where no memory could hold what they count, which takes lanes a third longer."""
        self.kernel = count_within(self.counted, self.kernel)
        self.options = replace(self.options, endless=True)
        self.executable, self.may_be_endless = None, any(p.name == ROOM for p in self.kernel.params)

    def count(self, arrays: Arrays, scalars: Scalars, draws: Draws) -> Sizes:
        """Run the counting kernel; what it stores to is a copy. What no memory holds may be more than is found."""
        try:
            return self._count(arrays, scalars, draws)
        except TooLong:
            self._end_with_memory()
            return self._count(arrays, scalars, draws)

    def _count(self, arrays: Arrays, scalars: Scalars, draws: Draws) -> Sizes:
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
        """(most bytes of the stacks of an iteration, who says so)."""
        return self.backend.most_bytes() if isinstance(self.backend, Limited) else memory_of_machine()

    def refuse_beyond(self, sizes: Sizes, counted: bool) -> None:
        """Raise DeviceError if the stacks of one iteration of a task need more bytes than there can be; what is less,
        the heap refuses. counted: the sizes are what was counted, which may have ended there.
        """
        ended = counted and self.may_be_endless
        for index, task in enumerate(self.counted.tasks):
            mine = [s for s in walk(task.body) if isinstance(s, StackAlloca)]
            bytes_of = {s: _slot_bytes(s) * sizes.capacities.get(s.stack, s.capacity or 0) for s in mine}
            if (ended or sum(bytes_of.values()) > LITTLE) and sum(bytes_of.values()) > self._room[0]:
                raise DeviceError(self._refusal(index, bytes_of, " or more" if ended else ""))

    def _refusal(self, task: int, bytes_of: Mapping[StackAlloca, int], more: str) -> str:
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
    return stack.dtype.size * (2 if stack.adjoint else 1)
