"""This module lays out the argument block: an array of 8-byte words that holds all data of a launch.

The generator reads slots at the byte offsets that this module assigns, and the launcher writes them there; neither
knows another number. The slots are: error record, status, draws, addresses of the print callback, of the callback that
makes code when it is first needed, and of the pool's entry, the numbers that decide how each parallel task is run, base
addresses of the three adstack slabs, stride and row count of each task's part of them, offset and capacity of each
stack, data addresses and extents of arrays, scalar arguments, temporaries, and the box of each parallel task.

A GPU gets the first `passed` bytes by value, as the parameter of every entry point, and cannot write them. What the GPU
writes lies in the *state*, which is memory of the device whose address a slot holds: temporaries, stored boxes, lengths
of lists, partial sums. What only the host reads stands after the part that is passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ...compiler.ir.extents import narrow_axes
from ...compiler.ir.kernels import Kernel, Task
from ...compiler.ir.nodes import Return, StackAlloca
from ...compiler.ir.roles import ACCESSES, ARRAY_WRITES
from ...compiler.ir.types import ArrayType, Scalar
from ...compiler.ir.walk import walk, walk_task
from ..base import SLABS, slab_of
from .prints import is_printing

ALIGN = 64
"""Alignment of a row and of the pad, in bytes: one cache line."""

DECLINED = 1
"""Content of an address slot for which the host has already said that there is no address."""


@dataclass(frozen=True)
class StackLayout:
    """Represent the layout of one adstack: its words in the argument block and the size of its slots.

    Attributes:
        index: Number of the stack in the kernel.
        task: Index of the task that declares the stack.
        slab: Name of the slab in which the stack lies.
        alloca: Declaration of the stack.
        offset_at: Byte offset of the word with the offset of the stack in a row.
        capacity_at: Byte offset of the word with the capacity of the stack.
    """

    index: int
    task: int
    slab: str
    alloca: StackAlloca
    offset_at: int
    capacity_at: int

    @property
    def slot_bytes(self) -> int:
        """Return the bytes of one slot: the primal, and the adjoint if the stack has adjoints."""
        return self.alloca.dtype.size * (2 if self.alloca.adjoint else 1)


@dataclass(frozen=True)
class ArrayLayout:
    """Represent where the argument block holds the address and extents of an array, such as `x` or `x.grad`.

    Attributes:
        name: Name of the array in the kernel.
        type: Type of the array.
        address_at: Byte offset of the word with the address of the data.
        shape_at: Byte offset of the first of the words with the extents, one for each axis.
        narrow: Axes whose extents the kernel reads in 32 bits.
    """

    name: str
    type: ArrayType
    address_at: int
    shape_at: int
    narrow: frozenset[int] = frozenset()


@dataclass
class BlockLayout:
    """Represent the byte offsets of all words in the argument block of one kernel; the block takes `size` bytes.

    `laps_at` holds the address of the times that a profile takes of this launch (dispatch.py), or 0. On a CPU
    (polls.py): `signals_at` is the address of the function that looks for signals, or 0; `raised_at`, three words that
    describe what a signal handler has raised; `poll_at`, the reading of the clock from which on signals are looked for
    again.

    By parallel task: `variants`, address of its masked function (0: not asked for yet, DECLINED: there is none);
    `lanes`, the number of lanes that the adstack rows of this launch are made for (0 or 1: branching code only);
    `threads_at`, the number of threads that have a row in this launch (0: one). The last two are read only for tasks
    with adstacks.

    For kernels that print: `print_at`, address of the buffer of prints (backends/codegen/prints.py; on a CPU, of the
    callback); `printer_at`, the number of the executable in it; `first_print_at`, a word that is zero when a launch
    begins.

    On a GPU: `state_at`, `errors_at`, `halted_at`, addresses of the state, of the error record and of the word that
    stops everything after an error; of parallel tasks with adstacks `list_at`, address of the list of 32-bit numbers of
    iterations that pass a gate, and `room_at`, the number of entries that it has room for (0: the task runs over all
    iterations); `functions`, by kind of entry point and task; `driver_at`, `driver_error_at`, for the code that
    launches them. In the state, from its begin: `temps`, `boxes` (of tasks whose bounds are computed first),
    `returned_at`, `length_at` (of lists), `partials` (of sums over blocks); it takes `state_size` bytes, zero before
    the first task.
    """

    error_at: int = 0
    status_at: int = 0
    draws_at: int = 0
    print_at: int = 0
    printer_at: int = 0
    first_print_at: int = 0
    request_at: int = 0
    pool_at: int = 0
    signals_at: int = 0
    raised_at: int = 0
    poll_at: int = 0
    laps_at: int = 0
    shared_at: int = 0
    pad_at: int = 0
    temps_at: int = 0
    size: int = 0
    slabs: dict[str, int] = field(default_factory=dict)
    rows: dict[tuple[int, str], int] = field(default_factory=dict)
    strides: dict[tuple[int, str], int] = field(default_factory=dict)
    stacks: list[StackLayout] = field(default_factory=list)
    arrays: dict[str, ArrayLayout] = field(default_factory=dict)
    scalars: dict[str, tuple[int, Scalar]] = field(default_factory=dict)
    temps: dict[str, tuple[int, Scalar]] = field(default_factory=dict)
    boxes: dict[int, int] = field(default_factory=dict)
    variants: dict[int, int] = field(default_factory=dict)
    lanes: dict[int, int] = field(default_factory=dict)
    threads_at: dict[int, int] = field(default_factory=dict)
    device: bool = False
    lists: bool = False
    passed: int = 0
    state_at: int = 0
    errors_at: int = 0
    halted_at: int = 0
    driver_at: int = 0
    driver_error_at: int = 0
    list_at: dict[int, int] = field(default_factory=dict)
    room_at: dict[int, int] = field(default_factory=dict)
    functions: dict[tuple[str, int], int] = field(default_factory=dict)
    state_size: int = 0
    returned_at: int = -1
    length_at: dict[int, int] = field(default_factory=dict)
    partials: dict[int, int] = field(default_factory=dict)


def lay_out(kernel: Kernel) -> BlockLayout:
    """Return the layout of the argument block of a kernel that runs on a CPU."""
    out, take = BlockLayout(), _SlotAllocator()
    # The pad comes first, so that it is aligned as the block is.
    out.pad_at = take(ALIGN // 8)
    out.error_at = take(4)
    out.status_at = take(1)
    out.draws_at = take(1)
    out.print_at = take(1)
    out.request_at = take(1)
    out.pool_at = take(1)
    out.signals_at, out.raised_at, out.poll_at = take(1), take(3), take(1)
    out.laps_at = take(1)
    out.shared_at = take(1)
    for index, task in enumerate(kernel.tasks):
        if task.is_parallel:
            out.variants[index], out.lanes[index], out.threads_at[index] = take(1), take(1), take(1)
    _stacks(kernel, out, take)
    _parameters(kernel, out, take)
    if is_printing(kernel):
        out.printer_at, out.first_print_at = take(1), take(1)
    out.temps_at = take(0)
    for temp in kernel.temps:
        out.temps[temp.name] = (take(1), temp.dtype)
    for index, task in enumerate(kernel.tasks):
        if task.is_parallel:
            out.boxes[index] = take(2 * len(task.indices))
    out.size = take(0)
    return out


ENTRIES = ("bounds", "select", "listed", "packed", "task", "finish")
"""Kinds of entry points of a task on a GPU."""


@dataclass(frozen=True)
class TaskState:
    """Represent which data of a task a launch keeps in device memory: its box, the length of its list, partial sums.

    Attributes:
        stored: The box of the task is stored.
        listed: The length of a list of iterations of the task is stored.
        partials: Number of words for partial sums.
    """

    stored: bool = False
    listed: bool = False
    partials: int = 0


def lay_out_for_device(
    kernel: Kernel, tasks: Mapping[int, TaskState] = MappingProxyType({}), lists: bool = True
) -> BlockLayout:
    """Return the layout of the argument block and of the device memory of one launch for a GPU kernel.

    Args:
        kernel: Kernel that the block is made for.
        tasks: What the device keeps, by index of each parallel task.
        lists: Tasks with adstacks may run over lists of iterations.
    """
    out, take = BlockLayout(device=True, lists=lists), _SlotAllocator()
    out.state_at, out.errors_at, out.halted_at, out.draws_at = (take(1) for _ in range(4))
    _stacks(kernel, out, take)
    _parameters(kernel, out, take)
    if is_printing(kernel):
        out.print_at, out.printer_at = take(1), take(1)
    out.passed = take(0)
    _for_host(kernel, out, take)
    out.size = take(0)
    _state(kernel, out, tasks)
    return out


def _for_host(kernel: Kernel, out: BlockLayout, take: _SlotAllocator) -> None:
    """Assign words of the argument block to the data that only the host reads."""
    out.driver_at, out.driver_error_at = take(1), take(1)
    out.error_at = take(4)
    out.status_at, out.laps_at = take(1), take(1)
    for index, task in enumerate(kernel.tasks):
        out.functions.update({(kind, index): take(1) for kind in ENTRIES})
        if task.is_parallel and index not in out.threads_at:
            out.threads_at[index] = take(1)


def _state(kernel: Kernel, out: BlockLayout, tasks: Mapping[int, TaskState]) -> None:
    """Assign offsets to the data that a launch keeps in device memory: temporaries, boxes, list lengths, sums."""
    take = _SlotAllocator()
    serial = [task for task in kernel.tasks[:-1] if not task.is_parallel]
    returns = any(isinstance(s, Return) for task in serial for s in walk(task.body))
    out.returned_at = take(1) if returns else -1
    if is_printing(kernel):
        out.first_print_at = take(1)
    for temp in kernel.temps:
        out.temps[temp.name] = (take(1), temp.dtype)
    for index, state in tasks.items():
        if state.stored:
            out.boxes[index] = take(2 * len(kernel.tasks[index].indices))
        if state.listed:
            out.length_at[index] = take(1)
        if state.partials:
            out.partials[index] = take(state.partials)
    out.state_size = take(0)


class _SlotAllocator:
    """Allocate consecutive 8-byte words of an argument block; a call returns the byte offset of the allocated words."""

    def __init__(self) -> None:
        self.used = 0

    def __call__(self, slots: int) -> int:
        at = self.used * 8
        self.used += slots
        return at


def stack_allocas(task: Task) -> Iterator[StackAlloca]:
    """Yield the declaration of each adstack of a task once, in the order of the program text."""
    # A stack may be declared at several places of the text, but it has one place in the block.
    seen = set()
    for stmt in walk(task.body):
        if isinstance(stmt, StackAlloca) and stmt.stack not in seen:
            seen.add(stmt.stack)
            yield stmt


def _stacks(kernel: Kernel, out: BlockLayout, take: _SlotAllocator) -> None:
    """Assign words to all adstacks, their slabs and rows, and to the iteration lists of tasks with adstacks."""
    for index, task in enumerate(kernel.tasks):
        for alloca in stack_allocas(task):
            slab = slab_of(alloca.dtype)
            if slab not in out.slabs:
                out.slabs[slab] = take(1)
            if (index, slab) not in out.rows:
                out.rows[index, slab], out.strides[index, slab] = take(1), take(1)
            if out.device and task.is_parallel and index not in out.threads_at:
                out.threads_at[index] = take(1)
                if out.lists:
                    out.list_at[index], out.room_at[index] = take(1), take(1)
            out.stacks.append(StackLayout(len(out.stacks), index, slab, alloca, take(1), take(1)))
    assert all(stack.slab in SLABS for stack in out.stacks)


def _parameters(kernel: Kernel, out: BlockLayout, take: _SlotAllocator) -> None:
    """Assign words of the argument block to the arrays and the scalar arguments of a kernel.

    An adjoint shares the extents of its array, and has slots only if the kernel accesses it.
    """
    used, narrow = accessed(kernel), narrow_axes(kernel)
    names = {p.name for p in kernel.params}
    for param in kernel.params:
        if isinstance(param.type, Scalar):
            out.scalars[param.name] = (take(1), param.type)
            continue
        shape_at = take(param.type.ndim)
        out.arrays[param.name] = ArrayLayout(
            param.name, param.type, take(1), shape_at, narrow.get(param.name, frozenset())
        )
        grad = f"{param.name}.grad"
        if grad in used and grad not in names:
            out.arrays[grad] = ArrayLayout(grad, param.type.adjoint, take(1), shape_at)


def accessed(kernel: Kernel) -> set[str]:
    """Return the names of the arrays and temporaries that the kernel reads or writes."""
    return {stmt.array for task in kernel.tasks for stmt in walk_task(task) if isinstance(stmt, ACCESSES)}


def written_names(kernel: Kernel) -> set[str]:
    """Return the names of the arrays and temporaries that the kernel writes."""
    return {stmt.array for task in kernel.tasks for stmt in walk_task(task) if isinstance(stmt, ARRAY_WRITES)}
