"""This pass applies algebraic laws as rewrite rules, until none matches.

    %2: i32 = const 0                     %2: i32 = const 0
    %3: i32 = add %1, %2                  // %3 is %1
    %4: i32 = neg %3                      %4: i32 = neg %1
    %5: i32 = sub %0, %4                  %5: i32 = add %0, %1

Invariant: a law holds for every operand, for reals bit by bit: signed zeros, infinities and rounding included, NaN up
to its payload. Laws keep the derivative, also where it is a convention (ties of min and max). Divisions by constants
and products with powers of two are not changed, because later passes read index arithmetic in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from ..ir import nodes as n
from ..ir.build import normal_constant
from ..ir.kernels import Kernel
from ..ir.statement import Stmt
from ..ir.types import Scalar
from ..ir.walk import rename_operands
from .rewrite import ConstantPattern, Equation, OperationPattern, Pattern, Rewriter, build, equation, match

INVERSE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
COMMUTATIVE = frozenset({"add", "mul", "bit_and", "bit_or", "bit_xor", "logical_and", "logical_or", "cmp_eq", "cmp_ne"})
"""For these operations op(x, y) = op(y, x).

Min and max are missing, because the right operand wins the derivative of a tie.
"""


def simplify(kernel: Kernel) -> Kernel:
    """Return the kernel after all laws were applied, or the same object if none matches."""
    return _Simplifier(kernel).run()


# ---- equations ----------------------------------------------------------------------------------------------

# Each key lists the kinds of the type of x for which the laws `left = right` hold.
_LAWS = {
    "fiu": (
        "neg(neg(x)) = x",
        "add(x, neg(y)) = sub(x, y)",
        "add(neg(x), y) = sub(y, x)",
        "sub(x, 0) = x",  # for reals +0.0: -0.0 - 0.0 is -0.0
        "sub(x, neg(y)) = add(x, y)",
        "mul(x, 1) = x",
        "mul(x, -1) = neg(x)",
        "mul(neg(x), neg(y)) = mul(x, y)",
        "pow(x, 1) = x",
        "pow(x, 0) = 1",
        "pow(1, x) = 1",
        "min(x, x) = x",
        "max(x, x) = x",
    ),
    "f": (
        "add(x, -0.0) = x",  # with +0.0 it would turn -0.0 into 0.0
        "sub(-0.0, x) = neg(x)",
        "div(x, 1) = x",
        "div(x, -1) = neg(x)",
        "div(neg(x), neg(y)) = div(x, y)",
        "floordiv(x, 1) = floor(x)",
        "floor(floor(x)) = floor(x)",
        "floor(ceil(x)) = ceil(x)",
        "floor(round(x)) = round(x)",
        "ceil(floor(x)) = floor(x)",
        "ceil(ceil(x)) = ceil(x)",
        "ceil(round(x)) = round(x)",
        "round(floor(x)) = floor(x)",
        "round(ceil(x)) = ceil(x)",
        "round(round(x)) = round(x)",
    ),
    "fi": ("abs(abs(x)) = abs(x)", "abs(neg(x)) = abs(x)"),
    "iu": (
        "add(x, 0) = x",
        "add(sub(x, y), y) = x",
        "add(y, sub(x, y)) = x",
        "sub(x, x) = 0",
        "sub(0, x) = neg(x)",
        "sub(add(x, y), y) = x",
        "sub(add(y, x), y) = x",
        "neg(sub(x, y)) = sub(y, x)",
        "mul(x, 0) = 0",
        "floordiv(x, 1) = x",
        "mod(x, 1) = 0",
        "pow(x, 2) = mul(x, x)",
        "bit_shl(x, 0) = x",
        "bit_shr(x, 0) = x",
        "bit_sar(x, 0) = x",
    ),
    "i": ("floordiv(x, -1) = neg(x)", "mod(x, -1) = 0"),
    "u": ("abs(x) = x", "cmp_lt(x, 0) = False", "cmp_ge(x, 0) = True"),
    "iub": (
        "bit_not(bit_not(x)) = x",
        "bit_and(x, x) = x",
        "bit_and(x, 0) = 0",
        "bit_and(x, -1) = x",
        "bit_or(x, x) = x",
        "bit_or(x, 0) = x",
        "bit_or(x, -1) = -1",
        "bit_xor(x, x) = 0",
        "bit_xor(x, 0) = x",
        "bit_xor(x, -1) = bit_not(x)",
        "cmp_le(x, x) = True",  # not for reals: NaN
        "cmp_ge(x, x) = True",
        "cmp_eq(x, x) = True",
        "cmp_ne(x, x) = False",
        *(f"logic_not(cmp_{a}(x, y)) = cmp_{b}(x, y)" for a, b in INVERSE.items()),
    ),
    "fiub": (
        "cmp_lt(x, x) = False",
        "cmp_gt(x, x) = False",
        "logic_not(cmp_eq(x, y)) = cmp_ne(x, y)",
        "logic_not(cmp_ne(x, y)) = cmp_eq(x, y)",
        "select(c, x, x) = x",
        "select(logic_not(c), x, y) = select(c, y, x)",
        "select(c, select(c, x, y), z) = select(c, x, z)",
        "select(c, x, select(c, y, z)) = select(c, x, z)",
    ),
    "b": (
        "logic_not(logic_not(x)) = x",
        "logical_and(x, x) = x",
        "logical_and(x, True) = x",
        "logical_and(x, False) = False",
        "logical_and(x, logic_not(x)) = False",
        "logical_or(x, x) = x",
        "logical_or(x, True) = True",
        "logical_or(x, False) = x",
        "logical_or(x, logic_not(x)) = True",
        "cmp_eq(x, True) = x",
        "cmp_eq(x, False) = logic_not(x)",
        "cmp_ne(x, True) = logic_not(x)",
        "cmp_ne(x, False) = x",
        "select(x, True, False) = x",
        "select(x, False, True) = logic_not(x)",
        "select(x, y, False) = logical_and(x, y)",
        "select(x, True, y) = logical_or(x, y)",
    ),
}

EQUATIONS: tuple[Equation, ...] = tuple(equation(text, kinds) for kinds, texts in _LAWS.items() for text in texts)

Heads = tuple[str | None, ...]
"""Heads say what defines each operand of a left side or of a statement: an operation, a constant, or neither (None)."""
CONSTANT = "constant"


def _head(pattern: Pattern) -> str | None:
    return (
        pattern.op
        if isinstance(pattern, OperationPattern)
        else CONSTANT
        if isinstance(pattern, ConstantPattern)
        else None
    )


@cache
def laws_for(op: str, heads: Heads) -> tuple[Equation, ...]:
    """Return the laws whose left side fits an operation with operands that statements of these classes define.

    `heads` are these classes, or operations, one for each operand. The result is cached, because most combinations have
    no law or one.
    """

    def fits(equated: Equation) -> bool:
        wanted = [_head(p) for p in equated.left.args]
        return all(w is None or w == head for w, head in zip(wanted, heads))

    return tuple(e for e in EQUATIONS if e.left.op == op and fits(e))


# ---- the pass -----------------------------------------------------------------------------------------------


class _Simplifier(Rewriter):
    """This rewriter applies the laws to each operation and cast."""

    LEFT = frozenset({n.Op, n.Cast, n.BitCast})

    def leave(self, stmt: Stmt) -> Iterable[Stmt] | None:
        made = self._once(stmt)
        return None if made is None else [inner for one in made for inner in self._settle(one)]

    def _settle(self, stmt: Stmt) -> list[Stmt]:
        """Return the statements that replace a statement after laws were applied until none matches."""
        stmt = rename_operands(stmt, self.renamed)
        made = self._once(stmt)
        if made is not None:
            return [inner for one in made for inner in self._settle(one)]
        if isinstance(stmt, (n.Const, n.Op, n.Cast, n.BitCast)):
            self.definitions[stmt.result] = stmt
        return [stmt]

    def _heads(self, stmt: n.Op) -> Heads:
        made = [self.definitions.get(a) for a in stmt.args]
        return tuple([m.op if isinstance(m, n.Op) else CONSTANT if isinstance(m, n.Const) else None for m in made])

    def _once(self, stmt: Stmt) -> Iterable[Stmt] | None:
        """Return the replacement of a statement by the first law that matches, or None if no law matches."""
        if isinstance(stmt, n.Cast):
            return self._cast(stmt)
        if isinstance(stmt, n.BitCast):
            return self._bit_cast(stmt)
        if not isinstance(stmt, n.Op):
            return None
        for equated in laws_for(stmt.op, self._heads(stmt)):
            found = match(equated, stmt, self)
            if found is not None:
                return build(equated, stmt, found, self)
        return self._calculated(stmt)

    def _calculated(self, stmt: n.Op) -> Iterable[Stmt] | None:
        """Return the replacement of an operation by a law on constants or casts, or None if no such law applies."""
        if len(stmt.args) != 2:
            return None
        x, y = stmt.args
        c = self.constant(y)
        # A constant operand moves to the right: c op x = x op c.
        if stmt.op in COMMUTATIVE and c is None and self.constant(x) is not None:
            return (replace(stmt, args=(y, x)),)
        if c is None:
            return None
        if stmt.op in ("add", "mul") and y.type.is_signed:
            return self._chain(stmt, int(c))
        # x / 2^k = x * 2^-k, because both round the same real number.
        if stmt.op == "div" and _has_exact_inverse(float(c), y.type):
            return self._with_constant(stmt, "mul", 1.0 / float(c))
        if stmt.op in ("cmp_ne", "cmp_eq") and c == 0:
            return self._truth(stmt)
        return None

    def _chain(self, stmt: n.Op, c: int) -> Iterable[Stmt] | None:
        """Return the replacement of (x op b) op c by x op (b op c) for wrapping integers; None for other operations."""
        inner = self.definitions.get(stmt.args[0])
        if not isinstance(inner, n.Op) or inner.op != stmt.op:
            return None
        b = self.constant(inner.args[1])
        if b is None:
            return None
        both = int(b) + c if stmt.op == "add" else int(b) * c
        return self._with_constant(replace(stmt, args=inner.args), stmt.op, both)

    def _with_constant(self, stmt: n.Op, op: str, c: float | int) -> tuple[Stmt, ...]:
        """Return statements that define the result of `stmt` as op(first operand of `stmt`, constant c)."""
        right = self.fresh(stmt.result.type)
        made = n.Const(right, normal_constant(c, right.type), loc=stmt.loc)
        return made, replace(stmt, op=op, args=(stmt.args[0], right))

    def _truth(self, stmt: n.Op) -> Iterable[Stmt] | None:
        """Return the replacement of cast(b) != 0 by b, or of cast(b) == 0 by not b, for a boolean b; None otherwise."""
        inner = self.definitions.get(stmt.args[0])
        if not isinstance(inner, n.Cast) or not inner.arg.type.is_bool:
            return None
        if stmt.op == "cmp_ne":
            return self.rename(stmt.result, inner.arg)
        return (n.Op(stmt.result, "logic_not", (inner.arg,), loc=stmt.loc),)

    def _cast(self, stmt: n.Cast) -> Iterable[Stmt] | None:
        """Return the replacement of cast(cast(x)) by cast(x) if the inner cast loses nothing, or None."""
        if stmt.arg.type == stmt.result.type:
            return self.rename(stmt.result, stmt.arg)
        inner = self.definitions.get(stmt.arg)
        if isinstance(inner, n.Cast) and _skips(inner.arg.type, stmt.arg.type, stmt.result.type):
            return (replace(stmt, arg=inner.arg),)
        return None

    def _bit_cast(self, stmt: n.BitCast) -> Iterable[Stmt] | None:
        """Return the replacement of bit_cast(bit_cast(x)) by bit_cast(x), or None for any other bit cast.

        A bit_cast of an integer or boolean to its own type is the operand. A real is left alone, because its bit_cast
        ends the derivative.
        """
        if stmt.arg.type == stmt.result.type and not stmt.arg.type.is_real:
            return self.rename(stmt.result, stmt.arg)
        inner = self.definitions.get(stmt.arg)
        return (replace(stmt, arg=inner.arg),) if isinstance(inner, n.BitCast) else None


def _skips(a: Scalar, b: Scalar, c: Scalar) -> bool:
    """Return True if a cast of type a to b and then to c gives the same as a cast from a to c, for every value."""
    if a.is_int and b.is_int and c.is_int and c.bits <= b.bits:
        # The low bits of the low bits are the low bits.
        return True
    if a.is_int and b.is_real and c.is_int:
        # A cast from real b to c saturates where a cast from a to c would wrap, so both must be exact.
        return _is_exact(a, b) and _is_exact(a, c)
    return _is_exact(a, b)


def _is_exact(a: Scalar, b: Scalar) -> bool:
    """Return True if type b can represent every value of type a."""
    if a == b or a.is_bool:
        return True
    if b.is_bool or a.is_real and b.is_int:
        return False
    if a.is_real:
        return a.bits <= b.bits
    if b.is_real:
        return a.bits - a.is_signed <= {16: 11, 32: 24, 64: 53}[b.bits]
    return a.bits + b.is_signed - a.is_signed <= b.bits and (b.is_signed or not a.is_signed)


def _has_exact_inverse(c: float, dtype: Scalar) -> bool:
    """Return True if c is a power of two and both c and its inverse are normal numbers of the type."""
    lowest = {16: -14, 32: -126, 64: -1022}[dtype.bits]
    return c != 0 and math.isfinite(c) and abs(math.frexp(c)[0]) == 0.5 and abs(math.frexp(c)[1] - 1) <= -lowest
