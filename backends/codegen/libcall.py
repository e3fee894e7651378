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
from .emit import PURE, ArithEmitter
from .polynomials import emit_inlined
from .polynomials.gpu_trigonometric import LEAN, emit_sin_or_cos, emit_sincos
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


def libcall(name: str) -> Callable[..., ir.LLVMValue]:
    """Return a table entry that emits a call of the math library's function `name`, for f32 or f64."""

    def row(e: ArithEmitter, t: Scalar, *args: ir.LLVMValue) -> ir.LLVMValue:
        return call(e, name, *args)

    return row


def call(e: ArithEmitter, name: str, *args: ir.LLVMValue) -> ir.LLVMValue:
    """Emit a math function and return its result: a library call for scalars, inlined code for vectors.

    Scalars that must equal the lanes of masked code use inlined code, too. Default code for GPUs uses shorter code of
    its own for the functions in LEAN.
    """
    t = args[0].type
    scalar = _function(e, name, element(t), len(args))
    if e.m.target.lean and t == F32 and name in LEAN and not e.m.options.precise:
        return emit_sin_or_cos(e, name, scalar, args[0], e.reach)
    if not isinstance(t, ir.VectorType) and not e.alike:
        return e.b.call(scalar, args)
    return emit_inlined(e, name, scalar, args)


def sine_and_cosine(e: ArithEmitter, x: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Emit the sine and cosine of an f32 together and return both; `pays_together` tells where this is faster."""
    return emit_sincos(e, x, e.reach, (_function(e, "sin", F32, 1), _function(e, "cos", F32, 1)))


def _function(e: ArithEmitter, name: str, t: ir.Type, arity: int) -> ir.LLVMFunction:
    single, double = LIBRARY[name][e.m.target.library]
    return e.m.declare(single if t == F32 else double, t, [t] * arity, PURE)
