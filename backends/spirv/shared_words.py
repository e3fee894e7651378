"""This module converts values to and from the words of which shared arrays of a workgroup consist."""

from __future__ import annotations

from ...compiler.ir.types import Scalar
from ..codegen import ir
from ..codegen.types import memory_type
from .code import I32, I64
from .emit import Emitter


def word_type(t: Scalar) -> ir.IntType:
    """Return the type of the words of a shared array with elements of this dtype."""
    return I64 if t.bits == 64 else I32


def to_word(e: Emitter, value: ir.LLVMValue, t: Scalar) -> ir.LLVMValue:
    """Return the bits of a value as a word."""
    b = e.b
    bits = value if isinstance(value.type, ir.IntType) else b.bitcast(value, ir.IntType(t.bits))
    return bits if bits.type == word_type(t) else b.zext(bits, word_type(t))


def from_word(e: Emitter, word: ir.LLVMValue, t: Scalar) -> ir.LLVMValue:
    """Return the value whose bits a word holds."""
    b = e.b
    if t.is_bool:
        return b.icmp_unsigned("!=", word, b.const(I32, 0))
    bits = word if word_type(t).width == t.bits else b.trunc(word, ir.IntType(t.bits))
    return b.bitcast(bits, memory_type(t)) if t.is_real else bits
