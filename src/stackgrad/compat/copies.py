"""Define the copies of `_kernels` of the peers that programs call: between fields, ndarrays and arrays of NumPy."""

from __future__ import annotations

from typing import Any


def fill_field(field: Any, val: Any) -> None:
    """Set all elements of a field or ndarray to a value."""
    field.fill(val)


fill_ndarray = fill_ndarray_matrix = field_fill_python_scope = fill_field


def tensor_to_ext_arr(tensor: Any, arr: Any) -> None:
    """Copy a field or ndarray to an array of another package.

    Args:
        tensor: The source.
        arr: The destination, of the same shape.
    """
    arr[...] = tensor.to_numpy() if type(arr).__module__ == "numpy" else tensor.to_torch()


ndarray_to_ext_arr = tensor_to_ext_arr


def ndarray_matrix_to_ext_arr(ndarray: Any, arr: Any, *layout: Any) -> None:
    """Copy an ndarray of vectors or matrices to an array of another package.

    Args:
        ndarray: The source.
        arr: The destination, of the same shape.
        *layout: Ignored.
    """
    tensor_to_ext_arr(ndarray, arr)


def matrix_to_ext_arr(mat: Any, arr: Any, as_vector: Any = False) -> None:
    """Copy a field of vectors or matrices to an array of another package.

    Args:
        mat: The source.
        arr: The destination, of the same shape.
        as_vector: Ignored.
    """
    tensor_to_ext_arr(mat, arr)


def ext_arr_to_tensor(arr: Any, tensor: Any) -> None:
    """Copy an array of another package to a field or ndarray.

    Args:
        arr: The source.
        tensor: The destination, of the same shape.
    """
    if type(arr).__module__ == "numpy":
        tensor.from_numpy(arr)
    else:
        tensor.from_torch(arr)


ext_arr_to_ndarray = ext_arr_to_tensor


def ext_arr_to_ndarray_matrix(arr: Any, ndarray: Any, *layout: Any) -> None:
    """Copy an array of another package to an ndarray of vectors or matrices.

    Args:
        arr: The source.
        ndarray: The destination, of the same shape.
        *layout: Ignored.
    """
    ext_arr_to_tensor(arr, ndarray)


def ext_arr_to_matrix(arr: Any, mat: Any, as_vector: Any = False) -> None:
    """Copy an array of another package to a field of vectors or matrices.

    Args:
        arr: The source.
        mat: The destination, of the same shape.
        as_vector: Ignored.
    """
    ext_arr_to_tensor(arr, mat)


def tensor_to_tensor(tensor: Any, other: Any) -> None:
    """Copy the second field or ndarray to the first one, which has the same shape."""
    tensor.copy_from(other)


ndarray_to_ndarray = tensor_to_tensor


def clear_gradients(fields: Any) -> None:
    """Set the adjoints of a sequence of fields to 0."""
    for field in fields:
        field.grad.fill(0)


__all__ = [
    "clear_gradients",
    "ext_arr_to_matrix",
    "ext_arr_to_ndarray",
    "ext_arr_to_ndarray_matrix",
    "ext_arr_to_tensor",
    "field_fill_python_scope",
    "fill_field",
    "fill_ndarray",
    "fill_ndarray_matrix",
    "matrix_to_ext_arr",
    "ndarray_matrix_to_ext_arr",
    "ndarray_to_ext_arr",
    "ndarray_to_ndarray",
    "tensor_to_ext_arr",
    "tensor_to_tensor",
]
