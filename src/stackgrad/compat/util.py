"""Define those names of the peers' `lang.util` that programs use, such as tests for installed packages."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from ..data.dtypes import scalar_type
from ..data.values import Matrix
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import import_optional


def has_pytorch() -> bool:
    """Return True if torch is installed."""
    return find_spec("torch") is not None


def has_paddle() -> bool:
    """Return False, because kernels do not accept arrays of Paddle."""
    return False


def to_numpy_type(dtype: Any) -> Any:
    """Return the NumPy dtype that stores values of a scalar type."""
    return scalar_type(dtype).dtype.type


def to_pytorch_type(dtype: Any) -> Any:
    """Return the torch dtype that stores values of a scalar type."""
    torch = import_optional("torch", "torch", "torch")
    return getattr(torch, scalar_type(dtype).dtype.name)


def cook_dtype(dtype: Any) -> Any:
    """Return the scalar type for a dtype; Python's float and int mean the default types of `init`."""
    return scalar_type(dtype)


to_quadrants_type = to_taichi_type = cook_dtype


def is_matrix_class(value: Any) -> bool:
    """Return True if an object is the class of vectors or matrices."""
    return value is Matrix


def in_python_scope() -> bool:
    """Return True if no kernel is being traced in this thread, so that plain Python runs."""
    return not RUNTIME.tracing


def in_quadrants_scope() -> bool:
    """Return True if a kernel is being traced in this thread."""
    return RUNTIME.tracing


in_taichi_scope = in_quadrants_scope


def python_scope(function: Any) -> Any:
    """Return a function unchanged, because this decorator of the peers has no effect here."""
    return function


__all__ = [
    "cook_dtype",
    "has_paddle",
    "has_pytorch",
    "in_python_scope",
    "in_quadrants_scope",
    "in_taichi_scope",
    "is_matrix_class",
    "python_scope",
    "to_numpy_type",
    "to_pytorch_type",
    "to_quadrants_type",
    "to_taichi_type",
]
