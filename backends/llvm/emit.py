"""The state of code generation: of a module, of straight-line arithmetic, and of a function being written.

Rows of OPS see an `Arith` alone: a builder and the module. They are free of control flow, so they work on scalars
and on vectors. Rows of statements see an `Emitter` and touch memory and control only through its `flow`, so that
another way to branch can stand beside the present one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ...compiler.ir.nodes import Atomic, Kernel, Stmt, Store, Value
from ...compiler.ir.types import Scalar
from ...compiler.ir.walk import walk_task
from ...compiler.passes.decisions import decisive_values
from ...compiler.passes.real_ranges import RealRanges
from ..base import Options
from . import ir
from .builder import IRBuilder
from .checked import Checked, TaskChecks
from .debug_lines import DebugLines
from .launch_conditions import needs_comparisons
from .layout import Layout, lay_out
from .sharing import Sharing, order_shows, share
from .target import Target
from .types import I1, I8, I64, const, like, pointer, suffix, value_type

if TYPE_CHECKING:
    from .control import Branching
    from .stack_state import StackState

MASKED_SITES = 1 << 32
"""Number of the first site of a kernel's masked module."""

PURE = ("nounwind", "willreturn", "memory(none)")


@dataclass(frozen=True)
class Site:
    """A place that can report an error or print: what the host needs to word the message."""

    kind: str
    task: int
    stmt: Stmt
    axis: int = 0


