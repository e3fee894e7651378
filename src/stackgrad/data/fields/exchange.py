"""Exchange fields and ndarrays with NumPy, torch, JAX and DLPack; contents are copied unless asked otherwise.

Invariant: an array whose memory is handed out without a copy is marked as `exported` first, so that no cache relies on
its contents afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.words import WATCHED
from ...compiler.ir.types import Scalar
from ...runtime.session import RUNTIME
from ...runtime.usage_errors import FieldError, import_optional
from .conversions import as_numpy

_CPU = 1
"""The device type of host memory in DLPack."""


class Exchange:
    """Define the exchange of data with NumPy, torch, JAX and DLPack for fields and ndarrays."""

    __slots__ = ()

    # Arrays are Any, because torch and JAX may not be installed, and anything that NumPy takes as an array is read. A
    # place is Any: whatever NumPy takes as an index. A dtype is one of this package, or whatever NumPy takes as a
    # dtype.

    def values(self) -> np.ndarray:
        """Return the contents, which the caller must not change; they are a copy if the memory is on a device."""
        raise NotImplementedError

    def shared(self) -> np.ndarray:
        """Return the array's own memory, not a copy."""
        raise NotImplementedError

    def from_numpy(self, array: Any) -> None:
        """Overwrite the contents with those of an array of the same shape."""
        raise NotImplementedError

    def export(self) -> None:
        """Record that from now on other code can write the memory."""
        raise NotImplementedError

    def begin_read(self, place: Any = ...) -> None:
        """Notify tapes and forward mode that the host is about to read, because a derivative may end there.

        Args:
            place: The index that is read; None if the memory is shared, so that any element may be read later.
        """
        raise NotImplementedError

    def to_numpy(self, dtype: Any = None, *, copy: bool | None = True) -> np.ndarray:
        """Return the contents as a NumPy array whose shape is that of the field, followed by that of its elements.

        Args:
            dtype: The dtype of the array; None for that of the field. Another dtype cannot share memory.
            copy: True for a copy; False or None to share the memory.

        Raises:
            ValueError: `copy` is False and the dtype differs.
        """
        if RUNTIME.words[WATCHED]:
            self.begin_read(... if copy or dtype is not None else None)
        found = self.values() if copy or dtype is not None else self.shared()
        wanted = found.dtype if dtype is None else dtype.dtype if isinstance(dtype, Scalar) else np.dtype(dtype)
        if wanted != found.dtype:
            if copy is False:
                raise ValueError(f"an array of another dtype than {found.dtype} needs a copy")
            return found.astype(wanted)
        if copy:
            return found.copy(order="C") if RUNTIME.remote is None else np.asarray(found, order="C")
        self.export()
        return self.shared()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Return the description of the GPU memory by which other libraries share it, with a stream for ordering.

        Others can write the memory from now on. Raises AttributeError where arrays are not on a GPU.
        """
        remote = RUNTIME.remote
        found = None if remote is None else self.in_place()
        if remote is None or found is None or not remote.is_own(found):
            raise AttributeError("__cuda_array_interface__: the memory is not on a GPU")
        if RUNTIME.words[WATCHED]:
            self.begin_read(None)
        made = remote.interface(found)
        self.mark_exported()
        return made

    def in_place(self) -> np.ndarray:
        """Return the array's own memory without waiting for launches, which may still be writing it."""
        raise NotImplementedError

    def mark_exported(self) -> None:
        """Record that from now on other code can write the memory on the device, in order with launches."""
        raise NotImplementedError

    def to_torch(self, device: Any = None, *, copy: bool | None = True) -> Any:
        """Return the contents as a torch tensor.

        Args:
            device: The device of the tensor; None for the CPU.
            copy: True for a copy; False or None to share the memory, that of the CPU or, with arch=cuda, of the GPU.

        Raises:
            ValueError: `copy` is False and the memory is not on this device.
            MissingPackage: torch is not installed.
        """
        torch = import_optional("torch", "torch", "torch")
        if RUNTIME.remote is not None and device is not None and torch.device(device).type == "cuda":
            shared = torch.as_tensor(self, device=device)
            return shared.clone() if copy else shared
        on_cpu = device is None or torch.device(device).type == "cpu"
        if copy is False and not on_cpu:
            raise ValueError(f"a tensor on {device} needs a copy")
        made = torch.from_numpy(self.to_numpy(copy=copy if on_cpu else True))
        return made if on_cpu else made.to(device)

    def from_torch(self, tensor: Any) -> None:
        """Overwrite the contents with those of a torch tensor on any device. Raise FieldError if it does not fit."""
        self.from_numpy(tensor)

    def to_jax(self) -> Any:
        """Return the contents as a JAX array, which is always a copy because JAX arrays are immutable.

        JAX decides whether 64-bit types stay. Raises MissingPackage if JAX is not installed.
        """
        return import_optional("jax.numpy", "JAX", "jax").asarray(self.to_numpy())

    def from_jax(self, array: Any) -> None:
        """Overwrite the contents with those of a JAX array. Raise FieldError if it does not fit."""
        self.from_numpy(array)

    def to_dlpack(self) -> Any:
        """Return a DLPack capsule that shares the memory of the array."""
        return self.__dlpack__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the contents for `numpy.asarray(x)`, as a copy unless `copy` is False."""
        return self.to_numpy(dtype, copy=copy is not False)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """Return a DLPack capsule for another package; it shares the memory unless `copy` is True."""
        if RUNTIME.words[WATCHED]:
            self.begin_read(... if copy else None)
        found = self.values().copy() if copy else self.shared()
        if not copy:
            self.export()
        return found.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return (device type, number) by which DLPack denotes host memory."""
        return _CPU, 0


def shared_memory(given: Any) -> np.ndarray:
    """Return another package's array as a C-contiguous NumPy array, which shares the memory if possible.

    The memory is shared if it is host memory that may be written; otherwise it is copied.

    Raises:
        FieldError: The array is on another device, or has memory that kernels cannot address.
    """
    found = _imported(given)
    if not found.flags.c_contiguous or not found.flags.aligned:
        raise FieldError("the array is not C-contiguous, or not aligned", "copy it first: numpy.ascontiguousarray")
    return found if found.flags.writeable else found.copy()


def _imported(given: Any) -> np.ndarray:
    """Return a NumPy array that shares the memory of another package's array. Raise FieldError if it has none."""
    if isinstance(given, np.ndarray):
        return given
    device = getattr(given, "__dlpack_device__", lambda: (_CPU, 0))()
    if int(device[0]) != _CPU:
        raise FieldError(f"the array is on another device than the CPU: {device}", "copy it to the CPU")
    if hasattr(given, "detach"):
        return as_numpy(given)
    if not hasattr(given, "__dlpack__"):
        raise FieldError(f"{type(given).__name__} does not speak DLPack", "use from_numpy() to copy")
    try:
        return np.from_dlpack(given)
    except (BufferError, RuntimeError, ValueError, TypeError) as problem:
        raise FieldError(f"the memory cannot be shared: {problem}", "use from_numpy() to copy") from None
