"""This module lowers mathematical functions: those functions of the kernel language that touch no memory.

Invariant: each function is written for scalars, and only `elementwise` makes it a function of vectors and matrices. A
call on numbers of the program text is folded by the function's own Python meaning. Integers among reals take the
default real type.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable
from functools import partial

from ..ir.ops import result_type
from ..ir.statement import Value
from ..ir.types import i32, promote
from . import type_inference
from .arguments import arguments, positional
from .broadcasts import broadcast
from .calls import LOWERINGS, PYTHON, CallLowering, cast_to, dtype_argument, number_type
from .context import Tracer, require_value
from .diagnostics import syntax_problem, type_problem
from .expressions import apply_binary
from .functions import FUNCTIONS
from .matrices import METHODS, expect
from .operands import Operand, Pack, Static, number_of


def _fold(name: str, *operands: Operand) -> Static | None:
    """Return the result of a call whose operands are all constant numbers, or None if an operand is no constant."""
    numbers = [number_of(o) for o in operands]
    function = FUNCTIONS[name]
    if None in numbers or function is None:
        return None
    try:
        return Static(function(*numbers))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise type_problem(f"`{name}` of these constants fails: {error}", "correct them") from None


def elementwise(name: str, *params: str) -> Callable[[Callable[..., Operand]], CallLowering]:
    """Return a decorator that makes the lowering of a call from a function of scalars, applied entry by entry.

    The lowering evaluates the arguments and applies the function entry by entry.

    Args:
        name: name of the function in messages.
        params: names of its parameters, as in `arguments`.
    """

    def make(function: Callable[..., Operand]) -> CallLowering:
        def lower(t: Tracer, node: ast.Call) -> Operand:
            return broadcast(t, name, partial(function, t), *arguments(t, node, name, *params))

        return lower

    return make


def _row(name: str, *params: str) -> Callable[[Callable[..., Operand]], Callable[..., Operand]]:
    """Return a decorator that registers a function of scalars as the lowering `name`, applied entry by entry."""

    def register(function: Callable[..., Operand]) -> Callable[..., Operand]:
        LOWERINGS[name] = elementwise(name, *params)(function)
        return function

    return register


def _unary(name: str, real: bool) -> CallLowering:
    @elementwise(name, "x")
    def lower(t: Tracer, x: Operand) -> Operand:
        dtype = number_type(t, name, x)
        if real and not dtype.is_real:
            dtype = t.options.default_fp
        return _fold(name, x) or t.builder.op(name, t.value(x, dtype))

    return lower


def _rounding(name: str) -> CallLowering:
    """Return the lowering of a rounding function, which keeps integers; a second argument is the result type."""

    @elementwise(name, "x", "dtype=")
    def lower(t: Tracer, x: Operand, target: Operand) -> Operand:
        dtype = number_type(t, name, x)
        made: Operand = x
        if dtype.is_real:
            made = _fold(name, x) or t.builder.op(name, t.value(x))
        if isinstance(target, Static) and target.value is None:
            return made
        return t.value(made, dtype_argument(t, target, name))

    return lower


def _bit_count(name: str) -> CallLowering:
    @elementwise(name, "x")
    def lower(t: Tracer, x: Operand) -> Operand:
        if not t.type_of(x).is_int:
            raise type_problem(f"`{name}` takes an integer, not {t.type_of(x)}", "convert it with `int(...)`")
        return t.builder.op(name, t.value(x))

    return lower


def _extremum(name: str) -> CallLowering:
    def lower(t: Tracer, node: ast.Call) -> Operand:
        if node.keywords:
            raise syntax_problem(
                f"`{name}` does not take the keyword `{node.keywords[0].arg}`", "give the values alone"
            )
        items = [require_value(o) for o in positional(t, node.args)]
        if len(items) == 1:
            items = list(map(require_value, t.items(items[0]) or items))
        if len(items) < 2:
            raise syntax_problem(f"`{name}` takes two values or more", f"call it as `{name}(a, b)`")
        made: Operand = items[0]
        for item in items[1:]:
            made = broadcast(t, name, partial(_extremum_of_two, t, name), made, item)
        return made

    return lower


def _extremum_of_two(t: Tracer, name: str, a: Operand, b: Operand) -> Operand:
    dtype = promote(number_type(t, name, a), number_type(t, name, b))
    return _fold(name, a, b) or t.builder.op(name, t.value(a, dtype), t.value(b, dtype))


@_row("atan2", "y", "x")
def _atan2(t: Tracer, y: Operand, x: Operand) -> Operand:
    dtype = promote(number_type(t, "atan2", y), number_type(t, "atan2", x))
    dtype = dtype if dtype.is_real else t.options.default_fp
    return _fold("atan2", y, x) or t.builder.op("atan2", t.value(y, dtype), t.value(x, dtype))


@_row("pow", "x", "y")
def _pow(t: Tracer, base: Operand, exponent: Operand) -> Operand:
    return apply_binary(t, type_inference.BINARY[ast.Pow], base, exponent)


@_row("raw_div", "a", "b")
def _raw_div(t: Tracer, a: Operand, b: Operand) -> Operand:
    return _fold("raw_div", a, b) or _truncated(t, *_common(t, "raw_div", a, b))


def _common(t: Tracer, name: str, a: Operand, b: Operand) -> tuple[Value, Value]:
    dtype = promote(number_type(t, name, a), number_type(t, name, b))
    return t.value(a, dtype), t.value(b, dtype)


def _truncated(t: Tracer, a: Value, b: Value) -> Value:
    """Return a/b, for integers rounded toward zero: the floor, plus one if the division is inexact and signs differ."""
    op = t.builder.op
    if a.type.is_real:
        return op("div", a, b)
    zero = t.builder.const(0, a.type)
    quotient = op("floordiv", a, b)
    inexact = op("cmp_ne", op("mul", quotient, b), a)
    # The floor is below the truncated quotient only if the exact quotient is negative and not whole.
    differ = op("logic_not", op("cmp_eq", op("cmp_lt", a, zero), op("cmp_lt", b, zero)))
    return op("add", quotient, t.builder.cast(op("logical_and", inexact, differ), a.type))


@_row("raw_mod", "a", "b")
def _raw_mod(t: Tracer, a: Operand, b: Operand) -> Operand:
    """Return the remainder of a/b with the sign of the dividend `a`, as in C.

    That is r - b if r = a mod b is not 0 and the signs of a and b differ, else r.
    """
    folded = _fold("raw_mod", a, b)
    if folded is not None:
        return folded
    x, y = _common(t, "raw_mod", a, b)
    op, zero = t.builder.op, t.builder.const(0, x.type)
    rest = op("mod", x, y)
    differ = op("logic_not", op("cmp_eq", op("cmp_lt", x, zero), op("cmp_lt", y, zero)))
    return op("select", op("logical_and", op("cmp_ne", rest, zero), differ), op("sub", rest, y), rest)


@_row("bit_shr", "x", "count")
def _bit_shr(t: Tracer, x: Operand, count: Operand) -> Operand:
    dtype = type_inference.operand_type(type_inference.BINARY[ast.RShift], t.type_of(x), t.type_of(count), t.options)
    return t.builder.op("bit_shr", t.value(x, dtype), t.value(count, dtype))


@_row("frexp", "x")
def _frexp(t: Tracer, x: Operand) -> Operand:
    dtype = number_type(t, "frexp", x)
    value = t.value(x, dtype if dtype.is_real else t.options.default_fp)
    return Pack((t.builder.op("frexp_mantissa", value), t.builder.op("frexp_exponent", value)))


@_row("isnan", "x")
def _isnan(t: Tracer, x: Operand) -> Operand:
    number_type(t, "isnan", x)
    value = t.value(x)
    return _fold("isnan", x) or t.builder.op("cmp_ne", value, value)


@_row("isinf", "x")
def _isinf(t: Tracer, x: Operand) -> Operand:
    dtype = number_type(t, "isinf", x)
    if not dtype.is_real:
        return Static(False)
    folded = _fold("isinf", x)
    if folded is not None:
        return folded
    return t.builder.op("cmp_eq", t.builder.op("abs", t.value(x)), t.builder.const(math.inf, dtype))


@_row("select", "condition", "a", "b")
def _select(t: Tracer, condition: Operand, a: Operand, b: Operand) -> Operand:
    dtype = type_inference.common_type(t.type_of(a), t.type_of(b))
    return t.builder.op("select", t.condition(condition), t.value(a, dtype), t.value(b, dtype))


@_row("cast", "x", "dtype")
def _cast(t: Tracer, x: Operand, dtype: Operand) -> Operand:
    return cast_to(t, x, dtype_argument(t, dtype, "cast"))


@_row("bit_cast", "x", "dtype")
def _bit_cast(t: Tracer, x: Operand, target: Operand) -> Operand:
    dtype, value = dtype_argument(t, target, "bit_cast"), t.value(x)
    if value.type.bits != dtype.bits:
        raise type_problem(
            f"`bit_cast` keeps the bits, but {value.type} has {value.type.bits} and {dtype} {dtype.bits}",
            "use `sg.cast` to convert the number",
        )
    return t.builder.bit_cast(value, dtype)


@LOWERINGS.row("random")
def _random(t: Tracer, node: ast.Call) -> Operand:
    (dtype,) = arguments(t, node, "random", "dtype=")
    if isinstance(dtype, Static) and dtype.value is None:
        return t.builder.random(t.options.default_fp)
    return t.builder.random(dtype_argument(t, dtype, "random"))


LOWERINGS.update(
    {
        name: _unary(name, real=result_type(name, (i32,)) is None)
        for name in (
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "tanh",
            "exp",
            "log",
            "sqrt",
            "rsqrt",
            "inv",
            "rcp",
            "abs",
            "sgn",
        )
    }
)
LOWERINGS.update({name: _rounding(name) for name in ("floor", "ceil", "round")})
LOWERINGS.update({name: _bit_count(name) for name in ("popcnt", "clz", "ffs")})
LOWERINGS.update({name: _extremum(name) for name in ("min", "max")})


def _whole(name: str) -> CallLowering:
    """Return the lowering of `math.floor`, `math.ceil` or `math.trunc`, whose results are integers."""

    @elementwise(name, "x")
    def lower(t: Tracer, x: Operand) -> Operand:
        dtype = number_type(t, name, x)
        if not dtype.is_real:
            return x
        value = t.value(x)
        return t.builder.cast(value if name == "trunc" else t.builder.op(name, value), t.options.default_ip)

    return lower


PYTHON.update({math.floor: _whole("floor"), math.ceil: _whole("ceil"), math.trunc: _whole("trunc")})


def _reduction(name: str) -> CallLowering:
    """Return the lowering of `sum`, `all` or `any` of a vector or of a sequence of numbers."""

    def lower(t: Tracer, node: ast.Call) -> Operand:
        (x,) = arguments(t, node, name, "x")
        return METHODS[name].function(t, expect(t, name, x))

    return lower


PYTHON.update({builtins.sum: _reduction("sum"), builtins.all: _reduction("all"), builtins.any: _reduction("any")})
