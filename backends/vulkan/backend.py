"""VulkanBackend: compiles kernels to SPIR-V, makes pipelines of them, and launches them one at a time.

A launch is synchronous: arrays are copied to the device, the shaders of all tasks run in one submission, and what the
kernel writes is copied back. Errors are raised by the launch itself, with the content that memory then has.
"""
from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from weakref import finalize

from ...compiler.errors import DeviceError, StackgradError, Unsupported
from ...compiler.ir.nodes import Kernel, Op, Stmt
from ...compiler.ir.printer import print_statement
from ...compiler.ir.walk import results, walk_task
from ..base import SLABS, Arrays, Draws, Flight, Options, Probe, Scalars, Sizes
from ..cpu.block import Block
from ..cpu.report import exception
from ..llvm.layout import written
from ..llvm.stack_sizes import capacity
from ..spirv.emit import Features
from ..spirv.shaders import LOCAL_SIZE, PROBE, Shaders, generate
from . import stacks
from .counts import iterations
from .device import Absent, Device
from .memory import Buffer, Heap, Pool
from .staging import Staging
from .submission import Dispatch, Submission

MASK = "STACKGRAD_VULKAN_MASK"
"""Names of features, with commas between."""

GROUPS = {True: 32, False: 1024}
"""Most groups of a task, by whether the device is a CPU: 1,024 groups of 64 threads fill any GPU."""

CAPABILITIES = {"Float64": "float64", "Int8": "int8", "Int16": "int16", "Int64Atomics": "int64_atomics",
                "StorageBuffer8BitAccess": "int8", "StorageBuffer16BitAccess": "int16"}  # fmt: skip
"""The feature of a device that lets a module declare a capability."""


_LOOPS = (
    "kernel {}, task {}: the results are void, because this driver (llvmpipe) leaves the loops of a shader after "
    "65,535 trips in all; cure: fewer steps of the loop per launch, or the cpu backend"
)


def most_threads(device: Device) -> int:
    """Of a task."""
    return GROUPS[device.card.is_cpu] * LOCAL_SIZE


_TYPES = {"Float64": ("f64",), "Int8": ("i8", "u8", "u1"), "Int16": ("i16", "u16", "f16")}
_WIDE = ("sin", "cos", "tan", "pow", "mod")
"""Operations on f32 that compute in f64, some for some arguments alone."""


def _needs(stmt: Stmt, capability: str) -> bool:
    """Whether a statement makes a value for which a module declares the capability."""
    types = _TYPES.get(capability, ())
    if isinstance(stmt, Op) and capability == "Float64" and stmt.op in _WIDE and stmt.result.type.is_real:
        return True
    return any(str(value.type) in types for value in results(stmt))


def _give_back(submission: Submission, pool: Pool, own: Buffer) -> None:
    """What an executable held."""
    submission.destroy()
    if submission.device.process == os.getpid():
        pool.give(own)


