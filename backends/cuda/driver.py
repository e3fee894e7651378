"""This module defines `Driver`, the interface of a GPU and its driver; nvidia.py implements it for NVIDIA.

Everything in the interface is an integer: addresses, streams, modules, functions, graphs. Another driver may stand in
(one that runs kernels on the host, for machines without a GPU), so nothing above this file names a CUDA type.

Invariant: every call makes the context current in the calling thread first, so that any thread may call; native code,
which cannot, reports CONTEXT_ERRORS and is called again after `attach`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...compiler.errors import DeviceError
from ..base import Options

CONTEXT_ERRORS = (201, 3)
"""Codes of calls from a thread that has no context: invalid context, not initialized."""

NOTHING_LEFT = 2
"""Code of a request for more memory than there is."""

_LOST = "the GPU cannot be used by this process any longer"
HINTS: dict[int, str] = {
    700: f"{_LOST}; most often an index outside of an array: sg.init(debug=True) names it",
    715: _LOST,
    716: _LOST,
    717: _LOST,
    718: _LOST,
    719: _LOST,
}
"""Consequences of an error for the program, by code."""


class DriverError(DeviceError):
    """Signal that the driver refused a call.

    Attributes:
        code: Number of the CUresult.
        name: Name of the CUresult.
        text: Words of the driver.
        call: Function of the driver that was called.
    """

    def __init__(self, code: int, name: str, text: str, call: str = "") -> None:
        self.code, self.name, self.text, self.call = code, name, text, call
        where = f"{call}: " if call else ""
        hint = f"; {HINTS[code]}" if code in HINTS else ""
        super().__init__(f"the GPU's driver refuses: {where}{name} ({code}), {text}{hint}")


class NoCudaDevice(DeviceError):
    """Signal that there is no GPU that can be used; `reason` and `cure` are one line each."""

    def __init__(self, reason: str, cure: str) -> None:
        self.reason, self.cure = reason, cure
        super().__init__(f"{reason}; cure: {cure}")


@dataclass(frozen=True)
class CudaDeviceInfo:
    """Represent the properties of a GPU: name, compute capability, multiprocessors, sizes, driver version.

    Attributes:
        name: Name of the GPU.
        capability: Compute capability, (9, 0) for sm_90.
        multiprocessors: Number of multiprocessors.
        l2_bytes: Bytes of the second-level cache.
        memory_bytes: Bytes of all of its memory.
        driver_version: Version of CUDA that the driver supports.
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    l2_bytes: int
    memory_bytes: int
    driver_version: str = ""


@dataclass(frozen=True)
class KernelCall:
    """Represent a kernel launch in a CUDA graph: its function, its number of blocks, and threads per block."""

    function: int
    blocks: int
    threads: int


@dataclass(frozen=True)
class LaunchGraph:
    """Represent a CUDA graph that replays one launch: its handles and those of its nodes.

    Attributes:
        graph: Handle of the graph.
        executable: Handle of the instance that is launched.
        nodes: Handle of the node of each kernel launch.
    """

    graph: int
    executable: int
    nodes: tuple[int, ...]


