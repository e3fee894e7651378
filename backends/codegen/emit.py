"""This module defines emitters of LLVM IR: ModuleState for one LLVM module, ArithEmitter for straight-line code.

Entries of the table OPS see only an `ArithEmitter`: a builder and the module. They are free of control flow, so they
work on scalars and on vectors. Entries for statements see an `Emitter` (llvm/emit.py, spirv/emit.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ...compiler.analysis.decisions import decisive_values
from ...compiler.analysis.real_ranges import RealRanges
from ...compiler.ir.cached import cached_property
from ...compiler.ir.kernels import Kernel
from ...compiler.ir.roles import ARRAY_WRITES
from ...compiler.ir.statement import Stmt, Value
from ...compiler.ir.walk import walk_task
from ..base import Options
from . import ir
from .builder import IRBuilder
from .checked import TaskChecks
from .debug_lines import DebugLines
from .layout import BlockLayout, lay_out
from .sharing import Sharing, is_order_visible, share
from .target import Target
from .types import I1, const, like, suffix

MASKED_SITES = 1 << 32
"""Number of the first site of a kernel's masked module."""

PURE = ("nounwind", "willreturn", "memory(none)")


@dataclass(frozen=True)
class Site:
    """Represent a statement that can report an error or print, with the data for the text of the message.

    Attributes:
        kind: Kind of the error, such as `index` or `overflow`, or `print`.
        task: Index of the task.
        stmt: Statement that reports or prints.
        axis: Axis of the array, for an index outside.
    """

    kind: str
    task: int
    stmt: Stmt
    axis: int = 0


@dataclass
class ModuleState:
    """Represent the state that the emitters of all functions of one LLVM module share.

    Attributes:
        kernel: Kernel that the module is generated for.
        options: Options that the kernel is compiled with.
        target: Machine that the code runs on.
        given: Layout of the argument block; None means that of a CPU.
        layout: Layout of the argument block that the code uses.
        module: Module being written.
        checks: The indices that code compares with extents.
        exact: Values that are not contracted.
        sites: Site table of this module.
        first_site: Number of the first site, so that no two modules of a kernel give one number to different places.
        ranges: Intervals of values, for tasks where they were asked for (argument_ranges.py).
        partners: Sines and cosines of one argument, for tasks where they were asked for (sincos.py).
    """

    kernel: Kernel
    options: Options
    target: Target
    given: BlockLayout | None = None
    layout: BlockLayout = field(init=False)
    module: ir.LLVMModule = field(init=False)
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
        self.module = ir.LLVMModule()
        self.checks = TaskChecks(self.options, hoist=not self.target.entries)
        if self.options.debug_info:
            self.module.lines = DebugLines(self.kernel)

    def sharing(self, task: int) -> Sharing:
        """Return which updates of a parallel task need not be atomic, and if several threads are faster than one."""
        if task not in self._sharing:
            found = share(self.kernel.tasks[task], self.options.threads, self.options.lanes != 0)
            alone = self.options.deterministic and is_order_visible(self.kernel.tasks[task], found.plain)
            self._sharing[task] = replace(found, pays=False) if alone else found
        return self._sharing[task]

    def written(self, task: int) -> frozenset[str]:
        """Return the names of the arrays and temporaries that a task writes."""
        if task not in self._written:
            # Two names never stand for one memory, because launches refuse that.
            inside = walk_task(self.kernel.tasks[task])
            self._written[task] = frozenset(s.array for s in inside if isinstance(s, ARRAY_WRITES))
        return self._written[task]

    def is_atomic(self, task: int, array: str) -> bool:
        """Return True if updates of an array must be atomic, because parallel iterations may update one element."""
        if not self.kernel.tasks[task].is_parallel:
            return False
        if self.target.concurrent:
            return array not in self.sharing(task).plain
        if self.options.threads == 1:
            return False
        return self.sharing(task).pays and array not in self.sharing(task).plain

    @cached_property
    def deciding(self) -> frozenset[Value]:
        """Return the IR values that branching code and masked code must compute with the same bits.

        Control depends on their last bit, and a kernel, its gradient and its counting kernel may each run as branching
        or as masked code. Without lanes there is only one kind of code, and the set is empty.
        """
        alone = self.options.lanes == 0 or self.target.library != "libm"
        return frozenset() if alone else decisive_values(self.kernel)

    def site(self, kind: str, task: int, stmt: Stmt, axis: int = 0) -> int:
        """Add a statement that can report an error or print to the site table, and return its number there.

        Args:
            kind: Kind of the error, or `print`.
            task: Index of the task.
            stmt: Statement that reports or prints.
            axis: Axis of the array, for an index outside.
        """
        self.sites.append(Site(kind, task, stmt, axis))
        return self.first_site + len(self.sites) - 1

    def declare(
        self, name: str, result: ir.Type, params: Sequence[ir.Type], attributes: Sequence[str] = ()
    ) -> ir.LLVMFunction:
        """Return the external function of this name; the first call declares it."""
        known = self.module.functions.get(name)
        return known or ir.LLVMFunction(self.module, name, result, params, attributes)

    def helper(
        self,
        name: str,
        result: ir.Type,
        params: Sequence[ir.Type],
        body: Callable[[ArithEmitter, ir.LLVMFunction], None],
        attributes: Sequence[str] = ("nounwind",),
    ) -> ir.LLVMFunction:
        """Return the internal function of this name; the first call lets `body` write it.

        Args:
            name: Name of the function, unique in the module.
            result: Type of the result.
            params: Types of the parameters.
            body: Writes the function, given its arithmetic and the function.
            attributes: Attributes of the function in LLVM IR.
        """
        known = self.module.functions.get(name)
        if known is None:
            known = ir.LLVMFunction(self.module, name, result, params, attributes, "internal")
            body(ArithEmitter(self, IRBuilder(known.append_basic_block("entry"))), known)
        return known


