"""This module emulates the CUDA driver and its GPU on the CPU, with stricter checks than a device has.

* Launches, fills and copies are queued and run when the host waits for them: a missing wait shows as old data. Reads of
  managed memory by the host while something is queued are counted (`unawaited`).
* An access outside of all allocations is an error that names address, thread and the nearest allocation.
* Memory is garbage at first and is never given out twice, and memory that is not freed is listed (`leaks`).
* Threads of a grid run one after another, each as a warp and a block of its own, on request in descending order. Or
  they form blocks and warps, and wait for each other (fibers.py).
* Grids and blocks without threads, too many parameters, and entries that write their parameters are refused.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....backends.base import Options
from ....backends.cuda.driver import CudaDeviceInfo, KernelCall, LaunchGraph
from ....backends.llvm.optimize import InvalidLLVMError
from . import checks
from .checks import Untranslatable
from .code import LoadedFunction, LoadedModule, image_of
from .fibers import FiberDeadlock, fibers, thread_of
from .findings import KINDS, Leak, Race
from .memory import DriverMemory
from .native import DriverFunctions
from .refusals import NAMES, refusal
from .translate import EmulatedEntry
from .work import PendingWork

CARD = CudaDeviceInfo("emulated", (9, 0), 132, 50 << 20, 8 << 30, "12.4")
"""The emulated card: an H100 with less memory."""

_MOST_THREADS, _MOST_BLOCKS = 1024, 2**31 - 1
_CONTEXT = 0x1000


@dataclass
class EmulatedGraph:
    """An `EmulatedGraph` is an instantiated CUDA graph: a memory range to clear and the launches of its nodes.

    Attributes:
        clear: the memory to clear first, see `Driver.instantiate`.
        nodes: function, blocks, threads and parameters by node.
    """

    clear: tuple[int, int] | None
    nodes: dict[int, tuple[int, int, int, bytes]] = field(default_factory=dict)


class EmulatedDriver(PendingWork):
    """Represent a CUDA driver and its GPU, both emulated on the CPU.

    Attributes:
        counts: the number of calls by name.
        launches: name, blocks and threads of each launch asked for.
        races: the races of launches that ran, see checks.py.
    """

    def __init__(
        self,
        card: CudaDeviceInfo = CARD,
        backward: bool = False,
        most: int = 0,
        strict: bool = True,
        effort: int = 0,
        blocks: bool = False,
    ) -> None:
        """Create a device that has no allocations and no loaded modules.

        Args:
            card: the properties of the device.
            backward: run the last thread of a grid first.
            most: the largest number of threads of a grid, so that each thread runs several iterations; 0 for no limit.
            strict: treat a race as an error.
            effort: the optimization level of LLVM.
            blocks: put threads in blocks and warps.
        """
        super().__init__()
        self.card, self.backward, self.most = card, backward, most
        self.current = _CONTEXT
        self.launches: list[tuple[str, int, int]] = []
        self.strict, self._effort = strict, effort
        self._room = fibers() if blocks else None
        self._report = array("Q", [0] * checks.WORDS)
        self.memory = DriverMemory(self._words.buffer_info()[0])
        arena = self.memory.arena
        self._places = checks.CheckPlaces(self.memory.head, self._report, arena.low, arena.bytes, arena.shadow)
        self.races: list[Race] = []
        self._modules: dict[int, LoadedModule] = {}
        self._functions: dict[int, tuple[int, LoadedFunction]] = {}
        self._native = DriverFunctions(self, self._entry_of)
        self._instances: dict[int, EmulatedGraph] = {}
        self.entry_points: Mapping[str, int] = self._native.addresses

    # -- what it is -------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Return the name of the emulated GPU."""
        return self.card.name

    @property
    def has_blocks(self) -> bool:
        """Return True if threads form blocks and warps, and can wait for each other."""
        return self._room is not None

    @property
    def capability(self) -> tuple[int, int]:
        """Return the compute capability of the emulated GPU."""
        return self.card.capability

    @property
    def multiprocessors(self) -> int:
        """Return the number of multiprocessors of the emulated GPU."""
        return self.card.multiprocessors

    @property
    def l2_bytes(self) -> int:
        """Return the size of the L2 cache of the emulated GPU in bytes."""
        return self.card.l2_bytes

    @property
    def memory_bytes(self) -> int:
        """Return the size of the device memory in bytes."""
        return self.card.memory_bytes

    @property
    def early(self) -> int:
        """Return the most threads of a block that had ended when the other threads met at a barrier."""
        return max((module.early for module in self._modules.values()), default=0)

    def leaks(self) -> list[Leak]:
        """Return all allocations that have not been freed."""
        return [Leak(b.size, b.kind, b.asked) for b in self.memory.blocks.values()]

    @property
    def context(self) -> int:
        """Return the handle of the only context of the driver."""
        return _CONTEXT

    def attach(self) -> None:
        """Make the emulated CUDA context the current one."""
        self.current = _CONTEXT

    def describe(self, code: int) -> tuple[str, str]:
        """Return the name and the text of an error code; the text includes an exception raised under a native call."""
        name, text = NAMES.get(code, NAMES[999])
        failure = self._native.failure
        return name, f"{text}: {failure!r}" if code == 999 and failure else text

    # -- code -------------------------------------------------------------------------------------------------

    def assemble(self, text: str, entries: Sequence[str], options: Options) -> bytes:
        """Return the image of a module, which consists of its LLVM code."""
        return image_of(text, entries)

    def load(self, image: bytes) -> int:
        """Compile and load an image for the CPU, and return the handle of the module."""
        self.counts["load"] += 1
        try:
            module = LoadedModule(image, self._places, self._effort, self._room)
        except (Untranslatable, InvalidLLVMError) as error:
            raise refusal(218, "cuModuleLoadData", str(error)) from error
        handle = next(self._handles)
        self._modules[handle] = module
        return handle

    def unload(self, module: int) -> None:
        """Unload a module with its entry points, after all queued work has run."""
        self._module(module, "cuModuleUnload")
        self.wait_all()
        del self._modules[module]
        for handle in [h for h, (owner, _) in self._functions.items() if owner == module]:
            del self._functions[handle]

    def _module(self, module: int, call: str) -> LoadedModule:
        if module not in self._modules:
            raise refusal(400, call, f"module {module}")
        return self._modules[module]

    def function(self, module: int, name: str) -> int:
        """Return the handle of an entry point of a module."""
        functions = self._module(module, "cuModuleGetFunction").functions
        if name not in functions:
            raise refusal(500, "cuModuleGetFunction", f"{name}; there are {', '.join(functions)}")
        handle = next(self._handles)
        self._functions[handle] = module, functions[name]
        return handle

    # -- memory -----------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        """Allocate device memory and return its address."""
        free, total = self.free_memory()
        if size > free:
            raise refusal(2, "cuMemAlloc", f"{size} bytes of {free} that are free, of {total}")
        return self._allocate(size, "device", "cuMemAlloc")

    def allocate_managed(self, size: int) -> int:
        """Allocate managed memory and return its address."""
        return self._allocate(size, "managed", "cuMemAllocManaged")

    def allocate_pinned(self, size: int) -> int:
        """Allocate pinned memory and return its address."""
        return self._allocate(size, "pinned", "cuMemHostAlloc")

    def _allocate(self, size: int, kind: str, call: str) -> int:
        self.counts[f"allocate {kind}"] += 1
        with self._lock:
            try:
                return self.memory.allocate(size, kind)
            except MemoryError:
                raise refusal(2, call, f"{size} bytes") from None

    def free(self, address: int) -> None:
        """Run everything that is queued, as the driver does, then free device or managed memory."""
        self._free(address, ("device", "managed"), "cuMemFree")

    def free_pinned(self, address: int) -> None:
        """Run everything that is queued, then free pinned memory."""
        self._free(address, ("pinned",), "cuMemFreeHost")

    def _free(self, address: int, kinds: tuple[str, ...], call: str) -> None:
        self.counts["free"] += 1
        with self._lock:
            # Queued work may still use the memory.
            self._finish(self._streams.run_all)
            try:
                self.memory.free(address, kinds)
            except KeyError:
                raise refusal(1, call, f"{address:#x} is {self.memory.near(address)}") from None

    def free_memory(self) -> tuple[int, int]:
        """Return the free and the total memory in bytes."""
        total = self.card.memory_bytes
        return max(total - self.memory.used("device", "managed"), 0), total

    # -- copies -----------------------------------------------------------------------------------------------

    def copy_in(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Queue a copy to the device; pageable memory is read now, pinned memory when the copy runs."""
        if not size:
            return
        self._within(to, size, "cuMemcpyHtoDAsync")
        with self._lock:
            # Pageable memory may change after the call, so it is read at once.
            taken: int | bytes = source
            if not self.memory.kind_at(source):
                self.wait(stream)
                taken = ctypes.string_at(source, size)
            self._queue("copy in", stream, lambda: _move(to, taken, size))

    def copy_out(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Queue a copy to the host and wait for it."""
        if size:
            self._within(source, size, "cuMemcpyDtoHAsync")
            with self._lock:
                self._queue("copy out", stream, lambda: _move(to, source, size))
                self.wait(stream)

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Queue a copy of bytes from device memory to device memory."""
        if size:
            self._within(to, size, "cuMemcpyDtoDAsync")
            self._within(source, size, "cuMemcpyDtoDAsync")
            self._queue("copy", stream, lambda: _move(to, source, size))

    def fill(self, address: int, item: int, width: int, count: int, stream: int | None = None) -> None:
        """Queue a fill of device memory with an item of `width` bytes, `count` times."""
        if not count:
            return
        self._within(address, width * count, f"cuMemsetD{8 * width}Async")
        pattern = item.to_bytes(width, "little") * count if width > 1 else b""
        work = (lambda: _move(address, pattern, len(pattern))) if pattern else (lambda: _set(address, item, count))
        self._queue("fill", stream, work)

    def zero(self, address: int, size: int, stream: int | None = None) -> None:
        """Queue a fill of device memory with zeros."""
        self.fill(address, 0, 1, size, stream)

    def _within(self, address: int, size: int, call: str) -> None:
        if not self.memory.holds(address, size):
            raise refusal(1, call, f"{size} bytes at {address:#x}, which is {self.memory.near(address)}")

    # -- launches -----------------------------------------------------------------------------------------------

    def _grid(self, function: LoadedFunction, parameters: bytes, blocks: int, threads: int) -> None:
        report, total = self._report, min(blocks * threads, self.most or _MOST_BLOCKS)
        width = threads if self._room else 1
        report[checks.OUTSIDE_THREAD] = report[checks.RACES] = 0
        # A new number of the launch makes the tags of earlier launches in shadow memory void.
        report[checks.EPOCH] += 1
        try:
            unwritten = function(parameters, max(total // width, 1), width, self.backward)
        except FiberDeadlock as error:
            raise refusal(719, "cuLaunchKernel", f"{function.entry.name}: {error}") from error
        if report[checks.OUTSIDE_THREAD]:
            address, size, thread = report[:3]
            where = f"{size} bytes at {address:#x}, which is {self.memory.near(address)}"
            detail = f"{function.entry.name}, thread {self._thread(thread, width) - 1} of {total}: {where}"
            raise refusal(700, "cuLaunchKernel", detail)
        if report[checks.RACES]:
            self._note_race(function.entry.name, width)
        if not unwritten:
            raise refusal(719, "cuLaunchKernel", f"{function.entry.name} has written its parameters")

    def _thread(self, tag: int, width: int) -> int:
        return thread_of(tag, width) if self._room else tag

    def _note_race(self, name: str, width: int) -> None:
        races, address, *tags, kind = self._report[checks.RACES : checks.WORDS]
        thread, other = (self._thread(tag, width) for tag in tags)
        race = Race(name, races, KINDS[kind], thread - 1, other - 1, self.memory.near(address))
        self.races.append(race)
        if self.strict:
            raise refusal(719, "cuLaunchKernel", str(race))

    def launch(self, function: int, blocks: int, threads: int, parameters: bytes, stream: int | None = None) -> None:
        """Queue a kernel launch; its parameters are packed in one buffer as `EmulatedEntry` describes."""
        if not (1 <= blocks <= _MOST_BLOCKS and 1 <= threads <= _MOST_THREADS):
            raise refusal(1, "cuLaunchKernel", f"{blocks} blocks of {threads} threads")
        self._entry_of(function)
        code = self._functions[function][1]
        self.launches.append((code.entry.name, blocks, threads))
        self._queue("launch", stream, lambda: self._grid(code, parameters, blocks, threads))

    # -- graphs of launches ------------------------------------------------------------------------------------

    def instantiate(self, clear: tuple[int, int] | None, calls: Sequence[KernelCall], parameter: int) -> LaunchGraph:
        """Return an instantiated graph of a sequence of launches, whose parameters are read immediately."""
        self.counts["instantiate"] += 1
        given = ctypes.c_void_p(parameter)
        made = EmulatedGraph(clear)
        for call in calls:
            packed = self._native.packed(call.function, ctypes.addressof(given))
            made.nodes[next(self._handles)] = (call.function, call.blocks, call.threads, packed)
        graph, executable = next(self._handles), next(self._handles)
        self._instances[executable] = made
        return LaunchGraph(graph, executable, tuple(made.nodes))

    def discard(self, instance: LaunchGraph) -> None:
        """Remove an instantiated graph that `instantiate` returned."""
        del self._instances[instance.executable]

    def set_node(self, graph: int, node: int, function: int, blocks: int, threads: int, parameters: bytes) -> None:
        """Replace the launch of a graph node by another launch of the same kernel."""
        held = self._instances[graph].nodes if graph in self._instances else {}
        if node not in held or held[node][0] != function:
            raise refusal(1, "cuGraphExecKernelNodeSetParams", f"node {node:#x} of {graph:#x}")
        held[node] = (function, blocks, threads, parameters)

    def launch_graph(self, graph: int, stream: int | None = None) -> None:
        """Queue the launches of a recorded or instantiated graph."""
        if graph not in self._instances:
            super().launch_graph(graph, stream)
            return
        if self.is_capturing(self.stream if stream is None else stream):
            raise refusal(900, "cuGraphLaunch")
        self.counts["launch instance"] += 1
        recorded = self._instances[graph]
        if recorded.clear is not None:
            self.zero(*recorded.clear, stream)
        for call in recorded.nodes.values():
            self.launch(*call, stream)

    def _entry_of(self, function: int) -> EmulatedEntry:
        if function not in self._functions:
            raise refusal(400, "cuLaunchKernel", f"function {function:#x}")
        return self._functions[function][1].entry


def _move(to: int, source: int | bytes, size: int) -> None:
    ctypes.memmove(to, source, size)


def _set(address: int, item: int, count: int) -> None:
    ctypes.memset(address, item, count)


__all__ = ["CARD", "EmulatedDriver", "Leak"]
