"""LIBRARY: functions that a target's math library computes, by operation: its names for f32 and f64 per library.

libm is what the running process has loaded (glibc and musl stay within 2 ulps on these); libdevice is bitcode that
is linked into the module. Both are declared free of memory effects: errno is nobody's business here.
"""
from __future__ import annotations

from collections.abc import Callable

from ...compiler.ir.types import Scalar
from . import ir
from .emit import PURE, Arith
from .types import F32, I32, const

LIBRARY: dict[str, dict[str, tuple[str, str]]] = {
    name: {"libm": (f"{c}f", c), "libdevice": (f"__nv_{c}f", f"__nv_{c}")}
    for name, c in (
        ("exp", "exp"), ("log", "log"), ("sin", "sin"), ("cos", "cos"), ("tan", "tan"), ("asin", "asin"),
        ("acos", "acos"), ("tanh", "tanh"), ("atan2", "atan2"), ("pow", "pow"), ("fmod", "fmod"),
    )  # fmt: skip
}


def libcall(name: str) -> Callable[..., ir.Value]:
    """The row of an operation that is one library function of f32 and f64."""

    def row(e: Arith, t: Scalar, *args: ir.Value) -> ir.Value:
        return call(e, name, *args)

    return row


def call(e: Arith, name: str, *args: ir.Value) -> ir.Value:
    """Call the library function; lane by lane on vectors."""
    t = args[0].type
    if not isinstance(t, ir.VectorType):
        return e.b.call(_function(e, name, t, len(args)), args)
    out: ir.Value = ir.Value(t, "poison")
    function = _function(e, name, t.element, len(args))
    for lane in range(t.count):
        at = const(I32, lane)
        made = e.b.call(function, [e.b.extract_element(a, at) for a in args])
        out = e.b.insert_element(out, made, at)
    return out


def _function(e: Arith, name: str, t: ir.Type, arity: int) -> ir.Function:
    single, double = LIBRARY[name][e.m.target.library]
    return e.m.declare(single if t == F32 else double, t, [t] * arity, PURE)
