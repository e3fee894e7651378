"""This module defines the types of values and memory, and the rule by which two operand types are promoted.

A value has a scalar type. Memory has an `ArrayType`: a field and an ndarray differ for the user, not for the IR.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .documented import documented


def _scalar_text(scalar: Scalar) -> str:
    """Return the docstring of a scalar type."""
    call = f"A call `sg.{scalar.name}(x)` converts x to it."
    if scalar.is_bool:
        return f"Represent booleans, True and False.\n\n{call}"
    if scalar.is_real:
        real = np.finfo(scalar.dtype)
        return (
            f"Represent real numbers of {scalar.bits} bits (IEEE 754) with {real.precision} decimal digits and an"
            f" absolute value of at most {real.max:.3g}.\n\nIt has infinities and NaN. {call}"
        )
    whole = np.iinfo(scalar.dtype)
    return (
        f"Represent {'' if scalar.is_signed else 'un'}signed integers of {scalar.bits} bits, from {whole.min} to"
        f" {whole.max}.\n\nResults out of this range wrap. {call}"
    )


@documented(_scalar_text)
@dataclass(frozen=True)
class Scalar:
    """A `Scalar` is a scalar type of the kernel language, such as f32 or u1.

    Attributes:
        name: name in IR text and in the public API, such as f32.
        kind: 'f' for reals, 'i' for signed and 'u' for unsigned integers, 'b' for booleans.
        bits: width of a value in bits.
    """

    name: str
    kind: str
    bits: int

    @property
    def is_real(self) -> bool:
        """Return True if the type is a floating-point type."""
        return self.kind == "f"

    @property
    def is_bool(self) -> bool:
        """Return True if the type is boolean."""
        return self.kind == "b"

    @property
    def is_int(self) -> bool:
        """Return True if the type is a signed or unsigned integer; booleans are not integers."""
        return self.kind in "iu"

    @property
    def is_signed(self) -> bool:
        """Return True if the type is a signed integer."""
        return self.kind == "i"

    @property
    def limits(self) -> tuple[int, int]:
        """Return the least and the greatest number of an integer type; those of a boolean are 0 and 1."""
        return (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) if self.is_signed else (0, (1 << self.bits) - 1)

    @property
    def dtype(self) -> np.dtype:
        """Return the NumPy dtype that stores one value of this type."""
        return _NUMPY_DTYPES[self.name]

    @property
    def size(self) -> int:
        """Return the number of bytes of a value in memory; a boolean takes one."""
        return max(self.bits // 8, 1)

    def __str__(self) -> str:
        return self.name

    def __call__(self, value: object) -> object:
        """Return a Python number rounded or wrapped to this type, as in `sg.f32(x)` outside of a kernel."""
        # Overflow and NaN are results here, not warnings.
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
_OF_DTYPE = {dtype: SCALARS[name] for name, dtype in _NUMPY_DTYPES.items()}


def from_dtype(dtype: np.dtype) -> Scalar:
    """Return the scalar type stored in arrays of this NumPy dtype.

    Raises:
        KeyError: no scalar type has this dtype.
    """
    found = _OF_DTYPE.get(dtype)
    if found is not None:
        return found
    for own, scalar in _OF_DTYPE.items():  # Names and classes are equal to a dtype, but have another hash.
        if own == dtype:
            return scalar
    raise KeyError(str(dtype))


def promote(a: Scalar, b: Scalar) -> Scalar:
    """Return the common type of two arithmetic operands.

    A real beats an integer, then the wider type wins, then the unsigned one. Two booleans give i32, because arithmetic
    on booleans counts.
    """
    if a.is_bool and b.is_bool:
        return i32
    # A boolean beside a number takes the type of the number.
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.is_real != b.is_real:
        return a if a.is_real else b
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.kind == "u" else b


def adjoint_type(dtype: Scalar) -> Scalar:
    """Return the type of the adjoints of values of a real type.

    Adjoints are sums, and half precision keeps too few digits for sums: adjoints of f16 are f32.
    """
    return f32 if dtype == f16 else dtype


@dataclass(frozen=True)
class ArrayType:
    """An `ArrayType` holds the element type and rank of an array, and says if the array has an adjoint array.

    Attributes:
        dtype: type of an element.
        ndim: number of axes.
        grad: True if an adjoint array of the same shape exists beside the array.
    """

    dtype: Scalar
    ndim: int
    grad: bool = False

    @property
    def adjoint(self) -> ArrayType:
        """Return the type of the adjoint array."""
        return ArrayType(adjoint_type(self.dtype), self.ndim)

    def __str__(self) -> str:
        return f"{self.dtype}[{self.ndim}]" + (" grad" if self.grad else "")
