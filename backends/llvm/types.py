"""IR scalar types as LLVM types, and constants that fit scalars and vectors alike.

A u1 is an i1 as a value and an i8 (0 or 1) in memory; every other type is the same in both places.
"""
from __future__ import annotations

from llvmlite import ir

from ...compiler.ir.types import Scalar

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
VOID = ir.VoidType()
PTR = ir.PointerType()

_REALS = {16: F16, 32: F32, 64: F64}


def value_type(t: Scalar) -> ir.Type:
    """The LLVM type of a value."""
    return _REALS[t.bits] if t.is_real else ir.IntType(t.bits)


def memory_type(t: Scalar) -> ir.Type:
    """The LLVM type of an element in memory; `t.size` bytes."""
    return I8 if t.is_bool else value_type(t)


def pointer(space: int) -> ir.PointerType:
    """An opaque pointer into an address space."""
    return ir.PointerType(addrspace=space)


def element(t: ir.Type) -> ir.Type:
    """The scalar below a vector type; a scalar is its own element."""
    return t.element if isinstance(t, ir.VectorType) else t


def like(t: ir.Type, scalar: ir.Type) -> ir.Type:
    """`scalar`, as a vector of as many lanes as `t` has."""
    return ir.VectorType(scalar, t.count) if isinstance(t, ir.VectorType) else scalar


def const(t: ir.Type, number: float | int | bool) -> ir.Constant:
    """A constant of a scalar type, or the same number in every lane of a vector type."""
    if isinstance(t, ir.VectorType):
        return ir.Constant(t, [ir.Constant(t.element, _payload(t.element, number))] * t.count)
    return ir.Constant(t, _payload(t, number))


def _payload(t: ir.Type, number: float | int | bool) -> float | int:
    """Integers are written modulo the width: LLVM's text form takes either sign, but not more bits."""
    if not isinstance(t, ir.IntType):
        return float(number)
    bits = int(number) & ((1 << t.width) - 1)
    return bits - (1 << t.width) if t.width > 1 and bits >> (t.width - 1) else bits


def suffix(t: ir.Type) -> str:
    """The type's part in the name of an intrinsic: f32, i64, v16f32."""
    if isinstance(t, ir.VectorType):
        return f"v{t.count}{suffix(t.element)}"
    return f"i{t.width}" if isinstance(t, ir.IntType) else t.intrinsic_name


def mantissa_bits(t: ir.Type) -> int:
    """Stored bits of the significand of a real type."""
    return {"f16": 10, "f32": 23, "f64": 52}[suffix(element(t))]


def bits_type(t: ir.Type) -> ir.Type:
    """The integer type of the same width and lanes as a real type."""
    return like(t, {"f16": I16, "f32": I32, "f64": I64}[suffix(element(t))])
