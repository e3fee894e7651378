"""Calls: what each function of the language becomes in the IR, one row of LOWERINGS each.

Invariant: a call whose arguments are all numbers of the program text is folded by the function's own Python meaning
where FOLDED says so, and otherwise takes the default types.
"""
from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable
from typing import Any

from ..ir.nodes import Value
from ..ir.ops import result_type
from ..ir.table import Table
from ..ir.types import Scalar
from . import infer
from .arguments import arguments, positional
from .context import EXPRESSIONS, Tracer, converted, unpoisoned
from .diagnostics import mistyped, syntax, unsupported
from .expressions import VECTOR_CURE, apply_binary
from .functions import FUNCTIONS, Func, function_name
from .inline import inline
from .operands import Operand, Pack, ShapeOf, Static, describe, number
from .places import place, update
from .static import evaluate_static, python_value
from .text import lower_print

Lowering = Callable[[Tracer, ast.Call], Operand]
LOWERINGS: Table[str, Lowering] = Table("frontend functions", FUNCTIONS)


@EXPRESSIONS.row(ast.Call)
def _call(t: Tracer, node: ast.Call) -> Operand:
    target = t.clean(node.func)
    if not isinstance(target, Static):
        raise mistyped(f"{describe(target)} cannot be called", "call a function")
    if isinstance(target.value, Func):
        return inline(t, target.value, node)
    name = function_name(target.value)
    if name is not None:
        return LOWERINGS[name](t, node)
    dtype = infer.as_dtype(target.value, t.options)
    if dtype is not None:
        (x,) = arguments(t, node, ast.unparse(node.func), "x")
        found = number(x)
        if found is not None and isinstance(target.value, type) and target.value in (int, float, bool):
            return Static(target.value(converted(found, dtype)))
        return cast_to(t, x, dtype)
    return _python_call(t, target, node)


def _python_call(t: Tracer, target: Static, node: ast.Call) -> Operand:
    try:
        row = PYTHON.get(target.value)
    except TypeError:
        row = None
    if row is not None:
        return row(t, node)
    name = ast.unparse(node.func)
    if getattr(target.value, "__name__", name.rpartition(".")[2]) in ("Vector", "Matrix"):
        raise unsupported(f"`{name}`: local vectors and matrices are not supported", VECTOR_CURE)
    if getattr(target.value, "is_stackgrad_kernel", False):
        raise syntax(f"the kernel `{name}` is called from a kernel", "make it a function with `@sg.func`")
    if callable(target.value):
        raise syntax(f"`{name}` is not a function that kernels can call",
                     "decorate it with `@sg.func`, or evaluate it with `sg.static(...)`")  # fmt: skip
    raise syntax(f"{describe(target)} cannot be called", "call a function")


# ---- operands ----------------------------------------------------------------------------------------------------


def dtype_argument(t: Tracer, operand: Operand, what: str) -> Scalar:
    """A type given as an argument."""
    found = infer.as_dtype(operand.value, t.options) if isinstance(operand, Static) else None
    if found is None:
        raise mistyped(f"`{what}` needs a scalar type, not {describe(operand)}", "give a type, as `sg.f32`")
    return found


def number_type(t: Tracer, name: str, operand: Operand) -> Scalar:
    """The type of an operand that must be an integer or a real."""
    dtype = t.type_of(operand)
    if dtype.is_bool:
        raise mistyped(f"`{name}` takes numbers, not a boolean", "convert it with `int(...)`")
    return dtype


def cast_to(t: Tracer, operand: Operand, dtype: Scalar) -> Operand:
    """Numeric conversion; of a number of the text, a typed constant."""
    t.type_of(operand)
    return t.value(operand, dtype)


# ---- rows: mathematics ----------------------------------------------------------------------------------------------


def _fold(name: str, *operands: Operand) -> Static | None:
    """The call on numbers of the program text, or None."""
    numbers = [number(o) for o in operands]
    function = FUNCTIONS[name]
    if None in numbers or function is None:
        return None
    try:
        return Static(function(*numbers))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise mistyped(f"`{name}` of these constants fails: {error}", "correct them") from None


