"""Define `sg.types.primitive_types`: the scalar types, their names in other packages, and lists of them by kind."""

from __future__ import annotations

from ..compiler.ir.types import f16, f32, f64, i8, i16, i32, i64, u1, u8, u16, u32, u64

float16, float32, float64 = f16, f32, f64
int8, int16, int32, int64 = i8, i16, i32, i64
uint1, uint8, uint16, uint32, uint64 = u1, u8, u16, u32, u64

real_types = [f16, f32, f64, float]
"""All real types, and Python's float, which is the default real type."""
integer_types = [i8, i16, i32, i64, u1, u8, u16, u32, u64, int, bool]
"""All types of integers and booleans, and Python's int and bool."""
all_types = [*real_types, *integer_types]
"""All scalar types."""

__all__ = [
    "all_types",
    "f16",
    "f32",
    "f64",
    "float16",
    "float32",
    "float64",
    "i16",
    "i32",
    "i64",
    "i8",
    "int16",
    "int32",
    "int64",
    "int8",
    "integer_types",
    "real_types",
    "u1",
    "u16",
    "u32",
    "u64",
    "u8",
    "uint1",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
]
