"""Recognize arrays that are given to a kernel: fields, ndarrays, NumPy arrays, torch tensors and JAX arrays.

Invariant: the memory of a leaf is C-contiguous, in native byte order, and lies where kernels run: on the host, or, with
arch=cuda, also on the GPU, where the host does not touch it. torch and JAX are recognized by the name of the module of
a class, so that neither is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiler.ir.types import Scalar, from_dtype
from ..runtime.session import RUNTIME
from .fields.array import Array
from .half_accumulators import accumulator_of


class ArgumentMismatch(Exception):
    """Signal that a value does not fit a parameter, with reason and cure but without the parameter's name."""

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cure = cure


@dataclass(frozen=True, slots=True)
class ForeignArray:
    """Represent an array of another library that is given to a kernel: its memory and its gradient.

    Attributes:
        memory: The memory.
        grad: The array to which kernels add its adjoint (see `half_accumulators.py`), or None.
        read_only: True if a kernel must not store to the memory.
        owner: The object that the caller passed, such as a torch tensor.
    """

    memory: np.ndarray
    grad: np.ndarray | None = None
    read_only: bool = False
    owner: object = None


Leaf = Array | ForeignArray
"""An array that a caller gives to a kernel."""


def foreign(value: Any, needs_grad: bool | None) -> ForeignArray | None:
    """Return an array of another library as a ForeignArray, or None if the value is no array.

    Args:
        value: A NumPy array, torch tensor, JAX array, array of a GPU, or a ForeignArray; or any other value.
        needs_grad: True if the array must have an adjoint, False to ignore an adjoint, None to use the adjoint if there
            is one.

    Raises:
        ArgumentMismatch: A kernel cannot use the array.
    """
    if isinstance(value, ForeignArray):
        return ForeignArray(value.memory, owner=value.owner) if needs_grad is False else value
    if isinstance(value, np.ndarray):
        return _numpy(value, needs_grad)
    library = type(value).__module__.partition(".")[0]
    attribute, read = _READERS.get(library, ("", None))
    if read is not None and getattr(value, attribute, None) is not None:
        return read(value, needs_grad)
    if RUNTIME.remote is not None and getattr(value, "__cuda_array_interface__", None) is not None:
        return _other(value, needs_grad)
    return None


def _numpy(value: np.ndarray, needs_grad: bool | None) -> ForeignArray:
    if needs_grad:
        raise ArgumentMismatch("a NumPy array has no gradient", "give a field, or sg.ndarray(..., needs_grad=True)")
    if not value.flags.c_contiguous or not value.flags.writeable:
        raise ArgumentMismatch("the NumPy array is not C-contiguous and writable", "give numpy.array(x, order='C')")
    return ForeignArray(value, owner=value)


def _torch(value: Any, needs_grad: bool | None) -> ForeignArray:
    if value.device.type != "cpu" and (RUNTIME.remote is None or value.device.type != "cuda"):
        raise ArgumentMismatch(f"the torch tensor is on {value.device}", "give x.cpu()")
    if not value.is_contiguous():
        raise ArgumentMismatch("the torch tensor is not contiguous", "give x.contiguous()")
    if needs_grad and not value.requires_grad:
        raise ArgumentMismatch("the torch tensor does not require a gradient", "call x.requires_grad_() before")
    memory = memory_of_tensor(value)
    if needs_grad and not _keeps_gradient(value):
        raise ArgumentMismatch(
            "the torch tensor is computed from others and keeps no gradient", "call x.retain_grad() before"
        )
    if not value.requires_grad or needs_grad is False or not _keeps_gradient(value):
        return ForeignArray(memory, owner=value)
    # Kernels add to adjoints, so the tensor must have memory for its gradient before the launch.
    if value.grad is None:
        value.grad = value.detach().new_zeros(value.shape)
    if not value.grad.is_contiguous():
        raise ArgumentMismatch("the gradient of the torch tensor is not contiguous", "set x.grad = x.grad.contiguous()")
    grad = accumulator_of(memory_of_tensor(value.grad), value, on_device=value.device.type != "cpu")
    return ForeignArray(memory, grad, owner=value)


def memory_of_tensor(tensor: Any) -> np.ndarray:
    """Return the memory of a contiguous torch tensor, on its device. Raise ArgumentMismatch if there is none."""
    plain = tensor.detach()
    try:
        if tensor.device.type == "cpu":
            found: np.ndarray = plain.numpy()
            return found
        stream = sys.modules["torch"].cuda.current_stream(tensor.device).cuda_stream
        return _borrowed(plain.__cuda_array_interface__, plain, stream)
    except (TypeError, AttributeError) as problem:
        raise ArgumentMismatch(
            f"the torch tensor cannot be read: {problem}", "convert it to float32 or float64"
        ) from None


def _borrowed(interface: Any, lender: Any, stream: int | None) -> np.ndarray:
    """Return GPU memory that another library owns. Raise ArgumentMismatch if kernels cannot use it."""
    assert RUNTIME.remote is not None
    try:
        return RUNTIME.remote.borrow(interface, lender, stream)
    except ValueError as problem:
        raise ArgumentMismatch(f"kernels cannot use the array on the GPU: {problem}", "copy it first") from None


def _other(value: Any, needs_grad: bool | None) -> ForeignArray:
    """Return an array of CuPy, Numba or another GPU library as a ForeignArray.

    Its interface names the stream that the launch must be ordered with, if any.
    """
    if needs_grad:
        raise ArgumentMismatch(
            f"the {type(value).__name__} has no gradient", "give a field, or sg.ndarray(..., needs_grad=True)"
        )
    interface = value.__cuda_array_interface__
    memory = _borrowed(interface, value, interface.get("stream"))
    return ForeignArray(memory, read_only=not memory.flags.writeable, owner=value)


def _keeps_gradient(value: Any) -> bool:
    """Return True if torch keeps the gradient of a tensor in its attribute `grad`."""
    return bool(value.is_leaf or value.retains_grad)


def _jax(value: Any, needs_grad: bool | None) -> ForeignArray:
    if needs_grad:
        raise ArgumentMismatch(
            "a JAX array has no gradient buffer", "wrap the kernel with sg.jax.wrap, or give an ndarray"
        )
    # JAX arrays are immutable, so the leaf is read-only: borrowed on the GPU, copied on the host.
    if RUNTIME.remote is not None and all(device.platform == "gpu" for device in value.devices()):
        value.block_until_ready()
        interface = {
            "shape": value.shape,
            "typestr": np.dtype(value.dtype).str,
            "data": (value.unsafe_buffer_pointer(), True),
        }
        return ForeignArray(_borrowed(interface, value, None), read_only=True, owner=value)
    memory = np.array(value, order="C")
    memory.flags.writeable = False
    return ForeignArray(memory, read_only=True, owner=value)


_READERS: dict[str, tuple[str, Callable[[Any, bool | None], ForeignArray] | None]] = {
    "torch": ("requires_grad", _torch),
    "jax": ("__array__", _jax),
    "jaxlib": ("__array__", _jax),
}
"""For each library, an attribute that its arrays have, and what makes a leaf of them."""


def scalar_of(memory: np.ndarray) -> Scalar:
    """Return the scalar type of an array. Raise ArgumentMismatch if kernels have no such type."""
    try:
        found = from_dtype(memory.dtype)
    except (KeyError, TypeError):
        found = None
    if found is None or found.dtype != memory.dtype:
        raise ArgumentMismatch(
            f"arrays of {memory.dtype} do not exist in kernels", "convert it, as in x.astype(numpy.float32)"
        )
    return found
