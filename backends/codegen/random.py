"""This module emits random numbers in LLVM IR: Philox4x32-10, and the conversion of its output to each type.

key = (seed, launch), counter = (task, iteration low word, iteration high word, draw); 10 rounds of (c0, c1, c2, c3) ->
(hi(M1·c2) ^ c1 ^ k0, lo(M1·c2), hi(M0·c0) ^ c3 ^ k1, lo(M0·c0)), keys bumped between rounds.
"""

from __future__ import annotations

from ...compiler.ir.types import Scalar
from . import ir
from .casts import f32_to_half
from .emit import PURE, ArithEmitter
from .types import F32, F64, I32, I64, const, like, value_type

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
BUMPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def words(
    e: ArithEmitter,
    key: tuple[ir.LLVMValue, ir.LLVMValue],
    counter: tuple[ir.LLVMValue, ir.LLVMValue, ir.LLVMValue, ir.LLVMValue],
) -> ir.LLVMValue:
    """Emit the random generator Philox and return its first two output words as one 64-bit integer.

    All arguments are 32-bit words, or vectors with such a word in each lane.
    """
    t = counter[1].type
    name = f"sg.philox.{t.count}" if isinstance(t, ir.VectorType) else "sg.philox"
    function = e.m.helper(name, like(t, I64), [t] * 6, _philox_body, PURE)
    return e.b.call(function, [*key, *counter])


def _philox_body(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    b = e.b
    k0, k1, *c = function.args
    wide = like(k0.type, I64)

    def product(number: int, word: ir.LLVMValue) -> tuple[ir.LLVMValue, ir.LLVMValue]:
        full = b.mul(b.zext(word, wide), const(wide, number))
        return b.trunc(b.lshr(full, const(wide, 32)), word.type), b.trunc(full, word.type)

    for turn in range(ROUNDS):
        if turn:
            k0, k1 = b.add(k0, e.const(k0, BUMPS[0])), b.add(k1, e.const(k1, BUMPS[1]))
        high0, low0 = product(MULTIPLIERS[0], c[0])
        high1, low1 = product(MULTIPLIERS[1], c[2])
        c = [b.xor(b.xor(high1, c[1]), k0), low1, b.xor(b.xor(high0, c[3]), k1), low0]
    high = b.shl(b.zext(c[1], wide), const(wide, 32))
    b.ret(b.or_(high, b.zext(c[0], wide)))


def draw(e: ArithEmitter, both: ir.LLVMValue, t: Scalar) -> ir.LLVMValue:
    """Return a uniform random value of type t from two random words: reals in [0, 1), or all values of an integer."""
    b = e.b
    if not t.is_real:
        low = like(both.type, value_type(t))
        return both if t.bits == 64 else b.trunc(both, low)
    if t.bits == 64:
        number = b.uitofp(b.lshr(both, e.const(both, 11)), like(both.type, F64))
        return b.fmul(number, e.const(number, 2.0**-53))
    word = b.trunc(both, like(both.type, I32))
    kept = 24 if t.bits == 32 else 11
    number = b.uitofp(b.lshr(word, e.const(word, 32 - kept)), like(both.type, F32))
    scaled = b.fmul(number, e.const(number, 2.0**-kept))
    return scaled if t.bits == 32 else f32_to_half(e, scaled)