def _unary(name: str, real: bool) -> Lowering:
    def lower(t: Tracer, node: ast.Call) -> Operand:
        (x,) = arguments(t, node, name, "x")
        dtype = number_type(t, name, x)
        if real and not dtype.is_real:
            dtype = t.options.default_fp
        return _fold(name, x) or t.builder.op(name, t.value(x, dtype))

    return lower


def _rounding(name: str) -> Lowering:
    """Integers are whole already; a second argument is the type of the result."""

    def lower(t: Tracer, node: ast.Call) -> Operand:
        x, target = arguments(t, node, name, "x", "dtype=")
        dtype = number_type(t, name, x)
        made: Operand = x
        if dtype.is_real:
            made = _fold(name, x) or t.builder.op(name, t.value(x))
        if isinstance(target, Static) and target.value is None:
            return made
        return t.value(made, dtype_argument(t, target, name))

    return lower


def _bit_count(name: str) -> Lowering:
    def lower(t: Tracer, node: ast.Call) -> Operand:
        (x,) = arguments(t, node, name, "x")
        if not t.type_of(x).is_int:
            raise mistyped(f"`{name}` takes an integer, not {t.type_of(x)}", "convert it with `int(...)`")
        return t.builder.op(name, t.value(x))

    return lower


def _extremum(name: str) -> Lowering:
    def lower(t: Tracer, node: ast.Call) -> Operand:
        if node.keywords:
            raise syntax(f"`{name}` does not take the keyword `{node.keywords[0].arg}`", "give the values alone")
        items = [unpoisoned(o) for o in positional(t, node.args)]
        if len(items) == 1:
            items = list(map(unpoisoned, t.items(items[0]) or items))
        if len(items) < 2:
            raise syntax(f"`{name}` takes two values or more", f"call it as `{name}(a, b)`")
        made: Operand = items[0]
        for item in items[1:]:
            made = _extremum_of_two(t, name, made, item)
        return made

    return lower


def _extremum_of_two(t: Tracer, name: str, a: Operand, b: Operand) -> Operand:
    dtype = infer.promote(number_type(t, name, a), number_type(t, name, b))
    return _fold(name, a, b) or t.builder.op(name, t.value(a, dtype), t.value(b, dtype))


@LOWERINGS.row("atan2")
def _atan2(t: Tracer, node: ast.Call) -> Operand:
    y, x = arguments(t, node, "atan2", "y", "x")
    dtype = infer.promote(number_type(t, "atan2", y), number_type(t, "atan2", x))
    dtype = dtype if dtype.is_real else t.options.default_fp
    return _fold("atan2", y, x) or t.builder.op("atan2", t.value(y, dtype), t.value(x, dtype))


@LOWERINGS.row("pow")
def _pow(t: Tracer, node: ast.Call) -> Operand:
    base, exponent = arguments(t, node, "pow", "x", "y")
    return apply_binary(t, infer.BINARY[ast.Pow], base, exponent)


@LOWERINGS.row("raw_div")
def _raw_div(t: Tracer, node: ast.Call) -> Operand:
    a, b = arguments(t, node, "raw_div", "a", "b")
    return _fold("raw_div", a, b) or _truncated(t, *_common(t, "raw_div", a, b))


def _common(t: Tracer, name: str, a: Operand, b: Operand) -> tuple[Value, Value]:
    dtype = infer.promote(number_type(t, name, a), number_type(t, name, b))
    return t.value(a, dtype), t.value(b, dtype)


def _truncated(t: Tracer, a: Value, b: Value) -> Value:
    """a/b, for integers rounded toward zero: floor, plus one if a remainder and signs differ."""
    op = t.builder.op
    if a.type.is_real:
        return op("div", a, b)
    zero = t.builder.const(0, a.type)
    quotient = op("floordiv", a, b)
    inexact = op("cmp_ne", op("mul", quotient, b), a)
    differ = op("logic_not", op("cmp_eq", op("cmp_lt", a, zero), op("cmp_lt", b, zero)))
    return op("add", quotient, t.builder.cast(op("logical_and", inexact, differ), a.type))


