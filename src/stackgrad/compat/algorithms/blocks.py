"""Split elements into contiguous blocks, and combine values of any scalar type, for the algorithms of this package."""

from __future__ import annotations

from typing import Any

from ...compiler.frontend.functions import EXPORTS, func
from ...compiler.ir.types import i32, u32, u64
from ...launch.kernels import kernel
from ...types import template

_LANGUAGE: Any = EXPORTS
bit_cast, cast, static, maximum, minimum = (_LANGUAGE[name] for name in ("bit_cast", "cast", "static", "max", "min"))

BLOCKS = 1024
"""Maximum number of blocks: the number of iterations that work in parallel."""

ADD, MIN, MAX = 0, 1, 2
"""The operations that `combined` knows."""


@func
def block_size(n: Any) -> Any:
    """Return the number of elements of each block but the last one, which may be shorter."""
    return maximum((n + (BLOCKS - 1)) // BLOCKS, 1)


@func
def combined(a: Any, b: Any, op: template()) -> Any:  # type: ignore[valid-type] # an annotation of the kernel language
    """Return the sum, minimum or maximum of two values.

    Args:
        a: The first value.
        b: The second value.
        op: ADD, MIN or MAX.
    """
    if static(op == ADD):
        return a + b
    if static(op == MIN):
        return minimum(a, b)
    return maximum(a, b)


@func
def stored(value: Any, dtype: template()) -> Any:  # type: ignore[valid-type] # an annotation of the kernel language
    """Return the bits of a value as an unsigned integer, the form in which scratch memory holds values."""
    return bit_cast(cast(value, dtype), static(u64 if dtype.bits == 64 else u32))


@func
def loaded(bits: Any, dtype: template()) -> Any:  # type: ignore[valid-type] # an annotation of the kernel language
    """Return the value whose bits scratch memory holds as an unsigned integer."""
    return bit_cast(cast(bits, static(u64 if dtype.bits == 64 else u32)), dtype)


def identity_of(dtype: Any, op: int) -> Any:
    """Return the identity of an operation: the value that leaves every other value unchanged.

    Args:
        dtype: A scalar type.
        op: ADD, MIN or MAX.
    """
    if op == ADD:
        return 0
    if dtype.is_real:
        return float("inf") if op == MIN else float("-inf")
    if op == MIN:
        return 2 ** (dtype.bits - 1) - 1 if dtype.is_signed else 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0


__all__ = [
    "ADD",
    "BLOCKS",
    "MAX",
    "MIN",
    "bit_cast",
    "block_size",
    "cast",
    "combined",
    "func",
    "i32",
    "identity_of",
    "kernel",
    "loaded",
    "minimum",
    "static",
    "stored",
    "template",
    "u32",
    "u64",
]
