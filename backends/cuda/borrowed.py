"""This module lets kernels use GPU memory of other libraries without copies: torch tensors, JAX arrays, CuPy.

It takes whatever has `__cuda_array_interface__`. A `DeviceArray` is a NumPy array over an address that the host cannot
read: it has dtype, shape and address, which is what launches need, and refuses what would touch the memory; `copy()`
fetches it. Invariant: a launch follows what its owner had the GPU do before, and what the owner has it do afterwards
follows the launch: by events between the owner's stream and the stream of the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from ...compiler.errors import Unsupported
from .. import owners
from .device import CudaDevice

LEGACY = (0, 1)
"""Handles of the stream that calls without a stream use."""

_BY_NAME: tuple[Callable[..., Any], ...] = (np.may_share_memory, np.shares_memory)
"""Functions of NumPy that look at addresses alone."""


class BorrowedMemory:
    """Represent borrowed GPU memory: its owner in the other library and the stream of the owner's work.

    Attributes:
        device: GPU of the memory.
        lender: Object of the other library, which is kept alive.
        stream: Stream on which the lender orders its work; None if its work is over, and the memory must stay until
            launches are.
        bytes: Bytes of the memory.
    """

    def __init__(
        self,
        device: CudaDevice,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        lender: Any,
        stream: int | None,
        writeable: bool,
    ) -> None:
        self.device, self.lender, self.stream = device, lender, stream
        self.bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self.__array_interface__ = {
            "shape": shape,
            "typestr": dtype.str,
            "data": (address, not writeable),
            "version": 3,
        }


class DeviceArray(np.ndarray):
    """Represent an array whose memory the host cannot read; `fetch` copies the array to the host."""

    fetch: Callable[[np.ndarray], np.ndarray] | None

    def __array_finalize__(self, parent: Any) -> None:
        self.fetch = getattr(parent, "fetch", None)

    def copy(self, order: Any = "C") -> np.ndarray:  # type: ignore[override]
        """Return a copy of the array in memory of the host."""
        if self.fetch is None:
            self._refuse()
        return self.fetch(self)

    def _refuse(self, *arguments: Any, **options: Any) -> NoReturn:
        """Raise Unsupported, because NumPy would have to touch memory that the host cannot read."""
        raise Unsupported(
            "the host would have to read or write an array that is on the GPU", "copy it to the host: x.cpu(), x.get()"
        )

    def __array_ufunc__(self, *arguments: Any, **options: Any) -> NoReturn:
        self._refuse()

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function in (np.zeros_like, np.empty_like, np.ones_like):
            return function(np.broadcast_to(np.zeros((), args[0].dtype), args[0].shape), *args[1:], **options)
        if function not in _BY_NAME:
            self._refuse()
        plain = [a.view(np.ndarray) if isinstance(a, DeviceArray) else a for a in args]
        return function(*plain, **options)

    def __getitem__(self, place: Any) -> Any:
        parts = place if isinstance(place, tuple) else (place,)
        if not all(isinstance(part, slice) or part is Ellipsis for part in parts):
            self._refuse()
        return super().__getitem__(place)

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}, {self.shape}, at {self.__array_interface__['data'][0]:#x})"

    __str__ = __repr__
    __setitem__ = __iter__ = __bool__ = __float__ = __int__ = __index__ = _refuse
    item = tolist = tobytes = astype = fill = dump = tofile = take = byteswap = sort = _refuse


def borrow(
    device: CudaDevice,
    fetch: Callable[[np.ndarray], np.ndarray],
    interface: Mapping[str, Any],
    lender: Any,
    stream: int | None,
) -> DeviceArray:
    """Return an array over GPU memory of another library, as its `__cuda_array_interface__` describes the memory.

    Args:
        device: GPU of the memory.
        fetch: Copies an array to the host.
        interface: `__cuda_array_interface__` of the memory.
        lender: Owner of the memory, which is kept alive.
        stream: Stream on which the lender orders its work; None if its work is over.

    Raises:
        ValueError: The array has a mask, or strides of an array that is not contiguous.
    """
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    if interface.get("mask") is not None:
        raise ValueError("it has a mask")
    address, is_constant = interface["data"]
    strides = interface.get("strides")
    if strides is not None and 0 not in shape:
        dense = [int(np.prod(shape[axis + 1 :], dtype=np.int64)) * dtype.itemsize for axis in range(len(shape))]
        if any(extent > 1 and s != d for s, d, extent in zip(strides, dense, shape)):
            raise ValueError("it is not contiguous")
    owner = BorrowedMemory(device, int(address or 0) or dtype.itemsize, shape, dtype, lender, stream, not is_constant)
    made: DeviceArray = np.asarray(owner).view(DeviceArray)
    made.fetch = fetch
    return made


def interface_of(array: np.ndarray, stream: int) -> dict[str, Any]:
    """Return the `__cuda_array_interface__` of an array of this backend, with the stream of its pending work."""
    strides = None if array.flags.c_contiguous else array.strides
    # In the interface, 0 does not name a stream.
    address = array.__array_interface__["data"][0]
    return {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (address, False),
        "strides": strides,
        "version": 3,
        "stream": stream or LEGACY[1],
    }


def lender_of(array: np.ndarray) -> BorrowedMemory | None:
    """Return the owner of an array's memory if the memory is borrowed from another library, else None."""
    found = owners.owner_of(array)
    return found if isinstance(found, BorrowedMemory) else None


@contextmanager
def ordered_with_lenders(device: CudaDevice, lenders: Iterable[BorrowedMemory]) -> Iterator[None]:
    """Order launches inside the `with` block after the earlier and before the later GPU work of the memory owners."""
    found = list(lenders)
    own = device.stream
    streams = {one.stream for one in found if one.stream is not None and not _is_same(one.stream, own)}
    for stream in streams:
        device.follow(own, stream)
    yield
    for stream in streams:
        device.follow(stream, own)
    for one in found:
        if one.stream is None:
            device.hold(one, one.bytes)


def _is_same(one: int, other: int) -> bool:
    """Return True if two handles refer to the same stream."""
    return one == other or (one in LEGACY and other in LEGACY)