@LOWERINGS.row("raw_mod")
def _raw_mod(t: Tracer, node: ast.Call) -> Operand:
    """The remainder with the sign of the dividend: r - b if r = a mod b is not 0 and has another sign."""
    a, b = arguments(t, node, "raw_mod", "a", "b")
    folded = _fold("raw_mod", a, b)
    if folded is not None:
        return folded
    x, y = _common(t, "raw_mod", a, b)
    op, zero = t.builder.op, t.builder.const(0, x.type)
    rest = op("mod", x, y)
    differ = op("logic_not", op("cmp_eq", op("cmp_lt", x, zero), op("cmp_lt", y, zero)))
    return op("select", op("logical_and", op("cmp_ne", rest, zero), differ), op("sub", rest, y), rest)


@LOWERINGS.row("bit_shr")
def _bit_shr(t: Tracer, node: ast.Call) -> Operand:
    x, count = arguments(t, node, "bit_shr", "x", "count")
    dtype = infer.operand_type(infer.BINARY[ast.RShift], t.type_of(x), t.type_of(count), t.options)
    return t.builder.op("bit_shr", t.value(x, dtype), t.value(count, dtype))


@LOWERINGS.row("frexp")
def _frexp(t: Tracer, node: ast.Call) -> Operand:
    (x,) = arguments(t, node, "frexp", "x")
    dtype = number_type(t, "frexp", x)
    value = t.value(x, dtype if dtype.is_real else t.options.default_fp)
    return Pack((t.builder.op("frexp_mantissa", value), t.builder.op("frexp_exponent", value)))


@LOWERINGS.row("isnan")
def _isnan(t: Tracer, node: ast.Call) -> Operand:
    (x,) = arguments(t, node, "isnan", "x")
    number_type(t, "isnan", x)
    value = t.value(x)
    return _fold("isnan", x) or t.builder.op("cmp_ne", value, value)


@LOWERINGS.row("isinf")
def _isinf(t: Tracer, node: ast.Call) -> Operand:
    (x,) = arguments(t, node, "isinf", "x")
    dtype = number_type(t, "isinf", x)
    if not dtype.is_real:
        return Static(False)
    folded = _fold("isinf", x)
    if folded is not None:
        return folded
    return t.builder.op("cmp_eq", t.builder.op("abs", t.value(x)), t.builder.const(math.inf, dtype))


@LOWERINGS.row("select")
def _select(t: Tracer, node: ast.Call) -> Operand:
    condition, a, b = arguments(t, node, "select", "condition", "a", "b")
    dtype = infer.common_type(t.type_of(a), t.type_of(b))
    return t.builder.op("select", t.condition(condition), t.value(a, dtype), t.value(b, dtype))


@LOWERINGS.row("cast")
def _cast(t: Tracer, node: ast.Call) -> Operand:
    x, dtype = arguments(t, node, "cast", "x", "dtype")
    return cast_to(t, x, dtype_argument(t, dtype, "cast"))


@LOWERINGS.row("bit_cast")
def _bit_cast(t: Tracer, node: ast.Call) -> Operand:
    x, target = arguments(t, node, "bit_cast", "x", "dtype")
    dtype, value = dtype_argument(t, target, "bit_cast"), t.value(x)
    if value.type.bits != dtype.bits:
        raise mistyped(f"`bit_cast` keeps the bits, but {value.type} has {value.type.bits} and {dtype} {dtype.bits}",
                       "use `sg.cast` to convert the number")  # fmt: skip
    return t.builder.bit_cast(value, dtype)


@LOWERINGS.row("random")
def _random(t: Tracer, node: ast.Call) -> Operand:
    (dtype,) = arguments(t, node, "random", "dtype=")
    if isinstance(dtype, Static) and dtype.value is None:
        return t.builder.random(t.options.default_fp)
    return t.builder.random(dtype_argument(t, dtype, "random"))


LOWERINGS.update({
    name: _unary(name, real=result_type(name, (infer.i32,)) is None)
    for name in ("sin", "cos", "tan", "asin", "acos", "tanh", "exp", "log", "sqrt", "rsqrt", "inv", "rcp", "abs", "sgn")
})
LOWERINGS.update({name: _rounding(name) for name in ("floor", "ceil", "round")})
LOWERINGS.update({name: _bit_count(name) for name in ("popcnt", "clz", "ffs")})
LOWERINGS.update({name: _extremum(name) for name in ("min", "max")})


# ---- rows: memory and compile time ----------------------------------------------------------------------------------

