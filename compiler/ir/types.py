"""Types of values and memory. One row per scalar type; promotion is a function of two rows.

A value has a scalar type. Memory is an `ArrayType`: a field and an ndarray differ for the user, not for the IR.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scalar:
    """A scalar type. kind: 'f' real, 'i' signed, 'u' unsigned, 'b' boolean."""

    name: str
    kind: str
    bits: int

    @property
    def is_real(self) -> bool:
        return self.kind == "f"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    @property
    def is_int(self) -> bool:
        """Signed or unsigned integer; booleans are not integers."""
        return self.kind in "iu"

    @property
    def is_signed(self) -> bool:
        return self.kind == "i"

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype that stores one value of this type."""
        return _NUMPY_DTYPES[self.name]

    @property
    def size(self) -> int:
        """Bytes in memory; a boolean takes one."""
        return max(self.bits // 8, 1)

    def __str__(self) -> str:
        return self.name

    def __call__(self, value: object) -> object:
        """`sg.f32(x)` outside a kernel: the Python number rounded or wrapped to this type."""
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(self.dtype)[()].item()


f16, f32, f64 = (Scalar(f"f{n}", "f", n) for n in (16, 32, 64))
i8, i16, i32, i64 = (Scalar(f"i{n}", "i", n) for n in (8, 16, 32, 64))
u8, u16, u32, u64 = (Scalar(f"u{n}", "u", n) for n in (8, 16, 32, 64))
u1 = Scalar("u1", "b", 1)

SCALARS: dict[str, Scalar] = {t.name: t for t in (f16, f32, f64, i8, i16, i32, i64, u1, u8, u16, u32, u64)}
REALS = (f16, f32, f64)
INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)
_NUMPY_KINDS = {"f": "float", "i": "int", "u": "uint"}
_NUMPY_DTYPES = {
    t.name: np.dtype(bool) if t.is_bool else np.dtype(f"{_NUMPY_KINDS[t.kind]}{t.bits}") for t in SCALARS.values()
}


def from_dtype(dtype: np.dtype) -> Scalar:
    """The scalar type stored in arrays of this NumPy dtype; KeyError if there is none."""
    for scalar in SCALARS.values():
        if scalar.dtype == dtype:
            return scalar
    raise KeyError(str(dtype))


def promote(a: Scalar, b: Scalar) -> Scalar:
    """The common type of two arithmetic operands: real beats integer, then width, then unsigned.

    Two booleans give i32, as arithmetic on them counts.
    """
    if a.is_bool and b.is_bool:
        return i32
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.is_real != b.is_real:
        return a if a.is_real else b
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.kind == "u" else b


def adjoint_type(dtype: Scalar) -> Scalar:
    """The type of adjoints of values of a real type. They are sums, of which half precision keeps too few digits."""
    return f32 if dtype == f16 else dtype


@dataclass(frozen=True)
class ArrayType:
    """Memory with a shape known at launch. `grad`: an adjoint array of the same shape exists beside it."""

    dtype: Scalar
    ndim: int
    grad: bool = False

    @property
    def adjoint(self) -> ArrayType:
        """The type of the adjoint array."""
        return ArrayType(adjoint_type(self.dtype), self.ndim)

    def __str__(self) -> str:
        return f"{self.dtype}[{self.ndim}]" + (" grad" if self.grad else "")
