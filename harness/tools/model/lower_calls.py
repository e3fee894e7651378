"""Lower calls of the kernel language's built-in functions to IR, each in the type that the language prescribes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

from ....compiler.ir.build import Builder
from ....compiler.ir.statement import Value
from ....compiler.ir.types import promote
from . import nodes as m
from .lower_expressions import binary
from .lowering import EXPRESSIONS, Lowerer, ModelOperand, common_type
from .tensors import map_entries

_REAL = frozenset({"sin", "cos", "tan", "asin", "acos", "tanh", "exp", "log", "sqrt", "rsqrt", "inv", "rcp"})
_WHOLE = frozenset({"floor", "ceil", "round"})
CallFunction = Callable[[Lowerer, tuple[ModelOperand, ...]], ModelOperand]


@EXPRESSIONS.row(m.Call)
def _call(t: Lowerer, e: m.Call) -> ModelOperand:
    return map_entries(t, lambda *args: _call_of_scalars(t, e, args), *(t.expr(a) for a in e.args))  # type: ignore[no-any-return]


def _call_of_scalars(t: Lowerer, e: m.Call, args: tuple[ModelOperand, ...]) -> ModelOperand:
    if e.function in FOLDED and all(isinstance(a, int) for a in args):
        made = reduce(FOLDED[e.function], args)  # type: ignore[arg-type]
        return abs(made) if e.function == "abs" else made  # type: ignore[arg-type]
    if e.function in FUNCTIONS:
        made = FUNCTIONS[e.function](t, args)
    elif e.function in _WHOLE and not t.type_of(args[0]).is_real:
        made = args[0]
    else:
        dtype = t.type_of(args[0])
        dtype = t.program.default_fp if e.function in _REAL and not dtype.is_real else dtype
        made = t.builder.op(e.function, t.value(args[0], dtype))
    return t.value(made, e.dtype) if e.dtype else made


def _promoted(t: Lowerer, args: tuple[ModelOperand, ...]) -> tuple[Value, ...]:
    dtype = reduce(promote, map(t.type_of, args))
    return tuple(t.value(a, dtype) for a in args)


def _extremum(name: str) -> CallFunction:
    def lower(t: Lowerer, args: tuple[ModelOperand, ...]) -> ModelOperand:
        return reduce(lambda a, b: t.builder.op(name, *_promoted(t, (a, b))), args)

    return lower


def _atan2(t: Lowerer, args: tuple[ModelOperand, ...]) -> ModelOperand:
    dtype = promote(*map(t.type_of, args))
    dtype = dtype if dtype.is_real else t.program.default_fp
    return t.builder.op("atan2", *(t.value(a, dtype) for a in args))


def _select(t: Lowerer, args: tuple[ModelOperand, ...]) -> ModelOperand:
    dtype = common_type(t.type_of(args[1]), t.type_of(args[2]))
    return t.builder.op("select", t.condition(args[0]), t.value(args[1], dtype), t.value(args[2], dtype))


def _frexp(t: Lowerer, args: tuple[ModelOperand, ...]) -> ModelOperand:
    dtype = t.type_of(args[0])
    value = t.value(args[0], dtype if dtype.is_real else t.program.default_fp)
    return t.builder.op("frexp_mantissa", value), t.builder.op("frexp_exponent", value)


def _remainder(b: Builder, x: Value, y: Value) -> Value:
    """Return the remainder of a division that rounds toward zero, for two values."""
    zero = b.const(0, x.type)
    rest = b.op("mod", x, y)
    other = b.op("cmp_ne", b.op("cmp_lt", x, zero), b.op("cmp_lt", y, zero))
    return b.op("select", b.op("logical_and", other, b.op("cmp_ne", rest, zero)), b.op("sub", rest, y), rest)


def _raw_mod(t: Lowerer, args: tuple[ModelOperand, ...]) -> ModelOperand:
    return _remainder(t.builder, *_promoted(t, args))


def _raw_div(t: Lowerer, args: tuple[ModelOperand, ...]) -> ModelOperand:
    """Return x divided by y, where integer division rounds toward zero."""
    b = t.builder
    x, y = _promoted(t, args)
    return b.op("div", x, y) if x.type.is_real else b.op("floordiv", b.op("sub", x, _remainder(b, x, y)), y)


def _isnan(t: Lowerer, args: tuple[ModelOperand, ...]) -> ModelOperand:
    value = t.value(args[0])
    return t.builder.op("logic_not", t.builder.op("cmp_eq", value, value))


def _isinf(t: Lowerer, args: tuple[ModelOperand, ...]) -> ModelOperand:
    value = t.value(args[0])
    return t.builder.op("cmp_eq", t.builder.op("abs", value), t.builder.const(math.inf, value.type))


def _bit_shr(t: Lowerer, args: tuple[ModelOperand, ...]) -> ModelOperand:
    x = t.value(args[0])
    return t.builder.op("bit_shr", x, t.value(args[1], x.type))


def _constant(value: int) -> CallFunction:
    """Return the function that lowers `zero` or `one` to a constant of the argument's type."""
    return lambda t, args: t.value(value, t.type_of(args[0]))


