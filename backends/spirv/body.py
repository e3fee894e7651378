"""This module writes the instructions of one SPIR-V function, block by block, with structured control flow.

A pure instruction with the same operands as an earlier one gives the earlier value: what a block computes is known in
every block that it dominates. The value of a variable is also known, until control comes from elsewhere.

Only `if_then`, `if_else` and `loop` write control flow; they emit the merge instructions that SPIR-V demands. A block
that has ended takes no instruction.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..codegen import ir
from . import opcodes as op
from .module import SpirvModule, SpirvValue, encode
from .variables import ShaderVariable


class FunctionWriter:
    """Write the instructions of one SPIR-V function, basic block by basic block.

    Attributes:
        args: parameters of the function
        head: words of the instructions that stand before all others, in the first block
        body: words of the instructions after the head
        ended: True if the current block has ended
        held: values of variables as far as they are known, by id; `ShaderVariable` maintains it
        products: factors of each product that may be contracted, by the id of the product
        unknown: ids of values about which no driver knows anything
    """

    def __init__(self, module: SpirvModule, name: str, result: ir.Type, params: Sequence[ir.Type]) -> None:
        self.module = module
        self.id = module.fresh()
        self.result = result
        module.name(self.id, name)
        self.args = [SpirvValue(t, module.fresh()) for t in params]
        form = module.function_type(result, tuple(params))
        self._start = encode("Function", module.type(result), self.id, 0, form)
        for arg in self.args:
            self._start += encode("FunctionParameter", module.type(arg.type), arg.id)
        self._start += encode("Label", module.fresh())
        self._variables: list[int] = []
        self.head: list[int] = []
        self.body: list[int] = []
        self.ended = False
        self._at_head = False
        self._resizings: dict[int, tuple[str, SpirvValue]] = {}
        self.products: dict[int, tuple[SpirvValue, SpirvValue]] = {}
        self.unknown: set[int] = set()
        self._known: list[dict[object, SpirvValue]] = [{}]
        self._known_at_head: dict[object, SpirvValue] = {}
        self.held: dict[int, SpirvValue] = {}

    def close(self) -> None:
        """Append the finished function to the module. The function must end in a return."""
        assert self.ended, "a function that does not return"
        end = encode("FunctionEnd")
        self.module.functions.append([*self._start, *self._variables, *self.head, *self.body, *end])

    # -- instructions ---------------------------------------------------------------------------------------

    def emit(self, name: str, *operands: int) -> None:
        """Append an instruction with the given operand words to the function."""
        assert self._at_head or not self.ended, f"{name} after the end of a block"
        (self.head if self._at_head else self.body).extend(encode(name, *operands))

    def result_of(self, t: ir.Type, name: str, *operands: int) -> SpirvValue:
        """Emit an instruction that has effects or reads memory, and return its result."""
        made = SpirvValue(t, self.module.fresh())
        self.emit(name, self.module.type(t), made.id, *operands)
        return made

    def pure(self, t: ir.Type, name: str, *operands: ir.LLVMValue | int, of: int | None = None) -> SpirvValue:
        """Return the result of an instruction without effects, reusing an earlier equal instruction.

        Args:
            t: type of the result
            name: name of the instruction
            *operands: values, or numbers where the instruction takes literals
            of: id of the result type, if this type is not a type of values (such as a struct of two words)
        """
        ids = [x if isinstance(x, int) else self.value(x).id for x in operands]
        key = (t, name, *ids)
        known = self._known_at_head.get(key)
        if known is None and not self._at_head:
            known = next((scope[key] for scope in reversed(self._known) if key in scope), None)
        if known is None:
            known = self.result_of(t, name, *ids) if of is None else SpirvValue(t, self.module.fresh())
            if of is not None:
                self.emit(name, of, known.id, *ids)
            (self._known_at_head if self._at_head else self._known[-1])[key] = known
        return known

    def exact(self, t: ir.Type, name: str, *operands: ir.LLVMValue | int) -> SpirvValue:
        """Return the result of an instruction on reals with NoContraction, which keeps drivers from fusing it."""
        before = self.module.bound
        made = self.pure(t, name, *operands)
        # An earlier instruction that `pure` gave again has its decoration already.
        if made.id >= before:
            self.module.decorate(made.id, op.NO_CONTRACTION)
        return made

    def glsl(self, name: str, t: ir.Type, *operands: ir.LLVMValue) -> SpirvValue:
        """Return the result of an instruction of the extended set GLSL.std.450."""
        return self.exact(t, "ExtInst", self.module.glsl, op.GLSL[name], *operands)

    def remembered(self, key: object) -> SpirvValue | None:
        """Return the value that `remember` stored under the key, or None if there is no such value."""
        return self._known_at_head.get(key)

    def remember(self, key: object, value: SpirvValue) -> SpirvValue:
        """Store under a key a value that is computed at the head of the function, and return the value."""
        self._known_at_head[key] = value
        return value

    @contextmanager
    def at_head(self) -> Iterator[None]:
        """Emit the instructions of the `with` block at the head of the function, where they run once."""
        before, self._at_head = self._at_head, True
        yield
        self._at_head = before

    def value(self, x: ir.LLVMValue) -> SpirvValue:
        """Return an operand as a SPIR-V value of this module; constants of the LLVM generator are declared anew."""
        if isinstance(x, SpirvValue):
            return x
        assert isinstance(x, ir.Constant), x
        if x.constant is not None:
            return self.const(x.type, x.constant)
        # LLVM writes a real constant as the hexadecimal bits of an f64.
        return self.const(x.type, struct.unpack(">d", bytes.fromhex(x.ref[2:].zfill(16)))[0])

    def const(self, t: ir.Type, number: int | float | bool) -> SpirvValue:
        """Return a constant of the module with this type and value."""
        return self.module.constant(t, number)

    # -- variables ------------------------------------------------------------------------------------------

    def variable(self, id_of_type: int) -> int:
        """Declare a variable of the function and return its id; its initial value is undefined."""
        pointer, made = self.module.pointer(op.FUNCTION, id_of_type), self.module.fresh()
        self._variables += encode("Variable", pointer, made, op.FUNCTION)
        return made

    def scalar(self, t: ir.Type) -> ShaderVariable:
        """Declare a variable of a scalar type in the function, and return the variable."""
        return ShaderVariable(self, t, self.variable(self.module.type(t)))

    def call(self, function: FunctionWriter, args: Sequence[ir.LLVMValue]) -> SpirvValue:
        """Emit a call of a function of the module and return its result."""
        return self.result_of(function.result, "FunctionCall", function.id, *(self.value(a).id for a in args))

    # -- control --------------------------------------------------------------------------------------------

    def _end(self, name: str, *operands: int) -> None:
        """Emit the instruction that ends the current basic block."""
        self.emit(name, *operands)
        self.ended = True

    def open(self, label: int) -> None:
        """Begin the block that has this label."""
        assert self.ended, "the block before goes on"
        self.body += encode("Label", label)
        self.ended = False

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Make the results of the `with` block unavailable after it, because its code does not dominate later code."""
        self._known.append({})
        yield
        self._known.pop()

    def branch(self, label: int) -> None:
        """Emit a branch to a label, unless the current block has ended."""
        if not self.ended:
            self._end("Branch", label)

    def ret(self, value: ir.LLVMValue) -> None:
        """Emit a return of a value from the function."""
        self._end("ReturnValue", self.value(value).id)

    def ret_void(self) -> None:
        """Emit a return from the function without a value."""
        self._end("Return")

    @contextmanager
    def if_then(self, cond: ir.LLVMValue) -> Iterator[None]:
        """Emit an `if` whose branch holds the instructions that the `with` block emits."""
        then, done = self.module.fresh(), self.module.fresh()
        held = dict(self.held)
        self.emit("SelectionMerge", done, 0)
        self._end("BranchConditional", self.value(cond).id, then, done)
        with self._inside():
            self.open(then)
            yield
            # A branch that returned does not reach the merge block, so what was known before is still known there.
            self.held = held if self.ended else {}
            self.branch(done)
        self.open(done)

    def if_else(self, cond: ir.LLVMValue, then: Callable[[], None], orelse: Callable[[], None]) -> None:
        """Emit an `if` with two branches, whose instructions `then` and `orelse` emit."""
        yes, no, done = (self.module.fresh() for _ in range(3))
        held = self.held
        self.emit("SelectionMerge", done, 0)
        self._end("BranchConditional", self.value(cond).id, yes, no)
        for label, write in ((yes, then), (no, orelse)):
            with self._inside():
                self.held = dict(held)
                self.open(label)
                write()
                self.branch(done)
        self.held = {}
        self.open(done)

    def loop(
        self, condition: Callable[[], ir.LLVMValue], body: Callable[[], None], step: Callable[[], ir.LLVMValue | None]
    ) -> None:
        """Emit a structured loop: test `condition`, run `body` and `step`, and repeat; each function emits its part.

        If `step` returns a value, the loop also ends after a trip in which this value is true.
        """
        header, test, inside, latch, done = (self.module.fresh() for _ in range(5))
        self.branch(header)
        self.held = {}
        # Control also comes back from the end of a trip, so no variable is known at the header.
        self.open(header)
        self.emit("LoopMerge", done, latch, 0)
        self.branch(test)
        self.open(test)
        self._end("BranchConditional", self.value(condition()).id, inside, done)
        with self._inside():
            self.open(inside)
            body()
            self.branch(latch)
            self.open(latch)
            stop = step()
            if stop is None:
                self.branch(header)
            else:
                self._end("BranchConditional", self.value(stop).id, done, header)
        self.held = {}
        self.open(done)
