"""Builder: typed constructors that append to the open block, number values and record locations.

The frontend, the reverse transform and the derivative rules all build with it, so a statement that does not type
fails where it is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InternalError
from . import nodes as n
from .nodes import Block, Stmt, Value
from .ops import result_type
from .types import SCALARS, Scalar, i32, u1


class Builder:
    """Appends statements to the innermost open block.

    first_id: ids of new values start here. loc: location index given to new statements.
    """

    def __init__(self, first_id: int = 0) -> None:
        self.next_id = first_id
        self.loc = 0
        self._open: list[list[Stmt]] = [[]]

    # -- blocks ---------------------------------------------------------------------------------------------

    def emit(self, stmt: Stmt) -> None:
        """Append a finished statement."""
        self._open[-1].append(stmt)

    def fresh(self, dtype: Scalar) -> Value:
        """A new value that no statement defines yet."""
        value = Value(self.next_id, dtype)
        self.next_id += 1
        return value

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Open a block; afterwards the yielded list holds its statements."""
        body: list[Stmt] = []
        self._open.append(body)
        try:
            yield body
        finally:
            self._open.pop()

    def take(self) -> Block:
        """Close the root block and start a new one."""
        done = tuple(self._open[0])
        self._open = [[]]
        return done

    # -- values ---------------------------------------------------------------------------------------------

    def const(self, value: float | int | bool, dtype: Scalar) -> Value:
        out = self.fresh(dtype)
        self.emit(n.Const(out, normal_constant(value, dtype), loc=self.loc))
        return out

    def arg(self, name: str, dtype: Scalar) -> Value:
        out = self.fresh(dtype)
        self.emit(n.Arg(out, name, loc=self.loc))
        return out

    def shape(self, array: str, axis: int, dtype: Scalar = i32) -> Value:
        out = self.fresh(dtype)
        self.emit(n.Shape(out, array, axis, loc=self.loc))
        return out

    def op(self, name: str, *args: Value) -> Value:
        """A scalar operation; the operand types must fit the row of OPS."""
        dtype = result_type(name, tuple(a.type for a in args))
        if dtype is None:
            raise InternalError(f"{name} does not take ({', '.join(str(a.type) for a in args)})")
        out = self.fresh(dtype)
        self.emit(n.Op(out, name, args, loc=self.loc))
        return out

    def cast(self, value: Value, dtype: Scalar) -> Value:
        """Numeric conversion; none is emitted if the type is right already."""
        if value.type == dtype:
            return value
        out = self.fresh(dtype)
        self.emit(n.Cast(out, value, loc=self.loc))
        return out

    def bit_cast(self, value: Value, dtype: Scalar) -> Value:
        out = self.fresh(dtype)
        self.emit(n.BitCast(out, value, loc=self.loc))
        return out

    def random(self, dtype: Scalar) -> Value:
        out = self.fresh(dtype)
        self.emit(n.Random(out, loc=self.loc))
        return out

    # -- memory ---------------------------------------------------------------------------------------------

    def load(self, array: str, indices: tuple[Value, ...], dtype: Scalar) -> Value:
        out = self.fresh(dtype)
        self.emit(n.Load(out, array, indices, loc=self.loc))
        return out

    def store(self, array: str, indices: tuple[Value, ...], value: Value) -> None:
        self.emit(n.Store(array, indices, value, loc=self.loc))

    def atomic(
        self, op: str, array: str, indices: tuple[Value, ...], value: Value, expected: Value | None = None
    ) -> Value:
        out = self.fresh(value.type)
        self.emit(n.Atomic(out, op, array, indices, value, expected, loc=self.loc))
        return out

    def left_by(self, atomic: n.Atomic, old: Value) -> Value:
        """What an atomic leaves in an element that held `old`."""
        if atomic.op == "exchange":
            return atomic.value
        if atomic.expected is None:
            return self.op(atomic.op, old, atomic.value)
        return self.op("select", self.same_bits(old, atomic.expected), atomic.value, old)

    def same_bits(self, x: Value, y: Value) -> Value:
        """Whether two values of one type have one bit pattern: a NaN is itself, -0.0 is not 0.0."""
        bits = SCALARS[f"i{x.type.bits}"]
        x, y = (self.bit_cast(v, bits) if v.type.is_real else v for v in (x, y))
        return self.op("cmp_eq", x, y)

    def local(self, var: str, dtype: Scalar, init: Value | None = None) -> str:
        """Declare a mutable scalar; zero unless `init` is stored at once."""
        self.emit(n.Local(var, dtype, loc=self.loc))
        if init is not None:
            self.set(var, init)
        return var

    def get(self, var: str, dtype: Scalar) -> Value:
        out = self.fresh(dtype)
        self.emit(n.Get(out, var, loc=self.loc))
        return out

    def set(self, var: str, value: Value) -> None:
        self.emit(n.Set(var, value, loc=self.loc))

    def get_element(self, var: str, index: Value, dtype: Scalar) -> Value:
        out = self.fresh(dtype)
        self.emit(n.GetElement(out, var, index, loc=self.loc))
        return out

    def set_element(self, var: str, index: Value, value: Value) -> None:
        self.emit(n.SetElement(var, index, value, loc=self.loc))

    # -- control --------------------------------------------------------------------------------------------

    def if_(self, cond: Value, then: list[Stmt], orelse: list[Stmt] | None = None) -> None:
        """An if over blocks built before; see `block`."""
        if cond.type != u1:
            raise InternalError(f"a condition is u1, not {cond.type}")
        self.emit(n.If(cond, tuple(then), tuple(orelse or ()), loc=self.loc))

    # -- adstacks -------------------------------------------------------------------------------------------

    def push(self, stack: str, value: Value) -> None:
        self.emit(n.StackPush(stack, value, loc=self.loc))

    def pop(self, stack: str) -> None:
        self.emit(n.StackPop(stack, loc=self.loc))

    def top(self, stack: str, dtype: Scalar) -> Value:
        out = self.fresh(dtype)
        self.emit(n.StackTop(out, stack, loc=self.loc))
        return out

    def top_adjoint(self, stack: str, dtype: Scalar) -> Value:
        out = self.fresh(dtype)
        self.emit(n.StackTopAdjoint(out, stack, loc=self.loc))
        return out

    def accumulate(self, stack: str, value: Value) -> None:
        self.emit(n.StackAccumulate(stack, value, loc=self.loc))


def normal_constant(value: float | int | bool, dtype: Scalar) -> float | int | bool:
    """A Python number rounded or wrapped to the type, with one NaN."""
    if dtype.is_bool:
        return bool(value)
    if dtype.is_int:
        wrapped = int(value) & ((1 << dtype.bits) - 1)
        return wrapped - (1 << dtype.bits) if dtype.is_signed and wrapped >> (dtype.bits - 1) else wrapped
    rounded = float(dtype(float(value)))  # type: ignore[arg-type]
    return math.nan if math.isnan(rounded) else rounded