_ATOMIC_ROWS: dict[str, infer.Binary | None] = {
    "add": infer.BINARY[ast.Add], "sub": infer.BINARY[ast.Sub], "mul": infer.BINARY[ast.Mult],
    "and": infer.BINARY[ast.BitAnd], "or": infer.BINARY[ast.BitOr], "xor": infer.BINARY[ast.BitXor],
    "min": None, "max": None,
}  # fmt: skip


def _atomic(name: str) -> Lowering:
    row = _ATOMIC_ROWS[name]

    def lower(t: Tracer, node: ast.Call) -> Operand:
        if len(node.args) != 2 or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise syntax(f"`atomic_{name}` takes 2 arguments", f"call it as `atomic_{name}(x[i], value)`")
        target = place(t, node.args[0])
        operand = t.clean(node.args[1])
        if row is None:
            number_type(t, f"atomic_{name}", operand)
        return update(t, target, row.op if row else name, operand, row)

    return lower


LOWERINGS.update({f"atomic_{name}": _atomic(name) for name in _ATOMIC_ROWS})


@LOWERINGS.row("static")
def _static(t: Tracer, node: ast.Call) -> Operand:
    return evaluate_static(t, node)


@LOWERINGS.row("static_assert")
def _static_assert(t: Tracer, node: ast.Call) -> Operand:
    values = [python_value(t, arg) for arg in node.args]
    if not values or not values[0]:
        raise syntax(f"static assertion failed{f': {values[1]}' if len(values) > 1 else ''}", "correct the program")
    return Static(None)


@LOWERINGS.row("static_print")
def _static_print(t: Tracer, node: ast.Call) -> Operand:
    print(*(python_value(t, arg) for arg in node.args))
    return Static(None)


def _loops_only(t: Tracer, node: ast.Call) -> Operand:
    raise syntax(f"`{ast.unparse(node.func)}` stands only after `in` of a loop", "write `for i in ...`")


def _grouped(t: Tracer, node: ast.Call) -> Operand:
    raise unsupported("`grouped` makes an index vector, and local vectors are not supported",
                      "name each axis, as in `for i, j in x`")  # fmt: skip


LOWERINGS.update({"ndrange": _loops_only, "grouped": _grouped})
_LOOP_OPTIONS = ("serialize", "parallelize", "block_dim", "block_dim_adaptive", "bit_vectorize", "name")


@LOWERINGS.row("loop_config")
def _loop_config(t: Tracer, node: ast.Call) -> Operand:
    """`serialize=True` makes the next outermost loop serial; the other options tune and change no result."""
    for keyword in node.keywords:
        if keyword.arg not in _LOOP_OPTIONS:
            raise syntax(f"`loop_config` does not take `{keyword.arg}`", f"its options are {', '.join(_LOOP_OPTIONS)}")
        value = python_value(t, keyword.value)
        if keyword.arg == "serialize":
            t.serialize_next = bool(value)
    if node.args:
        raise syntax("`loop_config` takes keywords alone", "write `loop_config(serialize=True)`")
    return Static(None)


# ---- functions of Python with a meaning of their own ----------------------------------------------------------------


def _whole(name: str) -> Lowering:
    """`math.floor`, `math.ceil`, `math.trunc` give integers."""

    def lower(t: Tracer, node: ast.Call) -> Operand:
        (x,) = arguments(t, node, name, "x")
        dtype = number_type(t, name, x)
        if not dtype.is_real:
            return x
        value = t.value(x)
        return t.builder.cast(value if name == "trunc" else t.builder.op(name, value), t.options.default_ip)

    return lower


def _len(t: Tracer, node: ast.Call) -> Operand:
    (x,) = arguments(t, node, "len", "x")
    if isinstance(x, Pack):
        return Static(len(x.items))
    if isinstance(x, Static) and isinstance(x.value, ShapeOf):
        return Static(len(x.value.field.shape))
    if isinstance(x, Static) and hasattr(x.value, "__len__"):
        return Static(len(x.value))
    raise mistyped(f"{describe(x)} has no length", "use `x.shape[0]` for the extent of a field")


PYTHON: dict[Any, Lowering] = {
    builtins.print: lower_print,
    builtins.len: _len,
    builtins.range: _loops_only,
    builtins.reversed: _loops_only,
    math.floor: _whole("floor"),
    math.ceil: _whole("ceil"),
    math.trunc: _whole("trunc"),
}
