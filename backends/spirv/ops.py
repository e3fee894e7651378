"""SPIRV: the meaning of every scalar operation in SPIR-V, one row each.

Rows that are free of control flow and of libraries are those of the LLVM generator: the `Code` that they write to
has the instructions they use. The others stand here. f16 is computed as f32 and rounded after each operation.
"""

from __future__ import annotations

from typing import Any

from ...compiler.ir.ops import OPS, result_type
from ...compiler.ir.table import Table
from ...compiler.ir.types import Scalar, f16, f32
from ..llvm import integers, ir
from ..llvm.casts import cast
from ..llvm.ops import LLVM, OpRow, by_kind
from ..llvm.types import bits_type
from .code import Code
from .emit import Arith
from .functions import call, libcall

SPIRV: Table[str, OpRow] = Table("spirv", OPS)


def apply(e: Arith, name: str, types: tuple[Scalar, ...], *args: ir.Value) -> ir.Value:
    """The operation on values of these IR types; f16 by way of f32, except where bits merely move."""
    t = types[-1]
    if t != f16 or name == "select":
        return SPIRV[name](e, t, *args)
    wide = SPIRV[name](e, f32, *(convert(e, a, f16, f32) for a in args))
    return convert(e, wide, f32, f16) if result_type(name, types) == f16 else wide


def convert(e: Arith, value: ir.Value, source: Scalar, to: Scalar) -> ir.Value:
    """The value converted as docs/ir.md says. A half is compared as f32, because it is an integer to the module."""
    if source == f16 and to.is_bool:
        return convert(e, convert(e, value, f16, f32), f32, to)
    arith: Any = e
    return cast(arith, value, source, to)


def _mod_real(e: Arith, t: Scalar, x: ir.Value, y: ir.Value) -> ir.Value:
    """The exact remainder, moved to the sign of y; a zero remainder takes the sign of y.

    Signs and zeros are told by bits: devices may take subnormal numbers for zeros where they compare.
    """
    b = e.b
    r = call(e, "fmod", x, y)
    word = bits_type(r.type)
    bits, none = b.bitcast(r, word), e.const(b.bitcast(r, word), 0)
    differ = b.icmp_signed("<", b.xor(bits, b.bitcast(y, word)), none)
    moved = b.select(differ, b.fadd(r, y), r)
    is_zero = b.icmp_unsigned("==", b.shl(bits, e.const(bits, 1)), none)
    return b.select(is_zero, e.intrinsic("copysign", e.const(r, 0.0), y), moved)


def _power(e: Arith, t: Scalar, x: ir.Value, y: ir.Value) -> ir.Value:
    """x to the y by squaring, wrapping; a negative exponent gives 1/x truncated (0 for x = 0)."""
    name = f"sg.pow.{t}"
    return e.b.call(e.m.helper(name, x.type, [x.type, x.type], lambda a, f: _power_body(a, t, f)), [x, y])


def _power_body(e: Arith, t: Scalar, b: Code) -> None:
    base, exponent = b.args
    x, y, out = (b.scalar(base.type) for _ in range(3))
    x.set(base)
    y.set(exponent)
    out.set(e.const(base, 1))

    def square() -> None:
        factor, left = x.get(), y.get()
        done = out.get()
        odd = b.icmp_unsigned("!=", b.and_(left, e.const(left, 1)), e.const(left, 0))
        out.set(b.select(odd, b.mul(done, factor), done))
        x.set(b.mul(factor, factor))
        y.set(b.lshr(left, e.const(left, 1)))

    b.loop(lambda: b.icmp_unsigned("!=", y.get(), e.const(exponent, 0)), square, lambda: None)
    taken = out.get()
    arith: Any = e
    b.ret(integers.negative_power(arith, base, exponent, taken) if t.is_signed else taken)


CALLED = ("exp", "log", "sin", "cos", "tan", "asin", "acos", "tanh", "atan2", "pow", "mod")
"""What of reals is a function of the module, not a few instructions."""

_OWN: dict[str, OpRow] = {
    **{name: libcall(name) for name in CALLED if name not in ("pow", "mod")},
    "mod": by_kind(_mod_real, integers.mod),
    "pow": by_kind(libcall("pow"), _power),
}

SPIRV.update({name: _OWN.get(name, LLVM[name]) for name in OPS})
