"""This module provides CUDA driver functions to machine code, as C callbacks: launch, fill, events and graphs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

from ....backends.cuda.driver import DriverError
from ....backends.cuda.driver_table import ADDRESSES
from .translate import EmulatedEntry

_INT, _PTR, _U32 = ctypes.c_int, ctypes.c_void_p, ctypes.c_uint
_FORMS = {
    "cuLaunchKernel": (_PTR, *[_U32] * 7, _PTR, _PTR, _PTR),
    "cuMemsetD8Async": (ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, _PTR),
    "cuEventRecord": (_PTR, _PTR),
    "cuGraphLaunch": (_PTR, _PTR),
    "cuGraphExecKernelNodeSetParams": (_PTR, _PTR, _PTR),
    "cuStreamIsCapturing": (_PTR, _PTR),
    "cuCtxGetCurrent": (_PTR,),
}
"""Types of the parameters by name of the function; all functions return an error code."""

_INVALID, _UNKNOWN = 1, 999


class KernelNode(ctypes.Structure):
    """Represent the C structure CUDA_KERNEL_NODE_PARAMS in its second version."""

    _fields_ = [
        ("function", _PTR),
        ("grid", _U32 * 3),
        ("block", _U32 * 3),
        ("shared", _U32),
        ("given", _PTR),
        ("extra", _PTR),
        ("kernel", _PTR),
        ("context", _PTR),
    ]


class DriverActions(Protocol):
    """This protocol lists the driver actions that the C callbacks call."""

    def launch(self, function: int, blocks: int, threads: int, parameters: bytes, stream: int) -> None:
        """Queue a launch of a kernel; its parameters are packed as `EmulatedEntry` describes."""

    def fill(self, address: int, item: int, width: int, count: int, stream: int) -> None:
        """Queue a fill of memory at an address with an item of `width` bytes, `count` times."""

    def record(self, event: int, stream: int) -> None:
        """Record an event after all work queued on the stream."""

    def launch_graph(self, graph: int, stream: int) -> None:
        """Launch a recorded or instantiated CUDA graph on a stream."""

    def set_node(self, graph: int, node: int, function: int, blocks: int, threads: int, parameters: bytes) -> None:
        """Replace the launch of a graph node by another launch of the same kernel."""

    def is_capturing(self, stream: int) -> bool:
        """Return True if work queued on the stream is being recorded into a graph."""

    @property
    def current(self) -> int:
        """Return the handle of the current CUDA context."""


class DriverFunctions:
    """A `DriverFunctions` holds C functions with the interface of the CUDA driver, and their addresses.

    Attributes:
        addresses: the addresses of the functions by name.
        failure: the exception of a callback that is no error of the driver, or None.
    """

    def __init__(self, calls: DriverActions, entry: Callable[[int], EmulatedEntry]) -> None:
        """Make the C functions; `entry` returns the entry point that a function handle stands for."""
        self._calls, self._entry = calls, entry
        does: dict[str, Callable[..., int]] = {
            "cuLaunchKernel": self._on_launch,
            "cuMemsetD8Async": self._on_fill,
            "cuEventRecord": self._on_record,
            "cuGraphLaunch": self._on_launch_graph,
            "cuGraphExecKernelNodeSetParams": self._on_set_node,
            "cuStreamIsCapturing": self._on_is_capturing,
            "cuCtxGetCurrent": self._on_get_context,
        }
        self._functions = {name: ctypes.CFUNCTYPE(_INT, *_FORMS[name])(does[name]) for name in ADDRESSES.values()}
        self.addresses = {name: ctypes.cast(f, _PTR).value or 0 for name, f in self._functions.items()}
        self.failure: BaseException | None = None

    def _code_of(self, call: Callable[[], None]) -> int:
        try:
            call()
        except DriverError as refused:
            return refused.code
        # An exception cannot pass through machine code, so it is kept for the host.
        except BaseException as error:
            self.failure = error
            return _UNKNOWN
        return 0

    def _on_launch(
        self,
        function: int | None,
        gx: int,
        gy: int,
        gz: int,
        bx: int,
        by: int,
        bz: int,
        shared: int,
        stream: int | None,
        given: int | None,
        extra: int | None,
    ) -> int:
        """Queue a launch of a kernel, whose parameters are read before the call returns.

        Entries of this backend have one axis and no shared memory of a size given at the launch.
        """
        if (gy, gz, by, bz, shared, extra) != (1, 1, 1, 1, 0, None):
            return _INVALID
        return self._code_of(
            lambda: self._calls.launch(function or 0, gx, bx, self.packed(function or 0, given), stream or 0)
        )

    def packed(self, function: int, given: int | None) -> bytes:
        """Return the parameters of a launch packed in one buffer; `given` points to an array of parameter pointers."""
        entry = self._entry(function)
        packed = bytearray(entry.bytes)
        if entry.parameters:
            if not given:
                raise DriverError(_INVALID, "CUDA_ERROR_INVALID_VALUE", "no parameters", "cuLaunchKernel")
            places = (ctypes.c_void_p * len(entry.parameters)).from_address(given)
            for parameter, place in zip(entry.parameters, places, strict=True):
                packed[parameter.at : parameter.at + parameter.bytes] = ctypes.string_at(place or 0, parameter.bytes)
        return bytes(packed)

    def _on_fill(self, address: int, item: int, count: int, stream: int | None) -> int:
        return self._code_of(lambda: self._calls.fill(address, item, 1, count, stream or 0))

    def _on_record(self, event: int | None, stream: int | None) -> int:
        return self._code_of(lambda: self._calls.record(event or 0, stream or 0))

    def _on_launch_graph(self, graph: int | None, stream: int | None) -> int:
        return self._code_of(lambda: self._calls.launch_graph(graph or 0, stream or 0))

    def _on_set_node(self, graph: int | None, node: int | None, given: int) -> int:
        """Replace the launch of a graph node. Refuse launches of several axes or with dynamic shared memory."""
        of = KernelNode.from_address(given)
        (gx, *grid), (bx, *block) = of.grid, of.block
        if (grid, block, of.shared, of.extra, of.kernel, of.context) != ([1, 1], [1, 1], 0, None, None, None):
            return _INVALID

        def set_node() -> None:
            function = of.function or 0
            self._calls.set_node(graph or 0, node or 0, function, gx, bx, self.packed(function, of.given))

        return self._code_of(set_node)

    def _on_get_context(self, to: Any) -> int:
        ctypes.c_uint64.from_address(to).value = self._calls.current
        return 0

    def _on_is_capturing(self, stream: int | None, status: Any) -> int:
        def tell() -> None:
            ctypes.c_int.from_address(status).value = self._calls.is_capturing(stream or 0)

        return self._code_of(tell)
