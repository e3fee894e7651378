"""Read annotations of array and view parameters: the type of the elements, and the option `boundary`."""

from __future__ import annotations

from typing import Any

from ..compiler.frontend.aggregates import TYPE_ATTRIBUTE, MatrixType
from ..compiler.ir.types import Scalar
from ..runtime.usage_errors import FieldError
from .values.struct_types import element_type


def annotated_element(dtype: Any, boundary: str) -> Any:
    """Return the element type that an annotation of an array parameter sets. Raise FieldError if it is not valid.

    Args:
        dtype: A scalar type, `float` or its like, a vector, matrix or struct type, or None for any type. `float`, `int`
            and `bool` are returned unchanged, because their meaning is known only when a kernel is traced.
        boundary: The treatment of indices outside of the array. Only "unsafe" is accepted.

    Returns:
        The element type, or None if the annotation accepts any.

    Raises:
        FieldError: The boundary is not supported, or the dtype is not an element type.
    """
    if boundary not in ("unsafe", "clamp"):
        raise FieldError(f"there is no boundary {boundary!r}", "leave it out; debug mode checks indices")
    if boundary == "clamp":
        raise FieldError("indices are not clamped at the boundary", "clamp them: x[sg.min(sg.max(i, 0), n - 1)]")
    element = getattr(dtype, TYPE_ATTRIBUTE, dtype)
    return element if element is None or isinstance(element, (Scalar, MatrixType)) else element_type(element)
