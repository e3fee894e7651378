"""What annotations of arrays, and of views of them, say: the type of the elements and how indices are treated."""

from __future__ import annotations

from typing import Any

from .compiler.frontend.aggregates import TYPE_ATTRIBUTE, MatrixType
from .compiler.ir.types import Scalar
from .usage import FieldError
from .values.struct_types import element_type


def annotated_element(dtype: Any, boundary: str) -> Any:
    """The type of the elements, None for any; `float` and its like stay until a kernel is traced. Raises FieldError."""
    if boundary not in ("unsafe", "clamp"):
        raise FieldError(f"there is no boundary {boundary!r}", "leave it out; debug mode checks indices")
    if boundary == "clamp":
        raise FieldError("indices are not clamped at the boundary", "clamp them: x[sg.min(sg.max(i, 0), n - 1)]")
    element = getattr(dtype, TYPE_ATTRIBUTE, dtype)
    return element if element is None or isinstance(element, (Scalar, MatrixType)) else element_type(element)
