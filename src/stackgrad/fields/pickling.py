"""Fields and ndarrays through `pickle` and `copy.deepcopy`: content, dtype, shape and layout; gradients are dropped."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..compiler.frontend.aggregates import MatrixType
from ..compiler.ir.types import Scalar


def state(tensor: Any) -> tuple[Any, ...]:
    """What remakes a scalar or matrix tensor: class, name, layout, dtype and the memory."""
    array = getattr(tensor, "storage", tensor)
    array.check_alive()
    return type(tensor), tensor.name, array.layout, array.dtype, array.memory.copy()


def load_scalar(kind: Any, name: str | None, layout: Any, dtype: Scalar, content: np.ndarray) -> Any:
    """A scalar tensor with this content, in the present runtime."""
    from .make import fresh

    made = fresh(kind, dtype, content.shape, name)
    made.layout = layout
    made.memory[...] = content
    return made


def load_matrix(
    kind: Any, name: str | None, layout: Any, dtype: Scalar, content: np.ndarray, element: MatrixType, first: bool
) -> Any:
    """A matrix tensor with this content, in the present runtime."""
    return kind(element, load_scalar(kind.storage_kind, name, layout, dtype, content), first)
