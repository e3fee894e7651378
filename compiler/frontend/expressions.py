"""Expressions: one handler per class of syntax tree, in the closed table EXPRESSIONS.

Operations on numbers known at compile time are folded as in Python.
"""
from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ..ir.nodes import Value
from ..ir.types import Scalar
from . import infer
from .context import EXPRESSIONS, Handler, Tracer
from .diagnostics import Poisoned, Problem, mistyped, suggestion, syntax, unsupported
from .operands import UNKNOWN, Operand, Pack, ShapeOf, Static, describe, integer, known, number, static
from .protocols import FieldLike, is_field
from .scope import Argument, Fixed, Variable
from .source import MISSING, outer_name, outer_names

# ---- names and constants ----------------------------------------------------------------------------------------


@EXPRESSIONS.row(ast.Constant)
def _constant(t: Tracer, node: ast.Constant) -> Operand:
    if isinstance(node.value, (complex, bytes)):
        raise syntax(f"a {type(node.value).__name__} literal has no meaning in a kernel", "use integers and reals")
    return Static(node.value)


@EXPRESSIONS.row(ast.Name)
def _name(t: Tracer, node: ast.Name) -> Operand:
    binding = t.scopes.find(node.id)
    if isinstance(binding, Variable):
        return t.builder.get(binding.name, binding.dtype)
    if isinstance(binding, Argument):
        return t.builder.arg(binding.name, binding.dtype)
    if isinstance(binding, Fixed):
        return binding.operand
    return static(outer(t, node.id), node.id)


def outer(t: Tracer, name: str) -> Any:
    """The object outside the function that a name means. Raises KernelSyntaxError if there is none."""
    function = t.active.function
    local = name in t.active.locals
    found = MISSING if local else outer_name(function, name)
    if found is not MISSING:
        return found
    if (function, name) in t.poisoned:
        raise Poisoned
    t.poisoned.add((function, name))
    if name in t.scopes.expired:
        raise syntax(
            f"`{name}` is first assigned inside the block at line {t.scopes.expired[name]} and ends with that block",
            f"give `{name}` a value before the block, as in `{name} = 0.0`",
        )
    if local:
        raise syntax(f"`{name}` is used before it has a value", f"assign `{name}` first")
    close = suggestion(name, [*t.scopes.visible(), *outer_names(function)])
    raise syntax(f"the name `{name}` is not known", close or "define it before the kernel is first called")


@EXPRESSIONS.row(ast.NamedExpr)
def _named(t: Tracer, node: ast.NamedExpr) -> Operand:
    operand = t.clean(node.value)
    assign_name(t, node.target, operand)
    return _name(t, ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))


def assign_name(t: Tracer, node: ast.Name, operand: Operand) -> None:
    """Store to a local, declaring it if the name is new; its type is that of the first value."""
    binding = t.scopes.find(node.id)
    if isinstance(binding, Variable):
        t.builder.set(binding.name, t.stored(operand, binding.dtype, f"`{node.id}`"))
    elif binding is None:
        value = t.value(operand)
        t.scopes.declare(node.id, Variable(t.builder.local(t.namer.unique(node.id), value.type, value), value.type),
                         node.lineno)  # fmt: skip
    elif not (isinstance(binding, Fixed) and binding.kind == "faulty"):
        kind = "argument of the kernel" if isinstance(binding, Argument) else binding.kind
        raise syntax(f"`{node.id}` is {_article(kind)} and cannot be assigned", "copy it to a new local first", node)


def _article(kind: str) -> str:
    return ("an " if kind[0] in "aeiou" else "a ") + kind


@EXPRESSIONS.row(ast.Tuple)
def _tuple(t: Tracer, node: ast.Tuple) -> Operand:
    return Pack(tuple(t.expr(e) for e in node.elts))


# ---- attributes and elements --------------------------------------------------------------------------------------

_VECTORS = frozenset(["Vector", "Matrix", "vector", "matrix", "vec2", "vec3", "vec4", "mat2", "mat3", "mat4", "Struct"])
VECTOR_CURE = "keep each component in a scalar local of its own, as in `v0 = ...; v1 = ...`"


