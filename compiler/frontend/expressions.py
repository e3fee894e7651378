"""This module traces expressions: one function for each class of syntax tree node, in the table EXPRESSIONS.

Operations on numbers known at compile time are folded as in Python.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial, reduce

from ..ir.statement import Value
from ..ir.types import Scalar
from . import type_inference
from .arguments import positional
from .broadcasts import broadcast
from .context import EXPRESSIONS, Handler, Tracer, require_value, rows
from .conversions import as_matrix, captured_operand, unify_entries
from .diagnostics import ProblemError, syntax_problem, type_problem
from .limits import check_count
from .memory import declare, is_argument, load, store
from .operands import (
    UNKNOWN,
    MatrixValue,
    Operand,
    Pack,
    Static,
    describe,
    integer_of,
    known_object,
    number_of,
    shape_text,
    static_operand,
)
from .outer_names import outer_object
from .scope import CompoundVariable, FixedName, LocalVariable, ReferenceName

# ---- names and constants ----------------------------------------------------------------------------------------


@EXPRESSIONS.row(ast.Constant)
def _constant(t: Tracer, node: ast.Constant) -> Operand:
    if isinstance(node.value, (complex, bytes)):
        raise syntax_problem(
            f"a {type(node.value).__name__} literal has no meaning in a kernel", "use integers and reals"
        )
    return Static(node.value)


@EXPRESSIONS.row(ast.Name)
def _name(t: Tracer, node: ast.Name) -> Operand:
    binding = t.scopes.find(node.id)
    if isinstance(binding, FixedName):
        return captured_operand(t, binding.operand)
    if isinstance(binding, ReferenceName):
        return load(t, binding.place)
    if binding is not None:
        return load(t, binding)
    return captured_operand(t, static_operand(outer_object(t, node), node.id))


@EXPRESSIONS.row(ast.NamedExpr)
def _named(t: Tracer, node: ast.NamedExpr) -> Operand:
    operand = t.clean(node.value)
    assign_name(t, node.target, operand)
    return _name(t, ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))


def assign_name(t: Tracer, node: ast.Name, operand: Operand) -> None:
    """Store to a local, or declare it if the name is new; the type of a local is that of its first value.

    Args:
        t: the tracer.
        node: the name.
        operand: the operand that is assigned.

    Raises:
        ProblemError: the name cannot be assigned, such as a loop index.
    """
    binding = t.scopes.find(node.id)
    if binding is None:
        t.scopes.declare(node.id, declare(t, node.id, operand), node.lineno)
    elif isinstance(binding, ReferenceName):
        store(t, binding.place, operand)
    elif isinstance(binding, (LocalVariable, CompoundVariable)) and not is_argument(binding):
        store(t, binding, operand)
    elif not (isinstance(binding, FixedName) and binding.kind == "faulty"):
        kind = binding.kind if isinstance(binding, FixedName) else "argument of the kernel"
        raise syntax_problem(
            f"`{node.id}` is {_article(kind)} and cannot be assigned", "copy it to a new local first", node
        )


def _article(kind: str) -> str:
    return ("an " if kind[0] in "aeiou" else "a ") + kind


@EXPRESSIONS.row(ast.Tuple)
def _tuple(t: Tracer, node: ast.Tuple) -> Operand:
    return Pack(tuple(positional(t, node.elts)))


@EXPRESSIONS.row(ast.List)
def _list(t: Tracer, node: ast.List) -> Operand:
    """Return a list as a vector or matrix whose entries or rows are its items, known at compile time."""
    return Pack(tuple(positional(t, node.elts)))


# ---- operators ----------------------------------------------------------------------------------------------------


@EXPRESSIONS.row(ast.BinOp)
def _binary(t: Tracer, node: ast.BinOp) -> Operand:
    """Return the operand of a binary expression; nested left operands are evaluated in a loop, not by recursion."""
    links = [node]
    while isinstance(links[-1].left, ast.BinOp):
        links.append(links[-1].left)
        t.locate(links[-1])
    left = t.expr(links[-1].left)
    for link in links[:0:-1]:
        left = t.evaluate(link, partial(_applied, left))
    return _applied(left, t, node)


def _applied(left: Operand, t: Tracer, node: ast.BinOp) -> Operand:
    return binary(t, node.op, left, t.expr(node.right))


def binary(t: Tracer, op: ast.operator, left: Operand, right: Operand) -> Operand:
    """Return the result of an operator of Python on two operands; sequences are repeated and joined as in Python."""
    count = integer_of(right)
    if isinstance(left, Pack) and isinstance(op, ast.Mult) and count is not None:
        check_count(count * len(left.items))
        return Pack(left.items * count)
    if isinstance(left, Pack) and isinstance(right, Pack) and isinstance(op, ast.Add):
        return Pack(left.items + right.items)
    textual = isinstance(op, (ast.Mod, ast.Add)) or isinstance(op, ast.Mult) and count is not None
    if textual and isinstance(left, Static) and isinstance(left.value, str):
        return _text(op, left.value, right)
    row = type_inference.BINARY.get(type(op))
    return multiply(t, left, right) if row is None else apply_binary(t, row, left, right)


def _text(op: ast.operator, left: str, right: Operand) -> Static:
    """Return `"%d" % n`, `"a" + "b"` or `"-" * n` of operands known at compile time."""
    other = known_object(right)
    if other is UNKNOWN:
        raise type_problem("text is made of what is known at compile time", 'print values, or a format: `f"{x:.3f}"`')
    try:
        return Static(type_inference.BINARY[type(op)].fold(left, other))
    except (TypeError, ValueError) as error:
        raise type_problem(f"the text fails: {error}", "correct it") from None


def apply_binary(t: Tracer, row: type_inference.BinaryOperator, left: Operand, right: Operand) -> Operand:
    """Return the result of a binary operator, applied entry by entry if an operand is a vector or matrix.

    Args:
        t: the tracer.
        row: the operator, as described in `type_inference.BINARY` or `type_inference.COMPARE`.
        left: the left operand.
        right: the right operand.
    """
    return broadcast(t, row.symbol, partial(_scalar_binary, t, row), left, right)


def _scalar_binary(t: Tracer, row: type_inference.BinaryOperator, left: Operand, right: Operand) -> Operand:
    """Return the result of an operator on two scalars, folded if both are numbers of the program text."""
    types = t.type_of(left), t.type_of(right)
    a, b = number_of(left), number_of(right)
    if a is not None and b is not None:
        type_inference.operand_type(row, *types, t.options)
        return Static(type_inference.fold(row, a, b))
    # A shifted constant takes the common type of its own type and that of the shift count.
    if row.family == "shift" and a is not None:
        types = type_inference.common_type(*types), types[1]
    dtype = type_inference.operand_type(row, *types, t.options)
    _check_constants(t, row, dtype, left, right)
    return t.builder.op(type_inference.operation(row, dtype), t.value(left, dtype), t.value(right, dtype))


def multiply(t: Tracer, left: Operand, right: Operand) -> Operand:
    """Return the matrix product `left @ right`.

    The shapes may be (n, m) and (m, k), (n, m) and (m,), (n,) and (n, m), (n,) as a column and (1, m), or (n,) and
    (n,), of which the product is a number.

    Raises:
        ProblemError: the operands are no matrices, or their shapes do not fit.
    """
    a, b = as_matrix(t, require_value(left)), as_matrix(t, require_value(right))
    if a is None or b is None:
        other = describe(right if b is None else left)
        raise type_problem(f"`@` multiplies matrices and vectors, not {other}", "use `*` for numbers")
    if len(a.shape) == len(b.shape) == 1:
        return _dot(t, a, b)
    if len(a.shape) == 1 and len(b.shape) == 2 and b.shape[0] == 1:
        # A vector before a matrix of one row is a column.
        a = MatrixValue((a.shape[0], 1), a.items)
    if a.shape[-1] != b.shape[0]:
        raise type_problem(
            f"`@` is given {shape_text(a.shape)} and {shape_text(b.shape)}: {a.shape[-1]} columns do not"
            f" meet {b.shape[0]} rows",
            "transpose one of them, or correct the shapes",
        )
    left_rows = rows(a) if len(a.shape) == 2 else (a,)
    columns = _columns(b)
    made = [
        inner_product(t, row.items, column)  # type: ignore[union-attr]
        for row in left_rows
        for column in columns
    ]
    return unify_entries(t, a.shape[:-1] + b.shape[1:], made)


def _dot(t: Tracer, a: MatrixValue, b: MatrixValue) -> Operand:
    if a.shape != b.shape:
        raise type_problem(
            f"`@` is given {shape_text(a.shape)} and {shape_text(b.shape)}", "write `a.outer_product(b)` for a matrix"
        )
    return inner_product(t, a.items, b.items)


def _columns(matrix: MatrixValue) -> list[tuple[Operand, ...]]:
    width = matrix.shape[1] if len(matrix.shape) == 2 else 1
    return [matrix.items[k::width] for k in range(width)]


def inner_product(t: Tracer, left: Sequence[Operand], right: Sequence[Operand]) -> Operand:
    """Return Σ left[k]·right[k], summed from the first to the last product."""
    products = [apply_binary(t, type_inference.BINARY[ast.Mult], a, b) for a, b in zip(left, right)]
    return reduce(partial(apply_binary, t, type_inference.BINARY[ast.Add]), products)


def _check_constants(
    t: Tracer, row: type_inference.BinaryOperator, dtype: Scalar, left: Operand, right: Operand
) -> None:
    """Raise ProblemError for an integer division by 0 or a negative integer exponent; warn if a constant wraps."""
    exponent = integer_of(right)
    if row.op == "pow" and dtype.is_int and exponent is not None and exponent < 0:
        raise type_problem("an integer to a negative power is not an integer", "convert the base with `float(...)`")
    if row.op in ("floordiv", "mod") and dtype.is_int and exponent == 0:
        raise type_problem("an integer is divided by zero", "correct the divisor")
    for operand in (left, right):
        found = integer_of(operand)
        if found is not None and found < 0 and dtype.kind == "u" and row.family in ("number", "compare"):
            t.warn(
                f"{found} becomes unsigned ({dtype}) beside an unsigned operand and wraps",
                "convert the other operand with `sg.cast(..., sg.i64)`",
            )


@EXPRESSIONS.row(ast.UnaryOp)
def _unary(t: Tracer, node: ast.UnaryOp) -> Operand:
    operand = t.clean(node.operand)
    if isinstance(node.op, ast.Not):
        return _not(t, t.truth(operand))
    return broadcast(t, _SIGNS[type(node.op)], partial(_scalar_unary, t, node.op), operand)


_SIGNS: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}


def _scalar_unary(t: Tracer, op: ast.unaryop, operand: Operand) -> Operand:
    dtype, found = t.type_of(operand), number_of(operand)
    type_inference.check_unary(op, dtype)
    if found is not None:
        # Only `~` takes a boolean here, because `check_unary` refuses a sign.
        if isinstance(found, bool):
            return Static(not found)
        return Static(type_inference.UNARY[type(op)](found))
    if isinstance(op, ast.UAdd):
        return operand
    return t.builder.op("neg" if isinstance(op, ast.USub) else "bit_not", t.value(operand))


def _not(t: Tracer, condition: Static | Value) -> Operand:
    return Static(not condition.value) if isinstance(condition, Static) else t.builder.op("logic_not", condition)


# ---- what the language does not have ------------------------------------------------------------------------------


def refusal(make: Callable[[str, str], ProblemError], reason: str, cure: str) -> Handler:
    """Return an expression handler that raises a refusal with the given reason and cure.

    Args:
        make: function that makes the problem from a reason and a cure.
        reason: cause of the refusal.
        cure: proposal for the user.
    """

    def refuse(t: Tracer, node: ast.expr) -> Operand:
        raise make(reason, cure)

    return refuse


_LISTS = "use `sg.static(...)` around it if it is known at compile time, else locals or a field"
_REFUSED: dict[str, tuple[str, str]] = {
    "Lambda": ("a kernel cannot hold a lambda", "write a function with `@sg.func`"),
    "Set": ("a kernel has no sets", _LISTS),
    "Dict": ("a kernel has no dictionaries", _LISTS),
    "SetComp": ("a kernel has no comprehensions", _LISTS),
    "DictComp": ("a kernel has no comprehensions", _LISTS),
    "Await": ("a kernel cannot wait", "remove `await`"),
    "Yield": ("a kernel cannot yield", "store to a field"),
    "YieldFrom": ("a kernel cannot yield", "store to a field"),
    "Starred": ("`*` is taken only before a tuple of known length", "write the values one by one"),
    "Slice": ("a kernel has no slices", "index one element, in a loop"),
    "JoinedStr": ("a formatted string is taken only by `print` and `assert`", "print it"),
    "FormattedValue": ("a formatted string is taken only by `print` and `assert`", "print it"),
    "TemplateStr": ("a kernel has no template strings", "print a formatted string"),
    "Interpolation": ("a kernel has no template strings", "print a formatted string"),
}
for _class in EXPRESSIONS.keys:
    if _class.__name__ in _REFUSED:
        EXPRESSIONS[_class] = refusal(syntax_problem, *_REFUSED[_class.__name__])
