"""Fields and ndarrays exchanged with NumPy, torch, JAX and whatever speaks DLPack; copies unless asked otherwise.

Invariant: memory that leaves without a copy is `exported` first, so that no cache trusts its content afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.words import WATCHED
from ..compiler.ir.types import Scalar
from ..session import RUNTIME
from ..usage import FieldError, imported
from .conversions import as_numpy

_CPU = 1
"""The device type of host memory in DLPack."""


class Exchange:
    """Conversions of what has `values()` (an array of the host to be read), `shared()`, `from_numpy` and `export`."""

    __slots__ = ()

    def values(self) -> np.ndarray:
        """The content as an array of the host, to be read only: not a copy, unless the memory is a device's."""
        raise NotImplementedError

    def shared(self) -> np.ndarray:
        """The memory itself."""
        raise NotImplementedError

    def from_numpy(self, array: Any) -> None:
        """Overwrite the content with that of an array of the same shape."""
        raise NotImplementedError

    def export(self) -> None:
        """From now on others can write the memory."""
        raise NotImplementedError

    def begin_read(self, place: Any = ...) -> None:
        """What precedes reads by the host while anyone takes derivatives: does one end there? place: None for memory
        that is shared, and may be read.
        """
        raise NotImplementedError

    def to_numpy(self, dtype: Any = None, *, copy: bool | None = True) -> np.ndarray:
        """The content: the field's shape, then the shape of its elements. copy: False and None share the memory.

        dtype: of the array, the field's by default; another one cannot share memory: ValueError if copy is False.
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
        """The memory for other libraries on the GPU, in order with their work on the stream that it names.

        Others can write it from now on. AttributeError where arrays are not on a GPU.
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
        """The memory itself, which launches may be writing just now."""
        raise NotImplementedError

    def mark_exported(self) -> None:
        """From now on others can write the memory on the device, in order with launches."""
        raise NotImplementedError

    def to_torch(self, device: Any = None, *, copy: bool | None = True) -> Any:
        """The content as a torch tensor on a device, the CPU by default.

        copy: as in `to_numpy`; memory of the CPU, or, with arch=cuda, of the GPU, is shared without one.
        """
        torch = imported("torch", "torch", "torch")
        if RUNTIME.remote is not None and device is not None and torch.device(device).type == "cuda":
            shared = torch.as_tensor(self, device=device)
            return shared.clone() if copy else shared
        on_cpu = device is None or torch.device(device).type == "cpu"
        if copy is False and not on_cpu:
            raise ValueError(f"a tensor on {device} needs a copy")
        made = torch.from_numpy(self.to_numpy(copy=copy if on_cpu else True))
        return made if on_cpu else made.to(device)

    def from_torch(self, tensor: Any) -> None:
        """Overwrite the content with that of a torch tensor of the same shape, from any device. Raises FieldError."""
        self.from_numpy(tensor)

    def to_jax(self) -> Any:
        """The content as a JAX array, a copy: JAX arrays never change. JAX decides whether 64-bit types stay."""
        return imported("jax.numpy", "JAX", "jax").asarray(self.to_numpy())

    def from_jax(self, array: Any) -> None:
        """Overwrite the content with that of a JAX array of the same shape. Raises FieldError."""
        self.from_numpy(array)

    def to_dlpack(self) -> Any:
        """A DLPack capsule that shares the memory."""
        return self.__dlpack__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """`numpy.asarray(x)`: a copy, unless copy is False."""
        return self.to_numpy(dtype, copy=copy is not False)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """The memory for another package, shared unless copy is True."""
        if RUNTIME.words[WATCHED]:
            self.begin_read(... if copy else None)
        found = self.values().copy() if copy else self.shared()
        if not copy:
            self.export()
        return found.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Host memory."""
        return _CPU, 0


def shared_memory(given: Any) -> np.ndarray:
    """The memory of an array of another package as a C-contiguous NumPy array: shared if it is host memory that may be
    written, else a copy. Raises FieldError for other devices, and for memory that kernels cannot address.
    """
    found = _imported(given)
    if not found.flags.c_contiguous or not found.flags.aligned:
        raise FieldError("the array is not C-contiguous, or not aligned", "copy it first: numpy.ascontiguousarray")
    return found if found.flags.writeable else found.copy()


def _imported(given: Any) -> np.ndarray:
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