@EXPRESSIONS.row(ast.Attribute)
def _attribute(t: Tracer, node: ast.Attribute) -> Operand:
    base = t.clean(node.value)
    if not isinstance(base, Static):
        raise mistyped(f"{describe(base)} has no attribute `{node.attr}`", "use numbers and elements of fields")
    if is_field(base.value):
        return _field_attribute(t, base.value, base.hint, node.attr)
    found = getattr(base.value, node.attr, MISSING)
    if found is MISSING:
        if node.attr in _VECTORS:
            raise unsupported(f"`{ast.unparse(node)}`: local vectors and matrices are not supported", VECTOR_CURE)
        raise syntax(f"{describe(base)} has no attribute `{node.attr}`",
                     suggestion(node.attr, dir(base.value)) or "check its name")  # fmt: skip
    return static(found, node.attr if describe(base).startswith("the module") else f"{base.hint}_{node.attr}")


def _field_attribute(t: Tracer, field: FieldLike, hint: str, attribute: str) -> Operand:
    if attribute == "shape":
        return Static(ShapeOf(field, hint), hint + ".shape")
    if attribute == "dtype":
        return Static(field.dtype, hint + ".dtype")
    if attribute == "grad":
        gradient = t.captures.gradient(field, hint)
        if gradient is None:
            raise mistyped(f"the field `{hint}` has no gradient", f"create `{hint}` with `needs_grad=True`")
        return Static(gradient, hint + ".grad")
    raise syntax(f"`{hint}.{attribute}` cannot be used in a kernel", "use elements, `.shape`, `.dtype` or `.grad`")


@EXPRESSIONS.row(ast.Subscript)
def _subscript(t: Tracer, node: ast.Subscript) -> Operand:
    base = t.clean(node.value)
    if isinstance(base, Static) and is_field(base.value):
        array, indices = element(t, base.value, base.hint, node)
        return t.builder.load(array, indices, base.value.dtype)
    return _static_item(t, base, t.clean(node.slice), node)


def element(t: Tracer, field: FieldLike, hint: str, node: ast.Subscript) -> tuple[str, tuple[Value, ...]]:
    """Name and indices of an element of a field. Raises KernelTypeError on a wrong number of indices."""
    parts = _index_parts(t, node.slice)
    if len(parts) != len(field.shape):
        raise mistyped(f"`{hint}` has {_count(len(field.shape), 'axis', 'axes')}, but is indexed with {len(parts)}",
                       _index_cure(hint, len(field.shape)), node)  # fmt: skip
    array = t.captures.array(field, hint)
    written = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    places = written if len(written) == len(parts) else [node] * len(parts)
    return array, tuple(_index(t, part, at) for part, at in zip(parts, places))


def _index(t: Tracer, part: Operand, node: ast.expr) -> Value:
    try:
        return t.index(part)
    except Problem as problem:
        problem.node = problem.node or node
        raise


def _index_parts(t: Tracer, node: ast.expr) -> tuple[Operand, ...]:
    operand = t.clean(node)
    if isinstance(operand, Static) and operand.value is None:
        return ()
    items = t.items(operand)
    return (operand,) if items is None else items


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _index_cure(hint: str, rank: int) -> str:
    return f"write `{hint}[{', '.join('ijklmnop'[:rank]) if rank else 'None'}]`"


def _static_item(t: Tracer, base: Operand, index: Operand, node: ast.Subscript) -> Operand:
    """An item of something known at compile time: the index must be known too."""
    if isinstance(base, Value):
        raise mistyped("a number cannot be indexed", VECTOR_CURE)
    key = known(index)
    if key is UNKNOWN:
        raise mistyped(f"{describe(base)} is indexed with a value that is not known at compile time",
                       "loop with `for i in sg.static(range(n))`, or copy it into a field")  # fmt: skip
    try:
        if isinstance(base, Pack):
            return base.items[int(key)]
        assert isinstance(base, Static)
        if isinstance(base.value, ShapeOf):
            return t.extent(base.value, range(len(base.value.field.shape))[key])
        return static(base.value[key], f"{base.hint}_{key}")
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise mistyped(f"{describe(base)} cannot be indexed so: {error}", "index a field or a sequence") from None


# ---- operators ----------------------------------------------------------------------------------------------------


@EXPRESSIONS.row(ast.BinOp)
def _binary(t: Tracer, node: ast.BinOp) -> Operand:
    left, right = t.expr(node.left), t.expr(node.right)
    row = infer.BINARY.get(type(node.op))
    if row is None:
        raise unsupported("`@` multiplies matrices, which kernels do not have", VECTOR_CURE)
    return apply_binary(t, row, left, right)