def _stopped(t: Lowerer, args: tuple[ModelOperand, ...]) -> ModelOperand:
    """Return a real with the same value but without derivative, by a bit cast to its own type."""
    found = args[0]
    return t.builder.bit_cast(found, found.type) if isinstance(found, Value) and found.type.is_real else found


def _claimed(t: Lowerer, args: tuple[ModelOperand, ...]) -> ModelOperand:
    """Emit a claim that no two iterations share the index, and return the index."""
    number = t.builder.next_id
    value = t.value(args[0])
    return t.builder.op("unique", value, t.builder.const(number, value.type))


def _mixed(t: Lowerer, x: ModelOperand, y: ModelOperand, a: ModelOperand) -> ModelOperand:
    """Return x·(1 - a) + y·a."""
    return binary(t, "+", binary(t, "*", x, binary(t, "-", 1.0, a)), binary(t, "*", y, a))


def _fraction(t: Lowerer, x: ModelOperand) -> ModelOperand:
    """Return x - floor(x)."""
    return binary(t, "-", x, t.builder.op("floor", t.value(x)))


def _smooth_step(t: Lowerer, low: ModelOperand, high: ModelOperand, x: ModelOperand) -> ModelOperand:
    """Return s²(3 - 2s), where s rises from 0 to 1 between the two edges."""
    ratio = binary(t, "/", binary(t, "-", x, low), binary(t, "-", high, low))
    s = FUNCTIONS["math.clamp"](t, (ratio, 0.0, 1.0))
    return binary(t, "*", binary(t, "*", s, s), binary(t, "-", 3.0, binary(t, "*", 2.0, s)))


FUNCTIONS: dict[str, CallFunction] = {
    "min": _extremum("min"),
    "max": _extremum("max"),
    "atan2": _atan2,
    "select": _select,
    "frexp": _frexp,
    "raw_mod": _raw_mod,
    "raw_div": _raw_div,
    "isnan": _isnan,
    "isinf": _isinf,
    "bit_shr": _bit_shr,
    "pow": lambda t, args: binary(t, "**", *args),
    "zero": _constant(0),
    "one": _constant(1),
    "stop_grad": _stopped,
    "volatile_load": lambda t, args: args[0],
    "assume_unique": _claimed,
    "math.mix": lambda t, args: _mixed(t, *args),
    "math.fract": lambda t, args: _fraction(t, *args),
    "math.clamp": lambda t, args: FUNCTIONS["min"](t, (args[2], FUNCTIONS["max"](t, args[:2]))),
    "math.smoothstep": lambda t, args: _smooth_step(t, *args),
}
"""Functions that are more than one IR operation on one operand."""
FOLDED: dict[str, Callable[[int, int], int]] = {
    "abs": min,
    "min": min,
    "max": max,
    "raw_mod": lambda a, b: int(math.fmod(a, b)),
    "raw_div": lambda a, b: int(a / b),
}
"""Functions computed at once on small integers of the text, such as the index of an unrolled loop."""
