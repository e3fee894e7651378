"""Zeros that a driver must not see.

llvmpipe's code generator takes x·0 for 0, 0/x for 0, x + 0 for x, and what is divided by 0 for undefined, wherever it
knows the zero and whatever x is: NaN, infinities and signs are lost, and stores with them; |-0| stays -0. So it may
know none of the operands of such an instruction. One that it might goes through an exclusive or with a word that is
zero as the shader runs: the upper bits of the number of a thread, of which there are less than 2^31.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..llvm import ir
from ..llvm.types import I32, bits_type
from . import opcodes as op
from .module import Value

if TYPE_CHECKING:
    from .code import Code


def hidden(code: Code, x: ir.Value) -> Value:
    """The same real, of which the driver knows nothing if it is zero."""
    v = code.value(x)
    if not code.module.hides_zeros or v.id in code.unknown or code.module.reals.get(v.id):
        return v
    word = bits_type(v.type)
    bits = code.xor(code.bitcast(v, word), _zero(code, word))
    made = code.bitcast(bits, v.type)
    code.unknown.add(made.id)
    return made


def _zero(code: Code, word: ir.Type) -> Value:
    from .access import first_of  # which imports the class

    with code.at_head():
        made = code.remembered("zero")
        if made is None:
            thread = code.trunc(first_of(code, "thread", op.GLOBAL_INVOCATION_ID), I32)
            made = code.remember("zero", code.lshr(thread, code.const(I32, 31)))
        return code.zext(made, word) if word != I32 else made
