"""Define class names such as `VectorNdarray`, which programs use in `isinstance` and annotations."""

from __future__ import annotations

from .fields import MatrixNdarray, Tensor


class ByElement(type):
    """Define the metaclass of names such as VectorNdarray: `isinstance` tests if an array holds vectors or matrices.

    Attributes:
        axes: Number of axes of an element: 1 for vectors, 2 for matrices.
        holder: The class, of ndarrays or of any tensors, that an array must be an instance of as well.
    """

    axes: int
    holder: type

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.holder) and len(getattr(value, "element_shape", ())) == cls.axes


class VectorNdarray(MatrixNdarray, metaclass=ByElement):
    """Match ndarrays of vectors in `isinstance` and annotations."""

    __slots__ = ()
    axes, holder = 1, MatrixNdarray


class VectorTensor(Tensor, metaclass=ByElement):
    """Match fields and ndarrays of vectors in `isinstance` and annotations."""

    __slots__ = ()
    axes, holder = 1, Tensor


class MatrixTensor(Tensor, metaclass=ByElement):
    """Match fields and ndarrays of matrices in `isinstance` and annotations."""

    __slots__ = ()
    axes, holder = 2, Tensor


__all__ = ["MatrixTensor", "VectorNdarray", "VectorTensor"]
