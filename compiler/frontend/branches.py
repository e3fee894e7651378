"""This module traces expressions that may skip an operand: `a < b < c`, `and`, `or`, `a if c else b`.

These expressions become branches, unless the skipped part is cheap, cannot trap and reads no memory. In that case both
parts are computed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from ..ir import nodes as n
from ..ir.ops import COMPARISONS
from ..ir.statement import Stmt, Value
from ..ir.types import u1
from . import type_inference
from .context import EXPRESSIONS, Tracer, require_value
from .conversions import as_matrix
from .diagnostics import syntax_problem, type_problem
from .expressions import apply_binary
from .operands import MatrixValue, Operand, Static, describe, number_of
from .trees import form, leaves, with_leaves


@EXPRESSIONS.row(ast.Compare)
def _compare(t: Tracer, node: ast.Compare) -> Operand:
    """Return the result of a comparison; `a < b < c` is `a < b and b < c` with b evaluated once."""
    left = t.expr(node.left)
    middle = t.expr(node.comparators[0])
    result = _compare_two(t, node.ops[0], left, middle)
    for op, comparator in zip(node.ops[1:], node.comparators[1:]):
        previous = middle

        # Defaults bind the variables of this round of the loop.
        def link(op: ast.cmpop = op, comparator: ast.expr = comparator, previous: Operand = previous) -> Operand:
            nonlocal middle
            middle = t.clean(comparator)
            return _compare_two(t, op, previous, middle)

        result = short_circuit(t, True, result, link)
    return result


def _compare_two(t: Tracer, op: ast.cmpop, left: Operand, right: Operand) -> Operand:
    if isinstance(left, Static) and isinstance(right, Static) and None in (number_of(left), number_of(right)):
        return Static(bool(_PYTHON_COMPARE[type(op)](left.value, right.value)))
    row = type_inference.COMPARE.get(type(op))
    if isinstance(op, (ast.Is, ast.IsNot)) and _is_none(left) != _is_none(right):
        return Static(isinstance(op, ast.IsNot))
    if row is None:
        if number_of(left) is not None and number_of(right) is not None:
            return Static(bool(_PYTHON_COMPARE[type(op)](number_of(left), number_of(right))))
        raise syntax_problem("`is` and `in` compare objects known at compile time alone", "compare numbers with `==`")
    a, b = number_of(left), number_of(right)
    if a is not None and b is not None:
        return Static(bool(type_inference.fold(row, a, b)))
    return apply_binary(t, row, left, right)


def _is_none(operand: Operand) -> bool:
    """Return True if an operand is the Python object None."""
    return isinstance(operand, Static) and operand.value is None


_PYTHON_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
} | {key: type_inference.COMPARE[key].fold for key in type_inference.COMPARE}


@EXPRESSIONS.row(ast.BoolOp)
def _bool(t: Tracer, node: ast.BoolOp) -> Operand:
    """Return the result of `and` or `or`, which is one of the operands as in Python.

    The result is a boolean in a condition, and if all operands are booleans.
    """
    conjunction = isinstance(node.op, ast.And)
    if node in t.active.conditions:
        result: Operand = t.truth(t.clean(node.values[0]))
        for value in node.values[1:]:
            result = short_circuit(t, conjunction, result, partial(t.clean, value))
        return result
    result = t.clean(node.values[0])
    for value in node.values[1:]:
        result = _one_of(t, conjunction, result, value)
    return result


def _one_of(t: Tracer, conjunction: bool, left: Operand, node: ast.expr) -> Operand:
    """Return `left and right` if `conjunction` is true, else `left or right`."""
    condition = t.truth(left)
    if isinstance(condition, Static):
        right = t.clean(node) if bool(condition.value) is conjunction else left
        t.truth(right)
        return right
    with t.block() as body:
        right = t.clean(node)
        t.truth(right)
    if t.type_of(left).is_bool and t.type_of(right).is_bool:
        return _joined(t, conjunction, condition, body, right)
    nothing: list[Stmt] = []
    if conjunction:
        return _alternatives(t, condition, (body, right), (nothing, left))
    return _alternatives(t, condition, (nothing, left), (body, right))


def short_circuit(t: Tracer, conjunction: bool, left: Operand, right: Callable[[], Operand]) -> Operand:
    """Return `left and right()` or `left or right()` as a truth value, without evaluating a skipped right side.

    Args:
        t: the tracer.
        conjunction: True for `and`.
        left: the left operand.
        right: function that evaluates the right operand.
    """
    condition = t.truth(left)
    if isinstance(condition, Static):
        return t.truth(right()) if bool(condition.value) is conjunction else condition
    with t.block() as body:
        other = t.truth(right())
    return _joined(t, conjunction, condition, body, other)


def _joined(t: Tracer, conjunction: bool, condition: Value, body: list[Stmt], right: Operand) -> Operand:
    """Emit `condition and right` or `condition or right`, with `right` computed by `body`, and return the result.

    Args:
        t: the tracer.
        conjunction: True for `and`.
        condition: the left operand as a condition.
        body: statements that compute the right operand.
        right: the right operand.
    """
    other = t.truth(right)
    if isinstance(other, Static):
        t.splice(body)
        return condition if bool(other.value) is conjunction else other
    if is_cheap(body):
        # Cheap statements run unconditionally, which costs less than a branch.
        t.splice(body)
        return t.builder.op("logical_and" if conjunction else "logical_or", condition, other)
    result = t.namer.unique("_and" if conjunction else "_or")
    t.builder.local(result, u1, condition)
    body.append(n.Set(result, other, loc=t.builder.loc))
    t.builder.if_(condition, *((body,) if conjunction else ([], body)))
    return t.builder.get(result, u1)


_CHEAP_OPS = frozenset(COMPARISONS).union(
    """
    neg abs sgn floor ceil add sub mul min max bit_not bit_and bit_or bit_xor bit_shl bit_shr bit_sar logic_not
    logical_and logical_or select
    """.split()
)
_CHEAP_LIMIT = 12


def is_cheap(body: list[Stmt], linear: bool = False) -> bool:
    """Return True if statements are so cheap and safe that they may run even where the program skips them.

    Args:
        body: the statements.
        linear: True to exclude real products of two unknowns too. An alternative that is not taken gets the adjoint 0,
            and 0 times an infinite factor would make the adjoint NaN.
    """
    constants = {s.result for s in body if isinstance(s, n.Const)}
    return len(body) <= _CHEAP_LIMIT and all(_is_cheap(s, constants, linear) for s in body)


def _is_cheap(stmt: Stmt, constants: set[Value], linear: bool) -> bool:
    if not isinstance(stmt, n.Op):
        return isinstance(stmt, (n.Const, n.Arg, n.Shape, n.Get, n.Cast, n.BitCast))
    if linear and stmt.op == "mul" and stmt.result.type.is_real:
        return not constants.isdisjoint(stmt.args)
    return stmt.op in _CHEAP_OPS


@EXPRESSIONS.row(ast.IfExp)
def _conditional(t: Tracer, node: ast.IfExp) -> Operand:
    condition = t.truth(t.clean(node.test))
    if isinstance(condition, Static):
        return t.clean(node.body if condition.value else node.orelse)
    with t.block() as then:
        a = t.expr(node.body)
    with t.block() as orelse:
        b = t.expr(node.orelse)
    return _alternatives(t, condition, (then, require_value(a)), (orelse, require_value(b)))


def _alternatives(
    t: Tracer, condition: Value, first: tuple[list[Stmt], Operand], second: tuple[list[Stmt], Operand]
) -> Operand:
    """Return one of two operands, as `condition` says: by `select` if both are cheap and safe, else by a branch.

    Args:
        t: the tracer.
        condition: condition under which the first operand is the result.
        first: statements that compute the first operand, and the operand.
        second: statements that compute the second operand, and the operand.
    """
    (then, a), (orelse, b) = first, second
    a, b = _alike(t, a, b)
    pairs = [(x, y, type_inference.common_type(t.type_of(x), t.type_of(y))) for x, y in zip(leaves(a), leaves(b))]
    with t.block() as then_end:
        xs = [t.value(x, dtype) for x, _, dtype in pairs]
    with t.block() as orelse_end:
        ys = [t.value(y, dtype) for _, y, dtype in pairs]
    then, orelse = then + then_end, orelse + orelse_end
    if is_cheap(then, linear=True) and is_cheap(orelse, linear=True):
        t.splice(then + orelse)
        return with_leaves(a, [t.builder.op("select", condition, x, y) for x, y in zip(xs, ys)])
    names = [(t.builder.local(t.namer.unique("_if"), dtype), dtype) for _, _, dtype in pairs]
    then.extend(n.Set(name, x, loc=t.builder.loc) for (name, _), x in zip(names, xs))
    orelse.extend(n.Set(name, y, loc=t.builder.loc) for (name, _), y in zip(names, ys))
    t.builder.if_(condition, then, orelse)
    return with_leaves(a, [t.builder.get(name, dtype) for name, dtype in names])


def _alike(t: Tracer, a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Return two alternatives converted to one type; next to a vector, a number becomes a vector of that number.

    Raises:
        ProblemError: the alternatives cannot have one type, such as a vector and a struct.
    """
    for one, other in ((a, b), (b, a)):
        if isinstance(one, MatrixValue) and not isinstance(other, MatrixValue):
            # A number beside a vector fills all of its entries.
            with_shape = as_matrix(t, other) or MatrixValue(one.shape, (other,) * len(one.items))
            a, b = (one, with_shape) if one is a else (with_shape, one)
    if form(a) != form(b):
        raise type_problem(f"`a if c else b` chooses between {describe(a)} and {describe(b)}", "make both alike")
    return a, b
