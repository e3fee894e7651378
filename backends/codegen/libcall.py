"""This module emits calls of math functions; the table LIBRARY names them for each math library.

libm is the library that the running process has loaded (glibc and musl stay within 2 ulps on these functions);
libdevice is bitcode that is linked into the module. Both are declared free of memory effects, because generated code
never reads errno. Vectors use the inlined functions of polynomials/ instead, whose results differ from those of libm
within the ulps of OPS.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.ir.types import Scalar
from . import ir
from .emit import PURE, Arith
from .polynomials import inlined
from .polynomials.lean import LEAN, lean, pair
from .types import F32, element

LIBRARY: dict[str, dict[str, tuple[str, str]]] = {
    name: {"libm": (f"{c}f", c), "libdevice": (f"__nv_{c}f", f"__nv_{c}")}
    for name, c in (
        ("exp", "exp"),
        ("log", "log"),
        ("sin", "sin"),
        ("cos", "cos"),
        ("tan", "tan"),
        ("asin", "asin"),
        ("acos", "acos"),
        ("tanh", "tanh"),
        ("atan2", "atan2"),
        ("pow", "pow"),
        ("fmod", "fmod"),
    )
}


def libcall(name: str) -> Callable[..., ir.Value]:
    """Return the row of OPS for an operation that is one library function of f32 and f64."""

    def row(e: Arith, t: Scalar, *args: ir.Value) -> ir.Value:
        return call(e, name, *args)

    return row


def call(e: Arith, name: str, *args: ir.Value) -> ir.Value:
    """Emit a math function: a library call for scalars, inlined code for vectors and for scalars that must equal lanes.

    Default code for GPUs uses shorter code of its own for the functions in LEAN.
    """
    t = args[0].type
    scalar = _function(e, name, element(t), len(args))
    if e.m.target.lean and t == F32 and name in LEAN and not e.m.options.precise:
        return lean(e, name, scalar, args[0], e.reach)
    if not isinstance(t, ir.VectorType) and not e.alike:
        return e.b.call(scalar, args)
    return inlined(e, name, scalar, args)


def sine_and_cosine(e: Arith, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Emit sine and cosine of one f32 together; to be used where `pays_together` returns True."""
    return pair(e, x, e.reach, (_function(e, "sin", F32, 1), _function(e, "cos", F32, 1)))


def _function(e: Arith, name: str, t: ir.Type, arity: int) -> ir.Function:
    single, double = LIBRARY[name][e.m.target.library]
    return e.m.declare(single if t == F32 else double, t, [t] * arity, PURE)
