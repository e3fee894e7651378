"""This module hides values from the driver's compiler, because some drivers optimize known values wrongly.

A hidden value goes through an exclusive or with a word that is zero as the shader runs, which no compiler can tell.

* llvmpipe's code generator takes x·0 for 0, 0/x for 0, x + 0 for x, and a number divided by 0 for undefined, wherever
  it knows the zero and for any x: NaN, infinities and signs are lost, and stores with them. |-0| stays -0.
* NVIDIA's (580.159) reads V[i % 2, 0] as V[1, 0] in a loop over i that also stores to y[i, 0]: the cause is a factor of
  64 bits of which it knows that the factor is a single bit of another factor.
* NVIDIA's also counts the trips of `while n < E` wrongly, as none, one or any number, where the test computes E as the
  larger of a number and its negative. The value that ends such a loop, a test or a `break`, is hidden, so the driver
  counts no trips. Loops whose number of trips is computed before them stay as they are, because the driver has them
  right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen import ir
from ..codegen.types import I32, I64, bits_type
from . import access
from . import opcodes as op
from .module import SpirvValue

if TYPE_CHECKING:
    from .code import ArithmeticWriter


def hide_value(code: ArithmeticWriter, x: ir.LLVMValue) -> SpirvValue:
    """Return a real in a form from which the driver's compiler cannot tell whether it is zero."""
    v = code.value(x)
    if not code.module.quirks.known_zeros or v.id in code.unknown or code.module.reals.get(v.id):
        return v
    word = bits_type(v.type)
    made = code.bitcast(code.xor(code.bitcast(v, word), opaque_zero(code, word)), v.type)
    code.unknown.add(made.id)
    return made


def hidden_factors(code: ArithmeticWriter, x: ir.LLVMValue, y: ir.LLVMValue) -> tuple[SpirvValue, SpirvValue]:
    """Return the factors of a 64-bit product, hidden from drivers that draw wrong conclusions from their bits."""
    v, w = code.value(x), code.value(y)
    # Only factors of 64 bits matter, and only where neither of them is a constant.
    if not code.module.quirks.known_factors or v.type != I64 or (v.number, w.number) != (None, None):
        return v, w
    return _hidden_integer(code, v), _hidden_integer(code, w)


def _hidden_integer(code: ArithmeticWriter, v: SpirvValue) -> SpirvValue:
    """Return a 64-bit integer in a form from which the driver's compiler cannot tell its bits."""
    if v.id in code.unknown:
        return v
    made = code.xor(v, opaque_zero(code, I64)).within(v.root)
    code.unknown.add(made.id)
    return made


def hidden_truth(code: ArithmeticWriter, cond: ir.LLVMValue) -> SpirvValue:
    """Return the truth value that a loop tests in a form that the driver's compiler cannot predict."""
    v = code.value(cond)
    if not code.module.quirks.known_trips or v.number is not None:
        return v
    word = code.xor(code.select(v, code.const(I32, 1), code.const(I32, 0)), opaque_zero(code, I32))
    return code.icmp_unsigned("!=", word, code.const(I32, 0))


def opaque_zero(code: ArithmeticWriter, word: ir.Type) -> SpirvValue:
    """Return an integer that is zero at run time but unknown to the driver's compiler.

    Each bit is the sign of the argument block's address, or the sign of the number of a thread.
    """
    with code.at_head():
        made = code.remembered("zero")
        if made is None:
            if code.module.physical:
                made = code.trunc(code.ashr(access.block_address(code), code.const(I64, 63)), I32)
            else:
                thread = code.trunc(access.first_of(code, "thread", op.GLOBAL_INVOCATION_ID), I32)
                made = code.ashr(thread, code.const(I32, 31))
            code.remember("zero", made)
        return code.sext(made, word) if word != I32 else made
