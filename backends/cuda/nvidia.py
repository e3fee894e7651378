"""This module defines `CudaDriver`, which wraps NVIDIA's driver by cuda.bindings. No other file uses CUDA's types.

Invariant: every call makes the context current in the calling thread first; see driver.py.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Sequence
from typing import Any

from .. import disk_cache
from ..base import Options
from .driver import CudaDeviceInfo, DriverError, KernelCall, LaunchGraph, NoCudaDevice
from .driver_table import ADDRESSES
from .ptx import assemble

_FORKED = "a GPU cannot be used in a process that was forked after it was opened: start processes by spawn"


class CudaDriver:
    """Represent NVIDIA's driver for one GPU, in its primary context, which other libraries of the process share."""

    def __init__(self, ordinal: int = 0) -> None:
        """Open the GPU with this number; raise Unavailable if it cannot be used."""
        self._cuda = _bindings()
        self.stream = 0
        self._process = os.getpid()
        try:
            self._open(ordinal)
        except DriverError as refused:
            cure = "install NVIDIA's driver, and see that `nvidia-smi` lists a GPU"
            raise NoCudaDevice(f"no GPU can be used: {refused.name}, {refused.text}", cure) from refused
        # The library of the driver is missing.
        except RuntimeError as missing:
            text = str(missing).splitlines()[0] if str(missing) else type(missing).__name__
            raise NoCudaDevice(f"there is no driver of NVIDIA: {text}", "install it, or run on sg.cpu") from missing

    def _open(self, ordinal: int) -> None:
        """Retain the primary context of the GPU and read the properties of the GPU."""
        cuda = self._cuda
        self._call("cuInit", 0)
        device = self._call("cuDeviceGet", ordinal)
        self._context = self._call("cuDevicePrimaryCtxRetain", device)
        self.attach()
        of = cuda.CUdevice_attribute
        asked = (
            of.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            of.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            of.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            of.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
        )
        major, minor, processors, l2 = (int(self._call("cuDeviceGetAttribute", one, device)) for one in asked)
        name = self._call("cuDeviceGetName", 256, device).split(b"\0")[0].decode()
        version = int(self._call("cuDriverGetVersion"))
        memory = int(self._call("cuDeviceTotalMem", device))
        shown = f"{version // 1000}.{version % 1000 // 10}"
        self.card = CudaDeviceInfo(name, (major, minor), processors, l2, memory, shown)
        self.entry_points = {name: self._address(name) for name in ADDRESSES.values()}

    def _address(self, name: str) -> int:
        """Return the address of the driver's function `name`."""
        return int(self._call("cuGetProcAddress", name.encode(), 12000, 0)[0])

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the driver and return its result, or a tuple of results; raise DriverError if it fails."""
        code, *results = getattr(self._cuda, name)(*arguments)
        if int(code):
            raise self._refusal(int(code), name)
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    def _refusal(self, code: int, call: str) -> DriverError:
        """Return the DriverError for the error code that the driver function `call` has returned."""
        return DriverError(code, *self.describe(code), call)

    def describe(self, code: int) -> tuple[str, str]:
        """Return (name, text) of an error code (CUresult) of NVIDIA's driver."""
        cuda = self._cuda
        try:
            result = cuda.CUresult(code)
        except ValueError:
            return "unknown", "an error that this version does not know"
        texts = (cuda.cuGetErrorName(result)[1], cuda.cuGetErrorString(result)[1])
        name, text = (t.decode() if isinstance(t, bytes) else str(t) for t in texts)
        return name, text if os.getpid() == self._process else f"{text}; {_FORKED}"

    @property
    def name(self) -> str:
        """Return the name of the GPU."""
        return self.card.name

    @property
    def capability(self) -> tuple[int, int]:
        """Return the compute capability, (9, 0) for sm_90."""
        return self.card.capability

    @property
    def multiprocessors(self) -> int:
        """Return the number of multiprocessors."""
        return self.card.multiprocessors

    @property
    def l2_bytes(self) -> int:
        """Return the bytes of the second-level cache."""
        return self.card.l2_bytes

    @property
    def memory_bytes(self) -> int:
        """Return the bytes of the GPU's memory."""
        return self.card.memory_bytes

    @property
    def context(self) -> int:
        """Return the handle of the primary context."""
        return int(self._context)

    def attach(self) -> None:
        """Make the context current in the calling thread."""
        # Other libraries may have changed the current context, so it is set each time.
        self._call("cuCtxSetCurrent", self._context)

    def _on(self, stream: int | None) -> int:
        """Attach the calling thread to the CUDA context, and return `stream`, or the current stream if it is None."""
        self.attach()
        return self.stream if stream is None else stream

    # -- code -----------------------------------------------------------------------------------------------

    def assemble(self, text: str, entries: Sequence[str], options: Options) -> bytes:
        """Compile LLVM IR to PTX that ends with a zero byte, or take the PTX from the cache on disk."""
        cache = disk_cache.active_cache()
        if cache is None:
            return _assemble(text, entries, self.architecture)
        key = disk_cache.entry_key("ptx", disk_cache.package_hash(), self.architecture, repr(tuple(entries)), text)
        found = cache.get(key)
        if found is None:
            found = _assemble(text, entries, self.architecture)
            cache.put(key, found)
        return found

    @property
    def architecture(self) -> str:
        """Return the architecture as LLVM names it: sm_90."""
        major, minor = self.card.capability
        return f"sm_{major}{minor}"

    def load(self, image: bytes) -> int:
        """Load PTX and return the handle of the module."""
        self.attach()
        return int(self._call("cuModuleLoadData", image))

    def unload(self, module: int) -> None:
        """Unload a module of GPU code, given its handle."""
        self.attach()
        self._call("cuModuleUnload", module)

    def function(self, module: int, name: str) -> int:
        """Return the handle of a function of a module."""
        self.attach()
        return int(self._call("cuModuleGetFunction", module, name.encode()))

    # -- memory ---------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes of device memory."""
        self.attach()
        return int(self._call("cuMemAlloc", max(size, 1)))

    def allocate_managed(self, size: int) -> int:
        """Return the address of `size` bytes of memory that host and device share."""
        self.attach()
        everyone = self._cuda.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL
        return int(self._call("cuMemAllocManaged", max(size, 1), int(everyone)))

    def allocate_pinned(self, size: int) -> int:
        """Return the address of `size` bytes of host memory that the GPU can write."""
        self.attach()
        flags = self._cuda.CU_MEMHOSTALLOC_PORTABLE | self._cuda.CU_MEMHOSTALLOC_DEVICEMAP
        return int(self._call("cuMemHostAlloc", max(size, 1), int(flags)))

    def free(self, address: int) -> None:
        """Free device memory that `allocate` or `allocate_managed` has returned."""
        self.attach()
        self._call("cuMemFree", address)

    def free_pinned(self, address: int) -> None:
        """Free host memory that `allocate_pinned` has returned."""
        self.attach()
        self._call("cuMemFreeHost", address)

    def free_memory(self) -> tuple[int, int]:
        """Return the number of free bytes and the number of all bytes of the GPU's memory."""
        self.attach()
        free, total = self._call("cuMemGetInfo")
        return int(free), int(total)

    def copy_in(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Copy from the host to the device, after the work of the stream."""
        if size:
            self._call("cuMemcpyHtoDAsync", to, source, size, self._on(stream))

    def copy_out(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Copy from the device to the host, after the work of the stream, and wait."""
        if size:
            own = self._on(stream)
            self._call("cuMemcpyDtoHAsync", to, source, size, own)
            self._call("cuStreamSynchronize", own)

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Copy from the device to the device, after the work of the stream."""
        if size:
            self._call("cuMemcpyDtoDAsync", to, source, size, self._on(stream))

    def fill(self, address: int, item: int, width: int, count: int, stream: int | None = None) -> None:
        """Write an item of `width` bytes `count` times to device memory, after the work of the stream."""
        if count:
            self._call(f"cuMemsetD{8 * width}Async", address, item, count, self._on(stream))

    def zero(self, address: int, size: int, stream: int | None = None) -> None:
        """Set device memory to zero, after the work of the stream."""
        self.fill(address, 0, 1, size, stream)

    # -- streams, events, graphs ----------------------------------------------------------------------------

    def new_stream(self) -> int:
        """Return a new stream."""
        self.attach()
        return int(self._call("cuStreamCreate", 0))

    def destroy_stream(self, stream: int) -> None:
        """Destroy a CUDA stream, given its handle."""
        self.attach()
        self._call("cuStreamDestroy", stream)

    def wait(self, stream: int | None = None) -> None:
        """Wait for the work queued on a stream, by default on the current stream."""
        self._call("cuStreamSynchronize", self._on(stream))

    def wait_all(self) -> None:
        """Wait for the work of all streams of the context."""
        self.attach()
        self._call("cuCtxSynchronize")

    def new_event(self) -> int:
        """Return the handle of a new CUDA event."""
        self.attach()
        return int(self._call("cuEventCreate", 0))

    def destroy_event(self, event: int) -> None:
        """Destroy a CUDA event, given its handle."""
        self.attach()
        self._call("cuEventDestroy", event)

    def record(self, event: int, stream: int | None = None) -> None:
        """Record an event on a stream: it occurs when all work that the stream has so far is done."""
        self._call("cuEventRecord", event, self._on(stream))

    def wait_event(self, event: int, stream: int | None = None) -> None:
        """Make later work of the stream wait for an event."""
        self._call("cuStreamWaitEvent", self._on(stream), event, 0)

    def elapsed(self, first: int, last: int) -> float:
        """Return the milliseconds between two events, after waiting until the later one has occurred."""
        self.attach()
        self._call("cuEventSynchronize", last)
        return float(self._call("cuEventElapsedTime", first, last))

    def begin_capture(self, stream: int) -> None:
        """Start to record what this thread launches on a stream as a graph, instead of running it."""
        mode = self._cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call("cuStreamBeginCapture", self._on(stream), mode)

    def end_capture(self, stream: int) -> int:
        """End the recording on a stream, and return the recorded launches as an instantiated graph."""
        graph = self._call("cuStreamEndCapture", self._on(stream))
        try:
            return int(self._call("cuGraphInstantiate", graph, 0))
        finally:
            self._call("cuGraphDestroy", graph)

    def launch_graph(self, graph: int, stream: int | None = None) -> None:
        """Launch a graph on a stream."""
        self._call("cuGraphLaunch", graph, self._on(stream))

    def destroy_graph(self, graph: int) -> None:
        """Destroy an instantiated graph."""
        self.attach()
        self._call("cuGraphExecDestroy", graph)

    def instantiate(self, clear: tuple[int, int] | None, calls: Sequence[KernelCall], parameter: int) -> LaunchGraph:
        """Return a CUDA graph of successive launches, with the handles of its nodes."""
        self.attach()
        graph = self._call("cuGraphCreate", 0)
        try:
            nodes = self._nodes(graph, clear, calls, parameter)
            return LaunchGraph(int(graph), int(self._call("cuGraphInstantiate", graph, 0)), nodes)
        except BaseException:
            self._call("cuGraphDestroy", graph)
            raise

    def _nodes(
        self, graph: Any, clear: tuple[int, int] | None, calls: Sequence[KernelCall], parameter: int
    ) -> tuple[int, ...]:
        """Add nodes to a CUDA graph, each after the previous one; return the handles of the kernel nodes."""
        cuda, nodes = self._cuda, []
        before: list[Any] = []
        if clear is not None:
            memset = cuda.CUDA_MEMSET_NODE_PARAMS()
            memset.dst, memset.width = clear
            memset.value, memset.elementSize, memset.height = 0, 1, 1
            before = [self._call("cuGraphAddMemsetNode", graph, before, 0, memset, self._context)]
        given = ctypes.c_void_p(parameter)
        for call in calls:
            kernel = cuda.CUDA_KERNEL_NODE_PARAMS()
            kernel.func, kernel.kernelParams = cuda.CUfunction(call.function), ctypes.addressof(given)
            kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ = call.blocks, 1, 1
            kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ = call.threads, 1, 1
            before = [self._call("cuGraphAddKernelNode", graph, before, len(before), kernel)]
            nodes.append(int(before[0]))
        return tuple(nodes)

    def discard(self, instance: LaunchGraph) -> None:
        """Destroy a graph and its instance."""
        self.attach()
        self._call("cuGraphExecDestroy", instance.executable)
        self._call("cuGraphDestroy", instance.graph)


def _bindings() -> Any:
    """Return the module cuda.bindings.driver; raise Unavailable if it is not installed."""
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as missing:
        reason = f"cuda.bindings is not installed ({missing})"
        raise NoCudaDevice(reason, "pip install 'stackgrad[cuda]'") from missing


def _assemble(text: str, entries: Sequence[str], architecture: str) -> bytes:
    """Return the PTX of LLVM IR, with a zero byte at the end."""
    return assemble(text, entries, architecture).encode() + b"\0"
