"""Body: one function being written, block by block, with structured control flow.

A pure instruction that is known where another one like it is asked for gives the same value: what a block computes is
known in every block that it dominates. So is what a variable holds, until control comes from elsewhere.

Control flow is written only by `if_then`, `if_else` and `loop`, which emit the merge instructions that SPIR-V asks
for; a block that has ended takes no instruction.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..llvm import ir
from . import opcodes as op
from .module import Module, Value, encode
from .variables import Variable


class Body:
    """The body of a function. head: instructions that stand before all others, in the first block.

    held: what is known of the content of variables, by id; `Variable` keeps it. products: factors of what may be
    contracted, by the id of the product. unknown: ids of values of which no driver knows a thing.
    """

    def __init__(self, module: Module, name: str, result: ir.Type, params: Sequence[ir.Type]) -> None:
        self.module = module
        self.id = module.fresh()
        self.result = result
        module.name(self.id, name)
        self.args = [Value(t, module.fresh()) for t in params]
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
        self._resizings: dict[int, tuple[str, Value]] = {}
        self.products: dict[int, tuple[Value, Value]] = {}
        self.unknown: set[int] = set()
        self._known: list[dict[object, Value]] = [{}]
        self._known_at_head: dict[object, Value] = {}
        self.held: dict[int, Value] = {}

    def close(self) -> None:
        """Hand the function to the module. It must have returned."""
        assert self.ended, "a function that does not return"
        end = encode("FunctionEnd")
        self.module.functions.append([*self._start, *self._variables, *self.head, *self.body, *end])

    # -- instructions ---------------------------------------------------------------------------------------

    def emit(self, name: str, *operands: int) -> None:
        """An instruction as it stands."""
        assert self._at_head or not self.ended, f"{name} after the end of a block"
        (self.head if self._at_head else self.body).extend(encode(name, *operands))

    def result_of(self, t: ir.Type, name: str, *operands: int) -> Value:
        """The result of an instruction with effects, or that reads memory."""
        made = Value(t, self.module.fresh())
        self.emit(name, self.module.type(t), made.id, *operands)
        return made

    def pure(self, t: ir.Type, name: str, *operands: ir.Value | int, of: int | None = None) -> Value:
        """The result of an instruction without effects; literal operands are numbers. of: the id of its type, where
        that is no type of values.
        """
        ids = [x if isinstance(x, int) else self.value(x).id for x in operands]
        key = (t, name, *ids)
        known = self._known_at_head.get(key)
        if known is None and not self._at_head:
            known = next((scope[key] for scope in reversed(self._known) if key in scope), None)
        if known is None:
            known = self.result_of(t, name, *ids) if of is None else Value(t, self.module.fresh())
            if of is not None:
                self.emit(name, of, known.id, *ids)
            (self._known_at_head if self._at_head else self._known[-1])[key] = known
        return known

    def exact(self, t: ir.Type, name: str, *operands: ir.Value | int) -> Value:
        """A pure instruction on reals, which gives what IEEE says."""
        before = self.module.bound
        made = self.pure(t, name, *operands)
        if made.id >= before:
            self.module.decorate(made.id, op.NO_CONTRACTION)
        return made

    def glsl(self, name: str, t: ir.Type, *operands: ir.Value) -> Value:
        """An instruction of GLSL.std.450."""
        return self.exact(t, "ExtInst", self.module.glsl, op.GLSL[name], *operands)

    def remembered(self, key: object) -> Value | None:
        """What `remember` was given under the key at the head of the function."""
        return self._known_at_head.get(key)

    def remember(self, key: object, value: Value) -> Value:
        """Keep a value of the head under a key; gives it."""
        self._known_at_head[key] = value
        return value

    @contextmanager
    def at_head(self) -> Iterator[None]:
        """What is emitted inside stands at the head of the function, where it is done once."""
        before, self._at_head = self._at_head, True
        yield
        self._at_head = before

    def value(self, x: ir.Value) -> Value:
        """The operand as a value of this module: constants of the LLVM generator are made anew."""
        if isinstance(x, Value):
            return x
        assert isinstance(x, ir.Constant), x
        if x.constant is not None:
            return self.const(x.type, x.constant)
        return self.const(x.type, struct.unpack(">d", bytes.fromhex(x.ref[2:].zfill(16)))[0])

    def const(self, t: ir.Type, number: int | float | bool) -> Value:
        """A constant."""
        return self.module.constant(t, number)

    # -- variables ------------------------------------------------------------------------------------------

    def variable(self, id_of_type: int) -> int:
        """A variable of the function, by its id; what it holds first is undefined."""
        pointer, made = self.module.pointer(op.FUNCTION, id_of_type), self.module.fresh()
        self._variables += encode("Variable", pointer, made, op.FUNCTION)
        return made

    def scalar(self, t: ir.Type) -> Variable:
        """A variable of a scalar type."""
        return Variable(self, t, self.variable(self.module.type(t)))

    def call(self, function: Body, args: Sequence[ir.Value]) -> Value:
        """Call a function of the module."""
        return self.result_of(function.result, "FunctionCall", function.id, *(self.value(a).id for a in args))

    # -- control --------------------------------------------------------------------------------------------

    def _end(self, name: str, *operands: int) -> None:
        self.emit(name, *operands)
        self.ended = True

    def open(self, label: int) -> None:
        """Begin the block of a label."""
        assert self.ended, "the block before goes on"
        self.body += encode("Label", label)
        self.ended = False

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Blocks that do not dominate what follows: what they compute is not known there."""
        self._known.append({})
        yield
        self._known.pop()

    def branch(self, label: int) -> None:
        """Leave the block, unless it has ended."""
        if not self.ended:
            self._end("Branch", label)

    def ret(self, value: ir.Value) -> None:
        self._end("ReturnValue", self.value(value).id)

    def ret_void(self) -> None:
        self._end("Return")

    @contextmanager
    def if_then(self, cond: ir.Value) -> Iterator[None]:
        """What is emitted inside runs only where the condition holds."""
        then, done = self.module.fresh(), self.module.fresh()
        held = dict(self.held)
        self.emit("SelectionMerge", done, 0)
        self._end("BranchConditional", self.value(cond).id, then, done)
        with self._inside():
            self.open(then)
            yield
            self.held = held if self.ended else {}
            self.branch(done)
        self.open(done)

    def if_else(self, cond: ir.Value, then: Callable[[], None], orelse: Callable[[], None]) -> None:
        """One of two blocks."""
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
        self, condition: Callable[[], ir.Value], body: Callable[[], None], step: Callable[[], ir.Value | None]
    ) -> None:
        """while condition(): body(); step(). A condition that `step` gives ends the loop where it holds."""
        header, test, inside, latch, done = (self.module.fresh() for _ in range(5))
        self.branch(header)
        self.held = {}
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