@dataclass
class ModuleState:
    """What all functions of a module share. exact: values that are not contracted.

    ranges: where values lie, of tasks where that was asked for (reach.py). partners: likewise, sines and cosines of one
    argument (pairs.py).
    given: the layout of the block, that of a CPU if None. first_site: number of the first site, so that no two modules
    of a kernel give one number to different places. checks: which indices are compared.
    """

    kernel: Kernel
    options: Options
    target: Target
    given: Layout | None = None
    layout: Layout = field(init=False)
    module: ir.Module = field(init=False)
    checks: TaskChecks = field(init=False)
    exact: frozenset[Value] = field(init=False)
    sites: list[Site] = field(default_factory=list)
    first_site: int = 0
    ranges: dict[int, RealRanges] = field(default_factory=dict)
    partners: dict[int, dict[Value, Value]] = field(default_factory=dict)
    _sharing: dict[int, Sharing] = field(default_factory=dict)
    _written: dict[int, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layout = self.given or lay_out(self.kernel)
        self.exact = frozenset() if self.options.precise else decisive_values(self.kernel)
        self.module = ir.Module()
        self.checks = TaskChecks(self.options, hoist=not self.target.entries)
        if self.options.debug_info:
            self.module.lines = DebugLines(self.kernel)

    def sharing(self, task: int) -> Sharing:
        """How a parallel task behaves under the threads of a launch."""
        if task not in self._sharing:
            found = share(self.kernel.tasks[task], self.options.threads, self.options.lanes != 0)
            alone = self.options.deterministic and order_shows(self.kernel.tasks[task], found.plain)
            self._sharing[task] = replace(found, pays=False) if alone else found
        return self._sharing[task]

    def written(self, task: int) -> frozenset[str]:
        """Names of memory that a task writes. No two names are of one memory: launches refuse that."""
        if task not in self._written:
            inside = walk_task(self.kernel.tasks[task])
            self._written[task] = frozenset(s.array for s in inside if isinstance(s, (Store, Atomic)))
        return self._written[task]

    def is_atomic(self, task: int, array: str) -> bool:
        """Whether updates of an array must be atomic: iterations run at once and may meet in an element."""
        if not self.kernel.tasks[task].is_parallel:
            return False
        if self.target.concurrent:
            return array not in self.sharing(task).plain
        if self.options.threads == 1:
            return False
        return self.sharing(task).pays and array not in self.sharing(task).plain

    @cached_property
    def deciding(self) -> frozenset[Value]:
        """Values that scalars compute by the code that lanes run: control hangs on their last bit, and a kernel, its
        gradient and its counting kernel may go either way. Without lanes there is one way only.
        """
        alone = self.options.lanes == 0 or self.target.library != "libm"
        return frozenset() if alone else decisive_values(self.kernel)

    def site(self, kind: str, task: int, stmt: Stmt, axis: int = 0) -> int:
        """Enter a place in the site table; gives its number."""
        self.sites.append(Site(kind, task, stmt, axis))
        return self.first_site + len(self.sites) - 1

    def declare(
        self, name: str, result: ir.Type, params: Sequence[ir.Type], attributes: Sequence[str] = ()
    ) -> ir.Function:
        """The external function of this name, declared once."""
        known = self.module.functions.get(name)
        return known or ir.Function(self.module, name, result, params, attributes)

    def helper(
        self,
        name: str,
        result: ir.Type,
        params: Sequence[ir.Type],
        body: Callable[[Arith, ir.Function], None],
        attributes: Sequence[str] = ("nounwind",),
    ) -> ir.Function:
        """An internal function, written by `body` the first time it is asked for."""
        known = self.module.functions.get(name)
        if known is None:
            known = ir.Function(self.module, name, result, params, attributes, "internal")
            body(Arith(self, IRBuilder(known.append_basic_block("entry"))), known)
        return known


class Arith:
    """Straight-line arithmetic: a builder `b` and the module `m`. alike: library functions give what lanes get.
    reach: the largest magnitude of the operand of what is written.

    active: the lanes of vectors that count, if it is not all.
    """

    active: ir.Value | None = None

    def __init__(self, m: ModuleState, b: IRBuilder) -> None:
        self.m = m
        self.b = b
        self.flags: tuple[str, ...] = () if m.options.precise else ("contract",)
        self.alike = False
        self.reach = math.inf

    def intrinsic(
        self, name: str, *args: ir.Value, result: ir.Type | None = None, by: Sequence[ir.Type] | None = None
    ) -> ir.Value:
        """Call llvm.NAME; overloaded on `by`: if not given, on the result (where it differs) and the first operand."""
        made = args[0].type if result is None else result
        if by is None:
            by = [args[0].type] if result is None else [made, args[0].type]
        full = ".".join([f"llvm.{name}", *(suffix(t) for t in by)])
        return self.b.call(self.m.declare(full, made, [a.type for a in args]), args)

    def const(self, value: ir.Value, number: float | int | bool) -> ir.Constant:
        """A constant of the type, and with the lanes, of `value`."""
        return const(value.type, number)

    def isnan(self, x: ir.Value) -> ir.Value:
        return self.b.fcmp_unordered("uno", x, x)

    def false(self, x: ir.Value) -> ir.Constant:
        """A false condition of as many lanes as `x`."""
        return const(like(x.type, I1), False)


@dataclass(frozen=True)
class Variable:
    """A mutable scalar (size None) or array of the function: its stack memory."""

    address: ir.Value
    dtype: Scalar
    size: int | None = None


class Emitter(Arith, Checked):
    """One function being written. `task` is the index of the task it belongs to.

    values: LLVM value by IR value. locals: stack memory by name. Loads from the argument block stand in the entry
    block, once each: the block does not change during a launch. box: where begins and extents of the task's axes are,
    if not in the block. partners: results of operations to come. private: what this thread keeps of updates that it
    makes at the end of the task. failed: where an iteration goes that has recorded an error, if not out of the
    function. ticks: counts rounds of loops, see polls.py. late: where writes to memory are put off, what makes them.
    numbered: arrays of which the element at the task's own indices has the number of the iteration. strayed: register
    in which a function that ends no launch notes that an index was outside.
    """

    flow: Branching
    box: ir.Value | None = None
    failed: ir.Block | None = None
    strayed: ir.Value | None = None

    def __init__(self, m: ModuleState, function: ir.Function, task: int) -> None:
        m.module.lines.enter(function, task)
        self.entry = IRBuilder(function.append_basic_block("entry"))
        super().__init__(m, IRBuilder(function.append_basic_block("start")))
        self.function = function
        self.task = task
        self.argument_block = function.args[0]
        self.values: dict[Value, ir.Value] = {}
        self.locals: dict[str, Variable] = {}
        self.draws: ir.Value | None = None
        self.ticks: ir.Value | None = None
        self.iteration: ir.Value = const(I64, 0)
        self.row: ir.Value = const(I64, 0)
        self.stacks: dict[str, StackState] = {}
        self.private: dict[Atomic, ir.Value] = {}
        self.partners: dict[Value, ir.Value] = {}
        self.late: list[Callable[[], object]] | None = None
        self.numbered: frozenset[str] = frozenset()
        self.index_numbers: dict[Value, ir.Value] = {}
        self._slots: dict[tuple[int, ir.Type], ir.Value] = {}

    # -- the argument block ---------------------------------------------------------------------------------

    def slot_pointer(self, at: int, builder: IRBuilder | None = None) -> ir.Value:
        """Address of the slot at byte offset `at` of the argument block."""
        return (builder or self.b).gep(self.argument_block, const(I64, at), I8, inbounds=True)

    def slot(self, at: int, t: ir.Type = I64) -> ir.Value:
        """Content of a slot, read once at the head of the function."""
        key = at, t
        if key not in self._slots:
            self._slots[key] = self.entry.load(self.slot_pointer(at, self.entry), t)
        return self._slots[key]

    def slot_address(self, at: int) -> ir.Value:
        """A slot that holds the address of memory."""
        return self.slot(at, pointer(self.m.target.space))

    def temp(self, at: int) -> ir.Value:
        """Address of a temporary: in the block, or in what the device keeps for a launch."""
        if not self.m.layout.device:
            return self.slot_pointer(at)
        return self.b.gep(self.slot_address(self.m.layout.state_at), const(I64, at), I8, inbounds=True)

    def bound(self, axis: int, part: int) -> ir.Value:
        """Begin (part 0) or extent (part 1) of an axis of the task's box, read once at the head of the function."""
        at = 16 * axis + 8 * part
        if self.box is None:
            return self.slot(self.m.layout.boxes[self.task] + at)
        key = -1 - at, I64
        if key not in self._slots:
            self._slots[key] = self.entry.load(self.entry.gep(self.box, const(I64, at), I8, inbounds=True), I64)
        return self._slots[key]

    @cached_property
    def needs_comparisons(self) -> ir.Value:
        """See launch_conditions.py; computed at the head of the function."""
        around, self.b = self.b, self.entry
        found = needs_comparisons(self)
        self.b = around
        return found

    # -- values ---------------------------------------------------------------------------------------------

    def operand(self, value: Value) -> ir.Value:
        return self.values[value]

    def alloca(self, t: ir.Type, count: int | None = None) -> ir.Value:
        """Stack memory of the function; the entry block holds it, so that LLVM may promote it to registers."""
        return self.entry.alloca(t, count or 1)

    def to_i64(self, value: ir.Value, t: Scalar) -> ir.Value:
        """An integer value widened to 64 bits, by sign if its type has one."""
        if t.bits == 64:
            return value
        wide = like(value.type, I64)
        return self.b.sext(value, wide) if t.is_signed else self.b.zext(value, wide)

    def set_index(self, value: Value, number: ir.Value) -> None:
        """A loop's index from its number in 64 bits. A GPU, which multiplies addresses out, keeps that beside it."""
        self.values[value] = self.from_i64(number, value.type)
        if self.m.target.entries:
            self.index_numbers[value] = number

    def index(self, value: Value) -> ir.Value:
        """An index operand in 64 bits."""
        return self.index_numbers.get(value) or self.to_i64(self.operand(value), value.type)

    def from_i64(self, value: ir.Value, t: Scalar) -> ir.Value:
        """The low bits of a 64-bit integer, as a value of an integer type."""
        return value if t.bits == 64 else self.b.trunc(value, like(value.type, value_type(t)))

    def finish(self) -> None:
        """Join the entry block to the code."""
        self.entry.branch(self.function.blocks[1])
