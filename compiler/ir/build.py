"""This module contains the builder: typed constructors that append statements, number values and record locations.

The frontend, the reverse transform and the derivative rules all build statements with the builder. A statement whose
types do not fit therefore fails in the line that makes the statement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InternalError
from . import nodes as n
from .collectives import COLLECTIVES, SUBGROUP
from .ops import result_type
from .statement import Block, Stmt, Value
from .types import SCALARS, Scalar, i32, u1


class Builder:
    """A builder numbers values and appends statements to the innermost block that is being built.

    Attributes:
        next_id: id that the next new value gets; ids start at `first_id`.
        loc: index in the location table of the kernel that new statements get.
    """

    def __init__(self, first_id: int = 0) -> None:
        self.next_id = first_id
        self.loc = 0
        self._open: list[list[Stmt]] = [[]]

    # -- blocks ---------------------------------------------------------------------------------------------

    def emit(self, stmt: Stmt) -> None:
        """Append a finished statement to the innermost open block."""
        self._open[-1].append(stmt)

    def fresh(self, dtype: Scalar) -> Value:
        """Return a new value that no statement defines yet."""
        value = Value(self.next_id, dtype)
        self.next_id += 1
        return value

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Open a block and yield the list that receives its statements; the end of the `with` closes the block."""
        body: list[Stmt] = []
        self._open.append(body)
        try:
            yield body
        finally:
            self._open.pop()

    def take(self) -> Block:
        """Return the statements of the root block and start a new, empty root block."""
        done = tuple(self._open[0])
        self._open = [[]]
        return done

    # -- values ---------------------------------------------------------------------------------------------

    def const(self, value: float | int | bool, dtype: Scalar) -> Value:
        """Emit a constant, rounded or wrapped to the type, and return its value."""
        out = self.fresh(dtype)
        self.emit(n.Const(out, normal_constant(value, dtype), loc=self.loc))
        return out

    def arg(self, name: str, dtype: Scalar) -> Value:
        """Emit a read of the scalar argument `name` of the kernel and return its value."""
        out = self.fresh(dtype)
        self.emit(n.Arg(out, name, loc=self.loc))
        return out

    def shape(self, array: str, axis: int, dtype: Scalar = i32) -> Value:
        """Emit a read of the extent of an array along an axis and return its value."""
        out = self.fresh(dtype)
        self.emit(n.Shape(out, array, axis, loc=self.loc))
        return out

    def within(self, index: Value, extent: Value, message: str) -> Value:
        """Emit an index check, which ends the launch with a message if the index is outside. Return the index."""
        out = self.fresh(index.type)
        self.emit(n.Within(out, index, extent, message, loc=self.loc))
        return out

    def op(self, name: str, *args: Value) -> Value:
        """Emit a scalar operation and return its result.

        Args:
            name: name of an operation in the table `OPS`.
            args: operands, of types that the operation takes.

        Raises:
            InternalError: the operation does not take operands of these types.
        """
        dtype = result_type(name, tuple(a.type for a in args))
        if dtype is None:
            raise InternalError(f"{name} does not take ({', '.join(str(a.type) for a in args)})")
        out = self.fresh(dtype)
        self.emit(n.Op(out, name, args, loc=self.loc))
        return out

    def cast(self, value: Value, dtype: Scalar) -> Value:
        """Emit a numeric conversion to the type and return its result, or return `value` if it already has the type."""
        if value.type == dtype:
            return value
        out = self.fresh(dtype)
        self.emit(n.Cast(out, value, loc=self.loc))
        return out

    def bit_cast(self, value: Value, dtype: Scalar) -> Value:
        """Emit a reinterpretation of the bits of a value as another type of the same width and return its result."""
        out = self.fresh(dtype)
        self.emit(n.BitCast(out, value, loc=self.loc))
        return out

    def random(self, dtype: Scalar) -> Value:
        """Emit a random draw of the type and return its value."""
        out = self.fresh(dtype)
        self.emit(n.Random(out, loc=self.loc))
        return out

    # -- memory ---------------------------------------------------------------------------------------------

    def load(self, array: str, indices: tuple[Value, ...], dtype: Scalar) -> Value:
        """Emit a load of an element of an array, or of a temporary if `indices` is empty, and return its value."""
        out = self.fresh(dtype)
        self.emit(n.Load(out, array, indices, loc=self.loc))
        return out

    def store(self, array: str, indices: tuple[Value, ...], value: Value) -> None:
        """Emit a store of a value to an element of an array, or to a temporary if `indices` is empty."""
        self.emit(n.Store(array, indices, value, loc=self.loc))

    def atomic(
        self, op: str, array: str, indices: tuple[Value, ...], value: Value, expected: Value | None = None
    ) -> Value:
        """Emit an atomic update of an element and return the old value of the element.

        Args:
            op: one of `ATOMIC_OPS`.
            array: name of an array or temporary.
            indices: index of the element, one integer for each axis.
            value: right operand of the update, of the type of the element.
            expected: value that `cas` compares the element with; None for every other `op`.
        """
        out = self.fresh(value.type)
        self.emit(n.Atomic(out, op, array, indices, value, expected, loc=self.loc))
        return out

    def left_by(self, atomic: n.Atomic, old: Value) -> Value:
        """Emit the computation of the value that `atomic` stores to an element with the value `old`, and return it."""
        if atomic.op == "exchange":
            return atomic.value
        if atomic.expected is None:
            return self.op(atomic.op, old, atomic.value)
        return self.op("select", self.same_bits(old, atomic.expected), atomic.value, old)

    def same_bits(self, x: Value, y: Value) -> Value:
        """Emit a comparison of the bits of two values of one type: a NaN equals itself, -0.0 differs from 0.0."""
        bits = SCALARS[f"i{x.type.bits}"]
        x, y = (self.bit_cast(v, bits) if v.type.is_real else v for v in (x, y))
        return self.op("cmp_eq", x, y)

    def local(self, var: str, dtype: Scalar, init: Value | None = None) -> str:
        """Declare a mutable scalar and return its name; the scalar is zero unless `init` is given."""
        self.emit(n.Local(var, dtype, loc=self.loc))
        if init is not None:
            self.set(var, init)
        return var

    def get(self, var: str, dtype: Scalar) -> Value:
        """Emit a read of a local and return its value."""
        out = self.fresh(dtype)
        self.emit(n.Get(out, var, loc=self.loc))
        return out

    def set(self, var: str, value: Value) -> None:
        """Emit a write of a value to a local."""
        self.emit(n.Set(var, value, loc=self.loc))

    def get_element(self, var: str, index: Value, dtype: Scalar) -> Value:
        """Emit a read of an element of a local array and return its value."""
        out = self.fresh(dtype)
        self.emit(n.GetElement(out, var, index, loc=self.loc))
        return out

    def set_element(self, var: str, index: Value, value: Value) -> None:
        """Emit a write of a value to an element of a local array."""
        self.emit(n.SetElement(var, index, value, loc=self.loc))

    def update_element(self, op: str, var: str, index: Value, value: Value) -> Value:
        """Emit an atomic update of an element of a shared array and return the old value of the element."""
        out = self.fresh(value.type)
        self.emit(n.UpdateElement(out, op, var, index, value, loc=self.loc))
        return out

    # -- blocks of iterations -------------------------------------------------------------------------------

    def sync(self, kind: str) -> None:
        """Emit a barrier or a fence; `kind` is one of `SYNCS`."""
        self.emit(n.Sync(kind, loc=self.loc))

    def collective(self, op: str, *args: Value, width: int = SUBGROUP) -> Value:
        """Emit a collective operation of a subgroup or block and return its result.

        Raises:
            InternalError: the operation does not take operands of these types.
        """
        dtype = COLLECTIVES[op].result_type(tuple(a.type for a in args))
        if dtype is None:
            raise InternalError(f"{op} does not take ({', '.join(str(a.type) for a in args)})")
        out = self.fresh(dtype)
        self.emit(n.Collective(out, op, args, width, loc=self.loc))
        return out

    # -- control --------------------------------------------------------------------------------------------

    def if_(self, cond: Value, then: list[Stmt], orelse: list[Stmt] | None = None) -> None:
        """Emit an `if` over blocks that were built before with `block`.

        Raises:
            InternalError: the condition is not of type u1.
        """
        if cond.type != u1:
            raise InternalError(f"a condition is u1, not {cond.type}")
        self.emit(n.If(cond, tuple(then), tuple(orelse or ()), loc=self.loc))

    # -- adstacks -------------------------------------------------------------------------------------------

    def push(self, stack: str, value: Value) -> None:
        """Emit a push of a primal to an adstack."""
        self.emit(n.StackPush(stack, value, loc=self.loc))

    def pop(self, stack: str) -> None:
        """Emit the removal of the top slot of an adstack."""
        self.emit(n.StackPop(stack, loc=self.loc))

    def top(self, stack: str, dtype: Scalar) -> Value:
        """Emit a read of the primal of the top slot of an adstack and return its value."""
        out = self.fresh(dtype)
        self.emit(n.StackTop(out, stack, loc=self.loc))
        return out

    def top_adjoint(self, stack: str, dtype: Scalar) -> Value:
        """Emit a read of the adjoint of the top slot of an adstack and return its value."""
        out = self.fresh(dtype)
        self.emit(n.StackTopAdjoint(out, stack, loc=self.loc))
        return out

    def accumulate(self, stack: str, value: Value) -> None:
        """Emit an addition of a value to the adjoint of the top slot of an adstack."""
        self.emit(n.StackAccumulate(stack, value, loc=self.loc))


def normal_constant(value: float | int | bool, dtype: Scalar) -> float | int | bool:
    """Return a Python number rounded or wrapped to a type, with every NaN mapped to the same NaN."""
    if dtype.is_bool:
        return bool(value)
    if dtype.is_int:
        wrapped = int(value) & ((1 << dtype.bits) - 1)
        return wrapped - (1 << dtype.bits) if dtype.is_signed and wrapped >> (dtype.bits - 1) else wrapped
    rounded = float(dtype(float(value)))  # type: ignore[arg-type]
    return math.nan if math.isnan(rounded) else rounded
