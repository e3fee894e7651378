"""The state of code generation: of a module of shaders, of straight-line arithmetic, and of a task being written.

Rows of OPS see an `Arith`: a `Code` and the module, with the methods that rows of the LLVM generator call, so a row
or a polynomial written there serves here. Rows of statements see an `Emitter`, which belongs to one task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ...compiler.ir.nodes import Atomic, Kernel, Stmt, Value
from ...compiler.ir.types import Scalar, f64
from ...compiler.ir.walk import walk
from ...compiler.passes.decisions import decisive_values
from ...compiler.passes.real_ranges import RealRanges
from ..base import Options
from ..llvm import ir
from ..llvm.checked import Checked, TaskChecks
from ..llvm.emit import Site
from ..llvm.launch_conditions import needs_comparisons
from ..llvm.layout import Layout, lay_out
from ..llvm.sharing import order_shows, share
from ..llvm.target import Target
from ..llvm.types import like, value_type
from . import access, intrinsics
from .bindings import BLOCK, Bindings, assign
from .code import CONTRACT, I1, I64, Code
from .module import Module
from .module import Value as Result
from .pairs import PairedCode
from .quirks import Quirks
from .variables import LocalArray, Variable

TARGET = Target("spirv", "none", concurrent=True, interleaved=True, native_half=False, lean=True)


@dataclass(frozen=True)
class Features:
    """What a device has that kernels may use. modes: float controls, see `Module`.

    int64: integers of 64 bits; without them they are pairs of words, see pairs.py.

    subgroups: their threads add up, and number themselves; wide_subgroups: integers of 64 bits too.
    buffer_addresses: memory is reached by address; else by at most so many storage_buffers that descriptors bind.
    lists: of the iterations that pass a gate, made where the launcher asks for one.
    shared_errors: the error record is that of the device, see `failer`; only with addresses. abreast: memory is far
    away, so that several iterations are loaded for at a time, see abreast.py. quirks: of the driver.
    """

    int8: bool = True
    int16: bool = True
    float64: bool = True
    int64: bool = True
    int64_atomics: bool = True
    float32_add: bool = True
    float64_add: bool = False
    subgroups: bool = False
    wide_subgroups: bool = False
    buffer_addresses: bool = True
    storage_buffers: int = 16
    lists: bool = False
    shared_errors: bool = False
    abreast: bool = False
    quirks: Quirks = Quirks()
    modes: tuple[tuple[str, int], ...] = ()


@dataclass
class ModuleState:
    """What all functions of a module share. reduces: whether one reads the words of 2/pi behind the block.

    exact: values that are not contracted. ranges: where values lie, of tasks where that was asked for (llvm/reach.py).
    partners: likewise, sines and cosines of one argument (llvm/pairs.py). checks: which indices are compared.
    """

    kernel: Kernel
    options: Options
    features: Features
    layout: Layout = field(init=False)
    module: Module = field(init=False)
    sites: list[Site] = field(default_factory=list)
    target: Target = TARGET
    reduces: bool = False
    exact: frozenset[Value] = field(init=False)
    ranges: dict[int, RealRanges] = field(default_factory=dict)
    partners: dict[int, dict[Value, Value]] = field(default_factory=dict)
    checks: TaskChecks = field(init=False)
    _helpers: dict[str, Code] = field(default_factory=dict)
    _plain: dict[int, frozenset[str]] = field(default_factory=dict)
    _in_order: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layout = lay_out(self.kernel)
        self.checks = TaskChecks(self.options, hoist=False)
        self.exact = frozenset() if self.options.precise else decisive_values(self.kernel)
        addresses = self.features.buffer_addresses
        self.module = Module(self.features.modes, addresses, not self.features.int64, self.features.quirks)
        self.target = replace(TARGET, doubles=self.features.float64, contracts=not self.options.precise)

    @cached_property
    def bindings(self) -> Bindings | None:
        """Of a device without buffer addresses, when the argument block is laid out."""
        if self.features.buffer_addresses:
            return None
        return assign(self.kernel, self.layout, self.features.storage_buffers)

    def code(self, name: str, result: ir.Type, params: Sequence[ir.Type]) -> Code:
        """A function to be written."""
        return (Code if self.features.int64 else PairedCode)(self.module, name, result, params)

    def site(self, kind: str, task: int, stmt: Stmt, axis: int = 0) -> int:
        """Enter a place in the site table; gives its number."""
        self.sites.append(Site(kind, task, stmt, axis))
        return len(self.sites) - 1

    def is_atomic(self, task: int, array: str) -> bool:
        """Whether updates of an array must be atomic: iterations run at once and may meet in an element."""
        parallel = self.kernel.tasks[task].is_parallel
        return parallel and array not in self.plain(task) and not self.in_order(task)

    def plain(self, task: int) -> frozenset[str]:
        """Arrays of a parallel task whose updates cannot meet."""
        if task not in self._plain:
            self._plain[task] = share(self.kernel.tasks[task], 2, False).plain
        return self._plain[task]

    def in_order(self, task: int) -> bool:
        """Whether one thread does all of a parallel task: another order of updates would show, and must not; or the
        device has no atomic instructions for one of them.
        """
        if task not in self._in_order:
            shows = self.options.deterministic and order_shows(self.kernel.tasks[task], self.plain(task))
            self._in_order[task] = shows or (not self.features.int64_atomics and self._updates_wide(task))
        return self._in_order[task]

    def _updates_wide(self, task: int) -> bool:
        """Whether updates of 64 bits may meet, other than sums that the device adds."""
        for stmt in walk(self.kernel.tasks[task].body):
            if isinstance(stmt, Atomic) and stmt.array not in self.plain(task):
                temp = self.layout.temps.get(stmt.array)
                t = temp[1] if temp is not None else self.layout.arrays[stmt.array].type.dtype
                added = t == f64 and stmt.op == "add" and stmt.expected is None and self.features.float64_add
                if t.bits == 64 and not added:
                    return True
        return False

    def helper(
        self,
        name: str,
        result: ir.Type,
        params: Sequence[ir.Type],
        body: Callable[[Arith, Code], None],
        attributes: Sequence[str] = (),
    ) -> Code:
        """A function of the module, written by `body` the first time it is asked for. attributes: of no use here."""
        known = self._helpers.get(name)
        if known is None:
            known = self._helpers[name] = self.code(name, result, params)
            body(Arith(self, known), known)
            known.close()
        return known


class Arith:
    """Straight-line arithmetic: the function `b` being written, and the module `m`. flags: of the program's own reals.
    reach: the largest magnitude of the operand of what is written.
    """

    def __init__(self, m: ModuleState, b: Code) -> None:
        self.m = m
        self.b = b
        self.flags: tuple[str, ...] = () if m.options.precise else (CONTRACT,)
        self.reach = math.inf

    def intrinsic(self, name: str, *args: ir.Value, result: ir.Type | None = None) -> Result:
        """What llvm.NAME gives."""
        return intrinsics.INTRINSICS[name](self, *args, **({} if result is None else {"result": result}))

    def const(self, value: ir.Value, number: float | int | bool) -> Result:
        """A constant of the type of `value`."""
        return self.b.const(value.type, number)

    def isnan(self, x: ir.Value) -> Result:
        return self.b.fcmp_unordered("uno", x, x)

    def false(self, x: ir.Value) -> Result:
        """A false condition."""
        return self.b.const(I1, False)

    def word(self, number: int) -> Result:
        """A constant of 64 bits."""
        return self.b.const(I64, number)

    def to_i64(self, value: ir.Value, t: Scalar) -> ir.Value:
        """An integer value widened to 64 bits, by sign if its type has one."""
        if t.bits == 64:
            return value
        return self.b.sext(value, I64) if t.is_signed else self.b.zext(value, I64)

    def from_i64(self, value: ir.Value, t: Scalar) -> ir.Value:
        """The low bits of a 64-bit integer, as a value of an integer type."""
        return value if t.bits == 64 else self.b.trunc(value, like(value.type, value_type(t)))


class Emitter(Arith, Checked):
    """The shader of one task being written. block: address of the argument block.

    values: by IR value. locals, arrays: variables by name. Slots of the block are read once, at the head of the shader.
    kept: updates of which the thread keeps the sum. roomy: adstacks of which it is known that the pushes written now
    fit. filled: adstacks, with how many values they are known to have at least. usual: trips are written that are known
    to be usual (real_ranges.py). tops: contents of slots on top of some adstacks, read ahead. partners: results of
    operations to come.
    """

    def __init__(self, m: ModuleState, code: Code, task: int) -> None:
        super().__init__(m, code)
        self.task = task
        self.values: dict[Value, ir.Value] = {}
        self.locals: dict[str, Variable] = {}
        self.arrays: dict[str, LocalArray] = {}
        self.draws: Variable | None = None
        self.iteration: ir.Value = self.word(0)
        self.row: ir.Value = self.word(0)
        self.stacks: dict[str, object] = {}
        self.roomy: frozenset[str] = frozenset()
        self.filled: dict[str, int] = {}
        self.kept: dict[Atomic, Variable] = {}
        self.usual = False
        self.tops: dict[str, ir.Value] = {}
        self.partners: dict[Value, ir.Value] = {}
        with self.b.at_head():
            self.block = access.block_address(self.b)

    @property
    def flow(self) -> Emitter:
        """What llvm/reach.py asks how trips are written."""
        return self

    def operand(self, value: Value) -> ir.Value:
        return self.values[value]

    def index(self, value: Value) -> ir.Value:
        """An index operand in 64 bits."""
        return self.to_i64(self.operand(value), value.type)

    def slot_address(self, at: int) -> ir.Value:
        """Address of the slot at byte offset `at` of the argument block."""
        return self.b.add(self.block, self.word(at))

    def slot(self, at: int, t: ir.Type = I64) -> ir.Value:
        """Content of a slot, read once at the head."""
        with self.b.at_head():
            return access.load_once(self.b, self.slot_address(at), t)

    def address_of_slab(self, slab: str) -> ir.Value:
        """Where the adstacks of a slab lie."""
        bindings = self.m.bindings
        return access.rooted(self.slot(self.m.layout.slabs[slab]), bindings.slabs[slab] if bindings else None)

    def address_of_array(self, name: str) -> ir.Value:
        """Of its first element."""
        bindings = self.m.bindings
        at = self.m.layout.arrays[name].address_at
        return access.rooted(self.slot(at), bindings.arrays[name] if bindings else None)

    @cached_property
    def needs_comparisons(self) -> ir.Value:
        """See llvm/launch_conditions.py; computed at the head of the shader."""
        with self.b.at_head():
            return needs_comparisons(self)

    def trap_if(self, bad: ir.Value, site: int, first: ir.Value, second: ir.Value) -> None:
        """Where `bad` holds: record the error with two numbers and end this thread's part of the launch."""
        with self.b.if_then(bad):
            self._fail(site, first, second)

    def trap_with(self, bad: ir.Value, site: int, numbers: Callable[[], tuple[ir.Value, ir.Value]]) -> None:
        """The same with numbers that are computed where it has failed."""
        with self.b.if_then(bad):
            self._fail(site, *numbers())

    def _fail(self, site: int, first: ir.Value, second: ir.Value) -> None:
        self.b.call(failer(self.m), [self.block, self.b.const(ir.IntType(32), site + 1), first, second])
        self.b.ret_void()


def failer(m: ModuleState) -> Code:
    """sg.fail(block, site + 1, a, b): enter the error in the record unless there is one.

    The record is the block's, or that of all launches of a device: then its place in the block holds the address, and
    behind that what is added to the numbers of this kernel's sites.
    """

    def body(e: Arith, function: Code) -> None:
        given, site, first, second = function.args
        record: ir.Value = function.add(access.rooted(given, BLOCK if m.bindings else None), e.word(m.layout.error_at))
        if m.features.shared_errors:
            site = function.add(site, access.load(function, function.add(record, e.word(8)), site.type))
            record = access.load(function, record, I64)
        before = access.compare_exchange(function, record, function.const(site.type, 0), site)
        with function.if_then(function.icmp_unsigned("==", before, function.const(site.type, 0))):
            for place, number in ((8, first), (16, second)):
                access.store(function, number, function.add(record, e.word(place)))
        function.ret_void()

    return m.helper("sg.fail", ir.VOID, [I64, ir.IntType(32), I64, I64], body)
