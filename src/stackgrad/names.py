"""Further names of classes, for `isinstance` and annotations of programs that use them."""

from __future__ import annotations

from .fields import MatrixNdarray, Tensor


class ByElement(type):
    """Classes that ask how many axes an element has, and of which kind its holder is."""

    axes: int
    holder: type

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.holder) and len(getattr(value, "element_shape", ())) == cls.axes


class VectorNdarray(MatrixNdarray, metaclass=ByElement):
    """Ndarrays of vectors."""

    __slots__ = ()
    axes, holder = 1, MatrixNdarray


class VectorTensor(Tensor, metaclass=ByElement):
    """Fields and ndarrays of vectors."""

    __slots__ = ()
    axes, holder = 1, Tensor


class MatrixTensor(Tensor, metaclass=ByElement):
    """Fields and ndarrays of matrices."""

    __slots__ = ()
    axes, holder = 2, Tensor


__all__ = ["MatrixTensor", "VectorNdarray", "VectorTensor"]