def apply_binary(t: Tracer, row: infer.Binary, left: Operand, right: Operand) -> Operand:
    """An operator on two operands: folded if both are numbers of the program text."""
    types = t.type_of(left), t.type_of(right)
    a, b = number(left), number(right)
    if a is not None and b is not None:
        infer.operand_type(row, *types, t.options)
        return Static(infer.fold(row, a, b))
    if row.family == "shift" and a is not None:
        types = infer.common_type(*types), types[1]
    dtype = infer.operand_type(row, *types, t.options)
    _check_constants(t, row, dtype, left, right)
    return t.builder.op(infer.operation(row, dtype), t.value(left, dtype), t.value(right, dtype))


def _check_constants(t: Tracer, row: infer.Binary, dtype: Scalar, left: Operand, right: Operand) -> None:
    """Constants that cannot mean what they say in the common type."""
    exponent = integer(right)
    if row.op == "pow" and dtype.is_int and exponent is not None and exponent < 0:
        raise mistyped("an integer to a negative power is not an integer", "convert the base with `float(...)`")
    if row.op in ("floordiv", "mod") and dtype.is_int and exponent == 0:
        raise mistyped("an integer is divided by zero", "correct the divisor")
    for operand in (left, right):
        found = integer(operand)
        if found is not None and found < 0 and dtype.kind == "u" and row.family in ("number", "compare"):
            t.warn(f"{found} becomes unsigned ({dtype}) beside an unsigned operand and wraps",
                   "convert the other operand with `sg.cast(..., sg.i64)`")  # fmt: skip


@EXPRESSIONS.row(ast.UnaryOp)
def _unary(t: Tracer, node: ast.UnaryOp) -> Operand:
    operand = t.clean(node.operand)
    if isinstance(node.op, ast.Not):
        return _not(t, t.truth(operand))
    dtype, found = t.type_of(operand), number(operand)
    infer.check_unary(node.op, dtype)
    if found is not None:
        if isinstance(found, bool):
            return Static(not found)
        return Static(infer.UNARY[type(node.op)](found))
    if isinstance(node.op, ast.UAdd):
        return operand
    return t.builder.op("neg" if isinstance(node.op, ast.USub) else "bit_not", t.value(operand))


def _not(t: Tracer, condition: Static | Value) -> Operand:
    return Static(not condition.value) if isinstance(condition, Static) else t.builder.op("logic_not", condition)


# ---- what the language does not have ------------------------------------------------------------------------------


def refusal(make: Callable[[str, str], Problem], reason: str, cure: str) -> Handler:
    """A row that only explains."""

    def refuse(t: Tracer, node: ast.expr) -> Operand:
        raise make(reason, cure)

    return refuse


_LISTS = "use `sg.static(...)` around it if it is known at compile time, else locals or a field"
_REFUSED: dict[str, tuple[str, str]] = {
    "Lambda": ("a kernel cannot hold a lambda", "write a function with `@sg.func`"),
    "List": ("a kernel has no lists", _LISTS),
    "Set": ("a kernel has no sets", _LISTS),
    "Dict": ("a kernel has no dictionaries", _LISTS),
    "ListComp": ("a kernel has no comprehensions", _LISTS),
    "SetComp": ("a kernel has no comprehensions", _LISTS),
    "DictComp": ("a kernel has no comprehensions", _LISTS),
    "GeneratorExp": ("a kernel has no generators", _LISTS),
    "Await": ("a kernel cannot wait", "remove `await`"),
    "Yield": ("a kernel cannot yield", "store to a field"),
    "YieldFrom": ("a kernel cannot yield", "store to a field"),
    "Starred": ("`*` is taken only before a tuple of known length in a call", "write the values one by one"),
    "Slice": ("a kernel has no slices", "index one element, in a loop"),
    "JoinedStr": ("a formatted string is taken only by `print` and `assert`", "print it"),
    "FormattedValue": ("a formatted string is taken only by `print` and `assert`", "print it"),
    "TemplateStr": ("a kernel has no template strings", "print a formatted string"),
    "Interpolation": ("a kernel has no template strings", "print a formatted string"),
}
for _class in EXPRESSIONS.keys:
    if _class.__name__ in _REFUSED:
        EXPRESSIONS[_class] = refusal(syntax, *_REFUSED[_class.__name__])
