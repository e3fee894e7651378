"""This module defines the SPIR-V code of every scalar operation, one entry each (table SPIRV).

Entries without control flow and library calls are those of the LLVM generator, because the `ArithmeticWriter` to which
they write has the instructions that they use. This module has the other entries. f16 is computed as f32 and rounded
after each operation.
"""

from __future__ import annotations

from typing import Any

from ...compiler.ir.ops import OPS, result_type
from ...compiler.ir.table import Table
from ...compiler.ir.types import Scalar, f16, f32
from ..codegen import integers, ir
from ..codegen.casts import cast
from ..codegen.ops import LLVM, OpRow, by_kind
from ..codegen.types import bits_type
from .code import ArithmeticWriter
from .emit import ArithEmitter
from .functions import call, libcall


def _shared(name: str) -> str:
    """Return a text that says why an operation needs no entry in the table SPIRV, or "" if it has an entry."""
    return "" if name in _OWN else f"the row of table {LLVM.name}; a function of a library needs one in `_OWN`"


SPIRV: Table[str, OpRow] = Table("spirv", OPS, about="the instructions of shaders for the operation", derive=_shared)


def apply(e: ArithEmitter, name: str, types: tuple[Scalar, ...], *args: ir.LLVMValue) -> ir.LLVMValue:
    """Return the result of an operation on values of these IR types.

    Args:
        e: function being written
        name: name of the operation
        types: IR types of the arguments
        *args: arguments, as SPIR-V values
    """
    t = types[-1]
    # f16 goes by way of f32, except where bits merely move.
    if t != f16 or name == "select":
        return SPIRV[name](e, t, *args)
    wide = SPIRV[name](e, f32, *(convert(e, a, f16, f32) for a in args))
    return convert(e, wide, f32, f16) if result_type(name, types) == f16 else wide


def convert(e: ArithEmitter, value: ir.LLVMValue, source: Scalar, to: Scalar) -> ir.LLVMValue:
    """Return a value converted from dtype `source` to dtype `to`, with the semantics that docs/ir.md defines."""
    if source == f16 and to.is_bool:
        # A half is compared as f32, because it is an integer to the module.
        return convert(e, convert(e, value, f16, f32), f32, to)
    arith: Any = e
    return cast(arith, value, source, to)


def _mod_real(e: ArithEmitter, t: Scalar, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Emit the exact remainder of x / y with the sign of y. A zero remainder takes the sign of y."""
    b = e.b
    r = call(e, "fmod", x, y)
    word = bits_type(r.type)
    bits, none = b.bitcast(r, word), e.const(b.bitcast(r, word), 0)
    # Bits tell signs and zeros, because devices may take subnormal numbers for zeros where they compare.
    differ = b.icmp_signed("<", b.xor(bits, b.bitcast(y, word)), none)
    moved = b.select(differ, b.fadd(r, y), r)
    is_zero = b.icmp_unsigned("==", b.shl(bits, e.const(bits, 1)), none)
    return b.select(is_zero, e.intrinsic("copysign", e.const(r, 0.0), y), moved)


def _power(e: ArithEmitter, t: Scalar, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
    """Emit the integer power x**y, wrapping on overflow. A negative exponent gives 1/x truncated, 0 for x = 0."""
    name = f"sg.pow.{t}"
    return e.b.call(e.m.helper(name, x.type, [x.type, x.type], lambda a, f: _power_body(a, t, f)), [x, y])


def _power_body(e: ArithEmitter, t: Scalar, b: ArithmeticWriter) -> None:
    """Write the body of the function that computes an integer power by repeated squaring."""
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
"""Operations that are, on reals, a function of the module and not a few instructions."""

_OWN: dict[str, OpRow] = {
    **{name: libcall(name) for name in CALLED if name not in ("pow", "mod")},
    "mod": by_kind(_mod_real, integers.mod),
    "pow": by_kind(libcall("pow"), _power),
}

SPIRV.update({name: _OWN.get(name, LLVM[name]) for name in OPS})
