"""This module lists real functions with arguments in their domain, and short constructors of frequent nodes."""

from __future__ import annotations

from collections.abc import Callable

from ..model import nodes as m
from ..model.nodes import Expr, Number

LITERALS = (0.5, 1.0, 0.25, 1.5, -0.5, 2.0, 0.1, -1.25)


def call(name: str, *args: Expr) -> m.Call:
    """Return the expression that calls the named function of the language."""
    return m.Call(name, args)


def add(a: Expr, b: Expr) -> m.Binary:
    """Return the expression a + b."""
    return m.Binary("+", a, b)


def mul(a: Expr, b: Expr) -> m.Binary:
    """Return the expression a * b."""
    return m.Binary("*", a, b)


def strip_cast(e: Expr) -> Expr:
    """Return an expression without the cast around a literal, which takes its type from its use as bound or index."""
    return e.arg if isinstance(e, m.Cast) and isinstance(e.arg, Number) else e


SAFE: dict[str, Callable[[Expr], Expr]] = {
    "sin": lambda a: call("sin", a),
    "tanh": lambda a: call("tanh", a),
    "cos": lambda a: call("cos", a),
    "abs": lambda a: call("abs", a),
    "exp": lambda a: call("exp", call("sin", a)),
    "log": lambda a: call("log", add(Number(2.5), call("sin", a))),
    "sqrt": lambda a: call("sqrt", add(Number(1.0), mul(a, a))),
    "rsqrt": lambda a: call("rsqrt", add(mul(a, a), Number(1.5))),
    "inv": lambda a: call("inv", add(call("cos", a), Number(2.0))),
    "rcp": lambda a: call("rcp", m.Binary("-", Number(3.0), call("sin", a))),
    "tan": lambda a: call("tan", mul(Number(0.5), call("sin", a))),
    "asin": lambda a: call("asin", mul(Number(0.75), call("sin", a))),
    "acos": lambda a: call("acos", mul(call("cos", a), Number(0.75))),
    "atan2": lambda a: call("atan2", a, add(Number(2.0), call("cos", a))),
    "pow": lambda a: call("pow", add(call("sin", a), Number(1.5)), call("cos", a)),
    "sgn": lambda a: call("sgn", a),
    "floor": lambda a: call("floor", mul(a, Number(2.0))),
    "ceil": lambda a: call("ceil", a),
    "round": lambda a: call("round", mul(Number(3.0), a)),
    "raw_div": lambda a: call("raw_div", a, add(Number(2.0), call("sin", a))),
    "raw_mod": lambda a: call("raw_mod", a, Number(0.75)),
    "square": lambda a: m.Binary("**", call("sin", a), Number(2)),
    "root": lambda a: m.Binary("**", add(Number(2.0), call("sin", a)), Number(0.5)),
    "mod": lambda a: m.Binary("%", a, Number(1.5)),
    "floordiv": lambda a: m.Binary("//", a, Number(0.5)),
    "neg": lambda a: m.Unary("-", a),
    "pos": lambda a: m.Unary("+", a),
}
"""Every function of one real, with an operand inside the function's domain and a bounded result."""
SMOOTH_NAMES = ("sin", "tanh", "cos", "sin", "cos", "tanh", "sin", *SAFE)
RAW_NAMES = (
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
    "floor",
    "ceil",
    "round",
)
"""Functions of one real that accept any operand; the wild profile calls them without a safe operand."""