class Driver(Protocol):
    """Define the interface of the driver of one GPU; all methods may raise DriverError.

    Copies from and to host memory that is not pinned are over when the call returns.

    Attributes:
        stream: Stream that calls without a stream argument use.
    """

    stream: int

    @property
    def card(self) -> CudaDeviceInfo:
        """Return the name, the compute capability, the sizes and the driver version of the GPU."""

    @property
    def name(self) -> str:
        """Return the name of the GPU."""

    @property
    def capability(self) -> tuple[int, int]:
        """Return the compute capability, (9, 0) for sm_90."""

    @property
    def multiprocessors(self) -> int:
        """Return the number of multiprocessors."""

    @property
    def l2_bytes(self) -> int:
        """Return the bytes of the second-level cache."""

    @property
    def memory_bytes(self) -> int:
        """Return the bytes of the GPU's memory."""

    @property
    def context(self) -> int:
        """Return the handle of the context that `attach` makes current."""

    @property
    def entry_points(self) -> Mapping[str, int]:
        """Return the addresses of the driver's functions that native code calls, by name."""

    def describe(self, code: int) -> tuple[str, str]:
        """Return (name, text) of the driver's error with this code, which native code received."""

    def attach(self) -> None:
        """Let the calling thread, and native code in it, use the GPU."""

    def assemble(self, text: str, entries: Sequence[str], options: Options) -> bytes:
        """Compile LLVM IR with these entry points to the code that `load` accepts, and return it."""

    def load(self, image: bytes) -> int:
        """Load code and return the handle of the module."""

    def unload(self, module: int) -> None:
        """Unload a module of GPU code, given its handle."""

    def function(self, module: int, name: str) -> int:
        """Return the handle of a function of a module."""

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes of device memory."""

    def allocate_managed(self, size: int) -> int:
        """Return the address of `size` bytes of memory that host and device share."""

    def allocate_pinned(self, size: int) -> int:
        """Allocate pinned host memory, which the GPU can write at the same address, and return this address."""

    def free(self, address: int) -> None:
        """Free device memory that `allocate` or `allocate_managed` has returned."""

    def free_pinned(self, address: int) -> None:
        """Free host memory that `allocate_pinned` has returned."""

    def free_memory(self) -> tuple[int, int]:
        """Return the number of free bytes and the number of all bytes of the GPU's memory."""

    def copy_in(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Copy from the host to the device, after the work of the stream."""

    def copy_out(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Copy from the device to the host, after the work of the stream; the copy is over when the call returns."""

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Copy memory from the device to the device; the call returns before the copy is done."""

    def fill(self, address: int, item: int, width: int, count: int, stream: int | None = None) -> None:
        """Write an item of 1, 2 or 4 bytes `count` times to device memory; the call returns before this is done."""

    def zero(self, address: int, size: int, stream: int | None = None) -> None:
        """Set device memory to zero; the call returns before this is done."""

    def new_stream(self) -> int:
        """Return a new stream."""

    def destroy_stream(self, stream: int) -> None:
        """Destroy a CUDA stream, given its handle."""

    def wait(self, stream: int | None = None) -> None:
        """Wait for the work queued on a stream, by default on the current stream."""

    def wait_all(self) -> None:
        """Wait for the work of all streams."""

    def new_event(self) -> int:
        """Return the handle of a new CUDA event."""

    def destroy_event(self, event: int) -> None:
        """Destroy a CUDA event, given its handle."""

    def record(self, event: int, stream: int | None = None) -> None:
        """Record an event on a stream: it occurs when all work that the stream has so far is done."""

    def wait_event(self, event: int, stream: int | None = None) -> None:
        """Make later work of the stream wait for the event; the host does not wait."""

    def elapsed(self, first: int, last: int) -> float:
        """Return the milliseconds between two events, after waiting until both have occurred."""

    def begin_capture(self, stream: int) -> None:
        """Start to record the launches on the stream as a graph instead of running them."""

    def end_capture(self, stream: int) -> int:
        """End the recording and return the graph, ready to be launched."""

    def launch_graph(self, graph: int, stream: int | None = None) -> None:
        """Launch a graph on a stream."""

    def destroy_graph(self, graph: int) -> None:
        """Destroy a CUDA graph that `end_capture` returned."""

    def instantiate(self, clear: tuple[int, int] | None, calls: Sequence[KernelCall], parameter: int) -> LaunchGraph:
        """Return a CUDA graph that runs the given kernel launches one after another.

        Args:
            clear: Address and bytes of memory that is set to zero before the launches; None for none.
            calls: The launches in order.
            parameter: Address of the one parameter that all of them take.
        """

    def discard(self, instance: LaunchGraph) -> None:
        """Destroy a graph that `instantiate` returned and that is launched no more."""
