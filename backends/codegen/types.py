"""This module maps IR scalar types to LLVM types, and makes constants that fit scalars and vectors alike.

A u1 is an i1 as a value and an i8 (0 or 1) in memory; every other type is the same in both places.
"""

from __future__ import annotations

from ...compiler.ir.types import Scalar
from . import ir

I8, I16, I32, I64 = (ir.IntType(n) for n in (8, 16, 32, 64))
F16, F32, F64 = ir.HALF, ir.FLOAT, ir.DOUBLE
I1, PTR, VOID = ir.I1, ir.PTR, ir.VOID

_REALS = {16: F16, 32: F32, 64: F64}
_INTEGERS = {1: I1, 8: I8, 16: I16, 32: I32, 64: I64}
_POINTERS = {0: PTR, 1: ir.Type("ptr addrspace(1)")}


def value_type(t: Scalar) -> ir.Type:
    """Return the LLVM type of a value of the IR type `t`."""
    return (_REALS if t.is_real else _INTEGERS)[t.bits]


def memory_type(t: Scalar) -> ir.Type:
    """Return the LLVM type of an element of the IR type `t` in memory; it takes `t.size` bytes."""
    return I8 if t.is_bool else value_type(t)


def pointer(space: int) -> ir.Type:
    """Return the type of an opaque pointer into the address space with number `space`."""
    return _POINTERS[space]


def element(t: ir.Type) -> ir.Type:
    """Return the element type of a vector type; a scalar type is its own element type."""
    return t.element if isinstance(t, ir.VectorType) else t


def like(t: ir.Type, scalar: ir.Type) -> ir.Type:
    """Return the type `scalar`, as a vector with as many lanes as `t` if `t` is a vector type."""
    return ir.VectorType(scalar, t.count) if isinstance(t, ir.VectorType) else scalar


def const(t: ir.Type, number: float | int | bool) -> ir.Constant:
    """Return a constant of a scalar type, or the same number in every lane of a vector type."""
    return ir.Constant(t, number)


def suffix(t: ir.Type) -> str:
    """Return the part of an intrinsic's name that stands for the type: f32, i64, v16f32."""
    return t.name


def mantissa_bits(t: ir.Type) -> int:
    """Return the number of stored significand bits of a real type."""
    return {"f16": 10, "f32": 23, "f64": 52}[suffix(element(t))]


def bits_type(t: ir.Type) -> ir.Type:
    """Return the integer type that has the width and lanes of the real type `t`."""
    return like(t, {"f16": I16, "f32": I32, "f64": I64}[suffix(element(t))])
