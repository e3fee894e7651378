"""Make ndarrays, which are arguments of kernels, and tensors, which are fields or ndarrays by choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

from ..compiler.frontend.aggregates import TYPE_ATTRIBUTE, MatrixType, StructType
from ..compiler.ir.types import Scalar, from_dtype
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import FieldError
from .dtypes import scalar_type
from .fields import Backend, MatrixNdarray, ScalarNdarray
from .fields.conversions import extents_of
from .fields.exchange import shared_memory
from .fields.kinds import ShapeLike, TensorOptions
from .fields.make import check_nesting, field, matrix_field, new_array, place_now
from .fields.matrix import MatrixField

if TYPE_CHECKING:
    from .compound_types import MatrixSpec
    from .fields import ScalarField

DType = Scalar | type


@overload
def ndarray(dtype: DType, shape: ShapeLike, needs_grad: bool = False, name: str | None = None) -> ScalarNdarray: ...


@overload
def ndarray(
    dtype: MatrixSpec, shape: ShapeLike, needs_grad: bool = False, name: str | None = None
) -> MatrixNdarray: ...


# Users see the overloads.
def ndarray(dtype: DType | MatrixSpec, shape: ShapeLike, needs_grad: bool = False, name: str | None = None) -> Any:
    """Return a new ndarray of zeros.

        x = sg.ndarray(sg.f32, shape=(64, 64), needs_grad=True)

    Args:
        dtype: A scalar, vector or matrix type. Python's float, int and bool mean the default types of `sg.init`.
        shape: An extent, or a tuple of extents.
        needs_grad: True to give the ndarray an adjoint `x.grad`.
        name: The name for error messages.

    Raises:
        FieldError: The dtype is none of these types, or the shape does not fit.
    """
    element = getattr(dtype, TYPE_ATTRIBUTE, dtype)
    if isinstance(element, StructType):
        raise FieldError("an ndarray has no struct elements", "use a field: MyStruct.field(shape=n)")
    if isinstance(element, MatrixType):
        return matrix_ndarray(element.shape, element.dtype, shape, needs_grad, name)
    made = new_array(ScalarNdarray, scalar_type(dtype), needs_grad, False, name)
    place_now(made, extents_of(shape))
    return made


def matrix_ndarray(
    element: tuple[int, ...], dtype: Scalar | type, shape: ShapeLike, needs_grad: bool = False, name: str | None = None
) -> MatrixNdarray:
    """Return a new ndarray of vectors or matrices, filled with zeros.

    Args:
        element: The shape of an element: (n,) for vectors, (n, m) for matrices.
        dtype: The scalar type of an entry.
        shape: An extent, or a tuple of extents.
        needs_grad: True to give the ndarray an adjoint.
        name: The name for error messages.

    Raises:
        FieldError: The dtype or a shape does not fit.
    """
    scalar = scalar_type(dtype)
    made = MatrixNdarray(MatrixType(element, scalar), new_array(ScalarNdarray, scalar, needs_grad, False, name))
    place_now(made, extents_of(shape))
    return made


@overload
def tensor(dtype: DType, shape: ShapeLike, **options: Unpack[TensorOptions]) -> ScalarField | ScalarNdarray: ...


@overload
def tensor(dtype: MatrixSpec, shape: ShapeLike, **options: Unpack[TensorOptions]) -> MatrixField | MatrixNdarray: ...


def tensor(  # Users see the overloads.
    dtype: DType | MatrixSpec,
    shape: ShapeLike,
    *,
    backend: Backend = Backend.NDARRAY,
    needs_grad: bool = False,
    layout: Sequence[int] | None = None,
    name: str | None = None,
) -> Any:
    """Return a new ndarray or, with backend=sg.Backend.FIELD, a new field, filled with zeros.

    Args:
        dtype: A scalar, vector or matrix type.
        shape: An extent, or a tuple of extents.
        backend: The kind of array to make.
        needs_grad: True to give the tensor an adjoint. Tensors of integers have none, even if asked.
        layout: A permutation of the axes, outermost in memory first. It is a hint that changes no result.
        name: The name for error messages.

    Raises:
        FieldError: The dtype, the shape, the backend or the layout does not fit.
    """
    element = getattr(dtype, TYPE_ATTRIBUTE, dtype)
    options: dict[str, Any] = {"backend": backend, "needs_grad": needs_grad, "layout": layout, "name": name}
    if isinstance(element, MatrixType):
        return matrix_tensor(element.shape, element.dtype, shape, **options)
    needs_grad = needs_grad and scalar_type(dtype).is_real
    made: Any = (field if _is_field(backend) else ndarray)(dtype, shape, needs_grad, name)
    made.layout = check_nesting(shape, None, layout)
    return made


def matrix_tensor(
    element: tuple[int, ...],
    dtype: Scalar | type,
    shape: ShapeLike,
    *,
    backend: Backend = Backend.NDARRAY,
    needs_grad: bool = False,
    layout: Sequence[int] | None = None,
    name: str | None = None,
) -> MatrixField | MatrixNdarray:
    """Return a new field or ndarray of vectors or matrices, filled with zeros.

    Args:
        element: The shape of an element: (n,) for vectors, (n, m) for matrices.
        dtype: The scalar type of an entry.
        shape: An extent, or a tuple of extents.
        backend: The kind of array to make.
        needs_grad: True to give the tensor an adjoint; integers have none.
        layout: A permutation of the axes; see `tensor`.
        name: The name for error messages.

    Raises:
        FieldError: An argument does not fit.
    """
    check_nesting(shape, None, layout)
    needs_grad = needs_grad and scalar_type(dtype).is_real
    if _is_field(backend):
        return matrix_field(element, dtype, shape, needs_grad, name=name)
    return matrix_ndarray(element, dtype, shape, needs_grad, name)


# The array is Any: of any library that supports DLPack.
def from_dlpack(array: Any, needs_grad: bool = False, name: str | None = None) -> ScalarNdarray:
    """Return an ndarray that shares its memory with an array of another package.

    An array that may not be written, such as JAX's, is copied.

    Args:
        array: Any array of the CPU that supports DLPack, contiguous.
        needs_grad: True to give the ndarray an adjoint.
        name: The name for error messages.

    Raises:
        FieldError: The array is on another device than the CPU, has strides, or has a dtype without a scalar type.
    """
    memory = shared_memory(array)
    try:
        scalar = from_dtype(memory.dtype)
    except KeyError:
        raise FieldError(f"arrays of {memory.dtype} have no scalar type", "cast it first") from None
    made: ScalarNdarray = new_array(ScalarNdarray, scalar, needs_grad, False, name)
    made.allocate(memory.shape, memory)
    made.place_companions()
    RUNTIME.fields.add(made)
    return made


def _is_field(backend: Any) -> bool:
    try:
        return Backend(backend) is Backend.FIELD
    except ValueError:
        raise FieldError(f"there is no backend {backend!r}", "use sg.Backend.FIELD or sg.Backend.NDARRAY") from None


__all__ = ["from_dlpack", "matrix_ndarray", "matrix_tensor", "ndarray", "tensor"]
