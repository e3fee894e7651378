"""cuLaunchKernel, cuMemsetD8Async and cuEventRecord as functions of C, for machine code that calls the driver."""
from __future__ import annotations

import ctypes
from collections.abc import Callable

from ...backends.cuda.driver import LAUNCH_KERNEL, MEMSET, RECORD, DriverError
from .translate import Entry

_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)
_RECORD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_MEMSET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p)

_INVALID, _UNKNOWN = 1, 999


class EntryPoints:
    """addresses: by name. failure: what a call back raised that is no refusal of the driver, else None."""

    def __init__(
        self,
        launch: Callable[[int, int, int, bytes, int], None],
        fill: Callable[[int, int, int, int, int], None],
        record: Callable[[int, int], None],
        entry: Callable[[int], Entry],
    ) -> None:
        """launch: (function, blocks, threads, parameters, stream). fill: (address, item, width, count, stream).
        record: (event, stream).
        """
        self._launch, self._fill, self._record, self._entry = launch, fill, record, entry
        self._functions = _LAUNCH(self._on_launch), _MEMSET(self._on_fill), _RECORD(self._on_record)
        found = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._functions)
        self.addresses = dict(zip((LAUNCH_KERNEL, MEMSET, RECORD), found, strict=True))
        self.failure: BaseException | None = None

    def _code_of(self, call: Callable[[], None]) -> int:
        try:
            call()
        except DriverError as refused:
            return refused.code
        except BaseException as error:
            self.failure = error
            return _UNKNOWN
        return 0

    def _on_launch(
        self, function: int | None, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int,
        stream: int | None, given: int | None, extra: int | None,
    ) -> int:  # fmt: skip
        """Parameters are read before it returns. Entries of ours have one axis and no memory of a size given here."""
        if (gy, gz, by, bz, shared, extra) != (1, 1, 1, 1, 0, None):
            return _INVALID
        return self._code_of(
            lambda: self._launch(function or 0, gx, bx, self._packed(function or 0, given), stream or 0)
        )

    def _packed(self, function: int, given: int | None) -> bytes:
        entry = self._entry(function)
        packed = bytearray(entry.bytes)
        if entry.parameters:
            if not given:
                raise DriverError(_INVALID, "CUDA_ERROR_INVALID_VALUE", "no parameters", LAUNCH_KERNEL)
            places = (ctypes.c_void_p * len(entry.parameters)).from_address(given)
            for parameter, place in zip(entry.parameters, places, strict=True):
                packed[parameter.at : parameter.at + parameter.bytes] = ctypes.string_at(place or 0, parameter.bytes)
        return bytes(packed)

    def _on_fill(self, address: int, item: int, count: int, stream: int | None) -> int:
        return self._code_of(lambda: self._fill(address, item, 1, count, stream or 0))

    def _on_record(self, event: int | None, stream: int | None) -> int:
        return self._code_of(lambda: self._record(event or 0, stream or 0))