class ArithEmitter:
    """Emit straight-line arithmetic with the builder `b` into the module `m`.

    Attributes:
        active: The lanes of vectors whose results count; None means all of them.
        flags: Fast-math flags of instructions that may contract.
        alike: Library functions must give what lanes get.
        reach: Largest magnitude of the operand of the operation being written.
    """

    active: ir.LLVMValue | None = None

    def __init__(self, m: ModuleState, b: IRBuilder) -> None:
        self.m = m
        self.b = b
        self.flags: tuple[str, ...] = () if m.options.precise else ("contract",)
        self.alike = False
        self.reach = math.inf

    def intrinsic(
        self, name: str, *args: ir.LLVMValue, result: ir.Type | None = None, by: Sequence[ir.Type] | None = None
    ) -> ir.LLVMValue:
        """Emit a call of the intrinsic llvm.NAME and return its result.

        Args:
            name: Name of the intrinsic without `llvm.` and without types.
            *args: Operands.
            result: Type of the result; None means that of the first operand.
            by: Types in the name; None means the result type, if it is given, and that of the first operand.
        """
        made = args[0].type if result is None else result
        if by is None:
            by = [args[0].type] if result is None else [made, args[0].type]
        full = ".".join([f"llvm.{name}", *(suffix(t) for t in by)])
        return self.b.call(self.m.declare(full, made, [a.type for a in args]), args)

    def const(self, value: ir.LLVMValue, number: float | int | bool) -> ir.Constant:
        """Return a constant of the type, and with the lanes, of `value`."""
        return const(value.type, number)

    def isnan(self, x: ir.LLVMValue) -> ir.LLVMValue:
        """Return the condition that `x` is NaN."""
        return self.b.fcmp_unordered("uno", x, x)

    def false(self, x: ir.LLVMValue) -> ir.Constant:
        """Return a false condition with as many lanes as `x`."""
        return const(like(x.type, I1), False)