@dataclass
class VulkanExecutable:
    """A compiled kernel. growths: how often a launch made the adstack heap larger."""

    kernel: Kernel
    shaders: Shaders
    device: Device
    pool: Pool
    heap: Heap
    growths: int = 0
    _written: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self._written = written(self.shaders.kernel)
        self._block = Block(self.shaders.layout, self.kernel.name, self._written)
        entries = [name for name, _ in self.shaders.entries]
        self._submission = Submission(self.device, *self.device.pipelines(self.shaders.code, entries))
        size, tail = self.shaders.layout.size, self.shaders.tail
        self._own = self.pool.take(size + len(tail))
        self._own.view[size : size + len(tail)] = tail
        finalize(self, _give_back, self._submission, self.pool, self._own).atexit = False

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Execute once, arrays in place.

        Raises KernelTypeError for arguments that do not fit and DeviceError for memory that cannot be had, both before
        anything runs; OutOfBounds, KernelAssertionError, DivisionByZero and AdstackOverflow afterwards.
        """
        layout, block = self.shaders.layout, self._block
        with self.device.lock:
            if layout.temps:
                begin = layout.temps_at
                block.view[begin : begin + 8 * len(layout.temps)] = bytes(8 * len(layout.temps))
            block.bind(arrays, scalars, draws)
            block.put(layout.request_at, PROBE)
            threads = self._threads(arrays, scalars)
            if layout.stacks:
                threads = self._place_stacks(block, sizes, threads)
            self._run_staged(Staging(self.pool, {name: arrays[name] for name in layout.arrays}), threads)
            if block.word(layout.error_at):
                raise self._error(block, sizes)

    def _run_staged(self, staged: Staging, threads: dict[int, int]) -> None:
        layout, block, own = self.shaders.layout, self._block, self._own
        try:
            for name, array in layout.arrays.items():
                block.put(array.address_at, staged.address(name))
            staged.copy_in()
            own.view[: layout.size] = block.view
            self._submission.run(own.address, self._dispatches(threads))
            block.view[:] = own.view[: layout.size]
            for name in layout.arrays:
                if name in self._written:
                    staged.copy_out(name)
        finally:
            staged.release()

    def _threads(self, arrays: Arrays, scalars: Scalars) -> dict[int, int]:
        """Threads of each parallel task: whole groups, for the iterations it has, as far as they are known."""
        found, most = {}, most_threads(self.device)
        for index, task in enumerate(self.shaders.kernel.tasks):
            if task.is_parallel:
                count = iterations(task, arrays, scalars)
                found[index] = most if count is None else min(most, -(-count // LOCAL_SIZE) * LOCAL_SIZE)
        return found

    def _place_stacks(self, block: Block, sizes: Sizes, threads: dict[int, int]) -> dict[int, int]:
        """Reserve memory and write places into the block; gives threads, of which rows may allow fewer."""
        layout = self.shaders.layout
        rows = {task: threads.get(task, 1) for task, _ in layout.rows}
        found, grew = stacks.reserve(self.shaders.kernel, layout, sizes, rows, self.heap)
        self.growths += grew
        for at, word in (*found.words, *stacks.slab_words(layout, self.heap.base)):
            block.put(at, word)
        return threads | {task: k for task, k in found.threads.items() if task in threads}

    def _dispatches(self, threads: dict[int, int]) -> list[Dispatch]:
        """Entries and groups, without tasks that have no iterations."""
        groups = ((name, 1 if task is None else threads[task] // LOCAL_SIZE) for name, task in self.shaders.entries)
        return [(name, count) for name, count in groups if count]

    def _error(self, block: Block, sizes: Sizes) -> StackgradError:
        record = block.take_error()
        if self.shaders.sites[record[0]].kind == "loops":
            return DeviceError(_LOOPS.format(self.kernel.name, self.shaders.sites[record[0]].task))
        published = [(s, capacity(s, sizes)) for s in self.shaders.layout.stacks]
        return exception(self.shaders.kernel, self.shaders.sites, record, published)


class VulkanBackend:
    """Kernels on a Vulkan device.

    masked: features that are not used even where the device has them, so that each way around one runs on any machine;
    None for those that the variable MASK names.
    """

    name = "vulkan"

    def __init__(self, masked: tuple[str, ...] | None = None) -> None:
        given = os.environ.get(MASK, "") if masked is None else ",".join(masked)
        self.masked = tuple(name.strip() for name in given.split(",") if name.strip())
        self._lock = threading.Lock()
        self._device: Device | None = None
        self._pool: Pool | None = None
        self._heap: Heap | None = None

    @property
    def device(self) -> Device:
        """The device, opened when it is first asked for, anew in a forked process. Absent, DeviceError, ImportError."""
        with self._lock:
            if self._device is None or self._device.process != os.getpid():
                device = Device()
                self._pool, self._heap, self._device = Pool(device), Heap(device), device
            return self._device

    def probe(self) -> Probe:
        """Available where a device opens that has buffer addresses and 64-bit integers."""
        try:
            card = self.device.card
        except ImportError:
            return Probe(False, reason="the Python package `vulkan` is missing", cure="pip install vulkan")
        except Absent as absent:
            reason, cure = absent.args
            return Probe(False, reason=reason, cure=cure)
        except (StackgradError, OSError) as problem:
            return Probe(False, reason=f"no Vulkan device opens: {problem}", cure="use the cpu backend")
        return Probe(True, version=f"Vulkan {card.version}, {card.name}")

    @property
    def features(self) -> Features:
        """What the generator may use."""
        found = self.device.card.features
        unknown = [name for name in self.masked if name not in vars(found)]
        if unknown:
            raise DeviceError(f"there is no feature {unknown[0]!r} to mask; there are: {', '.join(vars(found))}")
        masked = {name: () if name == "modes" else False for name in self.masked}
        return Features(**{**vars(found), **masked})

    def compile(self, kernel: Kernel, options: Options) -> VulkanExecutable:
        """Generate SPIR-V and make pipelines. Raises Unsupported for declared limits and for what the device lacks."""
        device, features = self.device, self.features
        assert self._pool is not None and self._heap is not None
        shaders = generate(kernel, options, features)
        lacking = [c for c in shaders.capabilities if c in CAPABILITIES and not getattr(features, CAPABILITIES[c])]
        if lacking:
            raise self._refused(kernel, lacking)
        return VulkanExecutable(kernel, shaders, device, self._pool, self._heap)

    def _refused(self, kernel: Kernel, lacking: list[str]) -> Unsupported:
        """At the first statement that makes what the device cannot hold."""
        statements = (s for task in kernel.tasks for s in walk_task(task))
        found = next((s for s in statements if any(_needs(s, c) for c in lacking)), None)
        reason = f"kernel {kernel.name}: {self.device.card.name} has no {', no '.join(lacking)}"
        if found is not None:
            reason += f", which `{print_statement(found).splitlines()[0]}` needs"
        return Unsupported(reason, "use types and functions that the device has, or the cpu backend",
                           None if found is None else kernel.span(found.loc))  # fmt: skip

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Flight:
        """A row for each thread; fewer where the number of iterations is known when it is launched."""
        parallel = kernel.tasks[task].is_parallel
        return Flight(most_threads(self.device) if parallel else 1)

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Adstack memory by slab: bytes held now, and the most since the last reset."""
        if self._heap is None:
            return {slab: {"current": 0, "peak": 0} for slab in SLABS}
        return self._heap.report()

    def reset(self) -> None:
        """Give all adstack memory and idle buffers back."""
        if self._device is not None and self._heap is not None and self._pool is not None:
            with self._device.lock:
                self._heap.reset()
                self._pool.clear()
