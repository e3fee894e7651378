"""This module defines the emitters of SPIR-V: for a whole SPIR-V module, for arithmetic, and for one task.

Entries of the table OPS see an `ArithEmitter`: an `ArithmeticWriter` and the module, with the methods that entries of
the LLVM generator call, so that an entry or a polynomial of that generator also serves for SPIR-V. Entries for
statements see an `Emitter`, which belongs to one task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ...compiler.analysis.decisions import decisive_values
from ...compiler.analysis.real_ranges import RealRanges
from ...compiler.ir.cached import cached_property
from ...compiler.ir.kernels import Kernel
from ...compiler.ir.nodes import Atomic
from ...compiler.ir.statement import Stmt, Value
from ...compiler.ir.types import Scalar, f64
from ...compiler.ir.walk import walk
from ..base import Options
from ..codegen import ir
from ..codegen.checked import TaskChecks
from ..codegen.emit import Site
from ..codegen.launch_conditions import needs_comparisons
from ..codegen.layout import BlockLayout, lay_out
from ..codegen.sharing import is_order_visible, share
from ..codegen.target import Target
from ..codegen.task_emitter import TaskEmitter
from ..codegen.types import like, value_type
from . import access, intrinsics
from .bindings import BLOCK, Bindings, assign
from .code import CONTRACT, I1, I64, ArithmeticWriter
from .module import SpirvModule
from .module import SpirvValue as Result
from .quirks import Quirks
from .variables import ShaderArray, ShaderVariable
from .word_pairs import PairedIntWriter

TARGET = Target("spirv", "none", concurrent=True, interleaved=True, native_half=False, lean=True)


@dataclass(frozen=True)
class ShaderFeatures:
    """List the optional features of a device, such as 64-bit integers, that generated shaders may use.

    Attributes:
        int8: integers of 8 bits
        int16: integers of 16 bits
        float64: reals of 64 bits
        int64: integers of 64 bits; without them such integers are pairs of words (word_pairs.py)
        int64_atomics: atomics on integers of 64 bits
        shared_int64_atomics: atomics on integers of 64 bits in memory of a workgroup
        float32_add: atomic addition of f32
        float64_add: atomic addition of f64
        subgroups: instructions that add up the threads of a subgroup and number them
        wide_subgroups: the same instructions on integers of 64 bits
        buffer_addresses: memory is reached by address; without them it is reached by storage buffers that descriptors
            bind
        storage_buffers: greatest number of storage buffers of a shader
        lists: lists of the iterations that pass a gate, made where the launcher asks for a list
        shared_errors: the error record is that of the device (see `failer`); only with buffer addresses
        abreast: memory is far away, so that a thread loads for several iterations at a time (coarsening.py)
        quirks: defects of the driver
        modes: float controls that the device has (see `SpirvModule`)
    """

    int8: bool = True
    int16: bool = True
    float64: bool = True
    int64: bool = True
    int64_atomics: bool = True
    shared_int64_atomics: bool = True
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
    """Hold the state of code generation that all functions of a SPIR-V module share.

    Attributes:
        kernel: kernel that is compiled
        options: options that the kernel is compiled with
        features: features of the device
        layout: layout of the argument block
        module: module that is being written
        sites: places in the program at which a shader may report an error
        target: properties of the device that table entries of the LLVM generator ask for
        reduces: True if a function reads the words of 2/pi that follow the argument block
        exact: values that are not contracted
        ranges: ranges of the values of each task for which they were asked (codegen/argument_ranges.py)
        partners: sines and cosines of one argument, for the same tasks (codegen/sincos.py)
        checks: which indices are compared with extents
    """

    kernel: Kernel
    options: Options
    features: ShaderFeatures
    layout: BlockLayout = field(init=False)
    module: SpirvModule = field(init=False)
    sites: list[Site] = field(default_factory=list)
    target: Target = TARGET
    reduces: bool = False
    exact: frozenset[Value] = field(init=False)
    ranges: dict[int, RealRanges] = field(default_factory=dict)
    partners: dict[int, dict[Value, Value]] = field(default_factory=dict)
    checks: TaskChecks = field(init=False)
    _helpers: dict[str, ArithmeticWriter] = field(default_factory=dict)
    _plain: dict[int, frozenset[str]] = field(default_factory=dict)
    _in_order: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layout = lay_out(self.kernel)
        self.checks = TaskChecks(self.options, hoist=False)
        self.exact = frozenset() if self.options.precise else decisive_values(self.kernel)
        addresses = self.features.buffer_addresses
        self.module = SpirvModule(self.features.modes, addresses, not self.features.int64, self.features.quirks)
        self.target = replace(TARGET, doubles=self.features.float64, contracts=not self.options.precise)

    @cached_property
    def bindings(self) -> Bindings | None:
        """Return the binding numbers of the kernel's memory, or None on a device with buffer addresses.

        Read this property only when the argument block is laid out.
        """
        if self.features.buffer_addresses:
            return None
        return assign(self.kernel, self.layout, self.features.storage_buffers)

    def code(self, name: str, result: ir.Type, params: Sequence[ir.Type]) -> ArithmeticWriter:
        """Begin a function of the module and return it with an empty body."""
        return (ArithmeticWriter if self.features.int64 else PairedIntWriter)(self.module, name, result, params)

    def site(self, kind: str, task: int, stmt: Stmt, axis: int = 0) -> int:
        """Add a statement that can report an error to the site table, and return its number.

        Args:
            kind: kind of the error, such as "overflow"
            task: number of the task
            stmt: statement at which the error occurs
            axis: axis of the index, if the error is about an index
        """
        self.sites.append(Site(kind, task, stmt, axis))
        return len(self.sites) - 1

    def is_atomic(self, task: int, array: str) -> bool:
        """Return True if updates of an array must be atomic, because concurrent iterations may update one element."""
        parallel = self.kernel.tasks[task].is_parallel
        return parallel and array not in self.plain(task) and not self.in_order(task)

    def plain(self, task: int) -> frozenset[str]:
        """Return the arrays of a parallel task in which no two iterations update the same element."""
        if task not in self._plain:
            self._plain[task] = share(self.kernel.tasks[task], 2, False).plain
        return self._plain[task]

    def in_order(self, task: int) -> bool:
        """Return True if one thread must run all iterations of a parallel task in order.

        This is so where another order of updates would show and must not, and where the device has no atomic
        instructions for one of the updates.
        """
        if task not in self._in_order:
            shows = self.options.deterministic and is_order_visible(self.kernel.tasks[task], self.plain(task))
            self._in_order[task] = shows or (not self.features.int64_atomics and self._updates_wide(task))
        return self._in_order[task]

    def _updates_wide(self, task: int) -> bool:
        """Return True if iterations may update one 64-bit element by an operation that is no atomic of the device."""
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
        body: Callable[[ArithEmitter, ArithmeticWriter], None],
        attributes: Sequence[str] = (),
    ) -> ArithmeticWriter:
        """Return the function `name` of the SPIR-V module; the first call with this name has `body` write it.

        Args:
            name: name of the function, by which it is found again
            result: type of the result
            params: types of the parameters
            body: writes the function
            attributes: attributes of LLVM, which SPIR-V ignores
        """
        known = self._helpers.get(name)
        if known is None:
            known = self._helpers[name] = self.code(name, result, params)
            body(ArithEmitter(self, known), known)
            known.close()
        return known


class ArithEmitter:
    """Emit into one SPIR-V function the arithmetic of the scalar operations that are shared with LLVM code.

    Attributes:
        m: state of the module
        b: function that is being written
        flags: flags of the reals of the program itself
        reach: largest magnitude of the operand of the operation that is being written
    """

    def __init__(self, m: ModuleState, b: ArithmeticWriter) -> None:
        self.m = m
        self.b = b
        self.flags: tuple[str, ...] = () if m.options.precise else (CONTRACT,)
        self.reach = math.inf

    def intrinsic(self, name: str, *args: ir.LLVMValue, result: ir.Type | None = None) -> Result:
        """Return the result of the LLVM intrinsic llvm.NAME for the arguments."""
        return intrinsics.INTRINSICS[name](self, *args, **({} if result is None else {"result": result}))

    def const(self, value: ir.LLVMValue, number: float | int | bool) -> Result:
        """Return a constant of the type of `value`."""
        return self.b.const(value.type, number)

    def isnan(self, x: ir.LLVMValue) -> Result:
        """Return the condition that a real is NaN."""
        return self.b.fcmp_unordered("uno", x, x)

    def false(self, x: ir.LLVMValue) -> Result:
        """Return the constant false as an operand."""
        return self.b.const(I1, False)

    def word(self, number: int) -> Result:
        """Return a 64-bit integer constant."""
        return self.b.const(I64, number)

    def to_i64(self, value: ir.LLVMValue, t: Scalar) -> ir.LLVMValue:
        """Return an integer widened to 64 bits, with sign extension if its type is signed."""
        if t.bits == 64:
            return value
        return self.b.sext(value, I64) if t.is_signed else self.b.zext(value, I64)

    def from_i64(self, value: ir.LLVMValue, t: Scalar) -> ir.LLVMValue:
        """Return the low bits of a 64-bit integer as a value of an integer type."""
        return value if t.bits == 64 else self.b.trunc(value, like(value.type, value_type(t)))


class Emitter(ArithEmitter, TaskEmitter):
    """Emit the shader of one task: this class holds the values, locals and adstacks of the task.

    Attributes:
        task: number of the task
        values: SPIR-V values by IR value
        locals: variables of locals, by name
        arrays: variables of local arrays, by name
        draws: number of draws of the iteration so far, if the task draws
        iteration: row-major number of the iteration in its box
        row: row of the adstacks of this thread
        stacks: states of the adstacks, by name
        roomy: adstacks for which it is known that the pushes that are being written fit
        filled: for some adstacks, the least number of values that they are known to hold
        kept: variables of the updates whose sum the thread keeps, by statement
        usual: True while trips are written whose values lie in the usual ranges (real_ranges.py)
        tops: contents of the slots on top of some adstacks, read ahead
        partners: results of operations that come later
        block: address of the argument block
    """

    def __init__(self, m: ModuleState, code: ArithmeticWriter, task: int) -> None:
        super().__init__(m, code)
        self.task = task
        self.values: dict[Value, ir.LLVMValue] = {}
        self.locals: dict[str, ShaderVariable] = {}
        self.arrays: dict[str, ShaderArray] = {}
        self.draws: ShaderVariable | None = None
        self.iteration: ir.LLVMValue = self.word(0)
        self.row: ir.LLVMValue = self.word(0)
        self.stacks: dict[str, object] = {}
        self.roomy: frozenset[str] = frozenset()
        self.filled: dict[str, int] = {}
        self.kept: dict[Atomic, ShaderVariable] = {}
        self.usual = False
        self.tops: dict[str, ir.LLVMValue] = {}
        self.partners: dict[Value, ir.LLVMValue] = {}
        # Slots of the argument block are read once, at the head of the shader.
        with self.b.at_head():
            self.block = access.block_address(self.b)

    @property
    def flow(self) -> Emitter:
        """Return this emitter, as code shared with LLVM (codegen/argument_ranges.py) reads an attribute `flow`."""
        return self

    def operand(self, value: Value) -> ir.LLVMValue:
        """Return the SPIR-V value of an IR value."""
        return self.values[value]

    def index(self, value: Value) -> ir.LLVMValue:
        """Return an index operand as a 64-bit integer."""
        return self.to_i64(self.operand(value), value.type)

    def slot_address(self, at: int) -> ir.LLVMValue:
        """Return the address of the word at byte offset `at` of the argument block."""
        return self.b.add(self.block, self.word(at))

    def slot(self, at: int, t: ir.Type = I64) -> ir.LLVMValue:
        """Return a word of the argument block, read once at the head of the shader."""
        with self.b.at_head():
            return access.load_once(self.b, self.slot_address(at), t)

    def address_of_slab(self, slab: str) -> ir.LLVMValue:
        """Return the address of the first byte of a slab."""
        bindings = self.m.bindings
        return access.rooted(self.slot(self.m.layout.slabs[slab]), bindings.slabs[slab] if bindings else None)

    def address_of_array(self, name: str) -> ir.LLVMValue:
        """Return the address of the first element of an array."""
        bindings = self.m.bindings
        at = self.m.layout.arrays[name].address_at
        return access.rooted(self.slot(at), bindings.arrays[name] if bindings else None)

    @cached_property
    def needs_comparisons(self) -> ir.LLVMValue:
        """Return the condition that this launch needs index checks, computed at the head of the shader.

        See codegen/launch_conditions.py.
        """
        with self.b.at_head():
            return needs_comparisons(self)

    def trap_if(self, bad: ir.LLVMValue, site: int, first: ir.LLVMValue, second: ir.LLVMValue) -> None:
        """Emit a trap: if `bad` is true, record an error with two numbers and return from the shader.

        Args:
            bad: condition of the error
            site: number of the place in the site table
            first: first number of the error, in 64 bits
            second: second number of the error, in 64 bits
        """
        with self.b.if_then(bad):
            self._fail(site, first, second)

    def trap_with(self, bad: ir.LLVMValue, site: int, numbers: Callable[[], tuple[ir.LLVMValue, ir.LLVMValue]]) -> None:
        """Emit a trap: if `bad` is true, compute two numbers, record an error with them and return."""
        with self.b.if_then(bad):
            self._fail(site, *numbers())

    def _fail(self, site: int, first: ir.LLVMValue, second: ir.LLVMValue) -> None:
        """Emit code that records an error with two numbers and returns from the shader."""
        self.b.call(failer(self.m), [self.block, self.b.const(ir.IntType(32), site + 1), first, second])
        self.b.ret_void()


def failer(m: ModuleState) -> ArithmeticWriter:
    """Return the function sg.fail(block, site + 1, a, b), which stores an error unless one is stored already.

    The record is the block's, or that of all launches of a device. In the second case its place in the block holds the
    address of the record, and after this address the number that is added to the numbers of this kernel's sites.
    """

    def body(e: ArithEmitter, function: ArithmeticWriter) -> None:
        given, site, first, second = function.args
        record: ir.LLVMValue = function.add(
            access.rooted(given, BLOCK if m.bindings else None), e.word(m.layout.error_at)
        )
        if m.features.shared_errors:
            site = function.add(site, access.load(function, function.add(record, e.word(8)), site.type))
            record = access.load(function, record, I64)
        before = access.compare_exchange(function, record, function.const(site.type, 0), site)
        with function.if_then(function.icmp_unsigned("==", before, function.const(site.type, 0))):
            for place, number in ((8, first), (16, second)):
                access.store(function, number, function.add(record, e.word(place)))
        function.ret_void()

    return m.helper("sg.fail", ir.VOID, [I64, ir.IntType(32), I64, I64], body)
