"""This module defines the executable of a kernel on an NVIDIA GPU: device code, host code, and argument blocks."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from ...compiler.errors import Unsupported
from ..base import Arrays, Scalars, Sizes
from ..device import policy, stacks
from ..device.error_reader import ErrorReader
from ..device.executable import DeviceExecutable, Seconds
from ..device.heap import DeviceHeap
from ..llvm.errors import FAILED
from .block import BlockState, CudaBlock
from .borrowed import ordered_with_lenders
from .code import DeviceCode
from .device import CudaDevice
from .driver import CONTEXT_ERRORS, Driver, DriverError
from .graph_replay import WANTED, launch_order
from .host_code import host_code
from .memory import Buffers
from .task_times import task_events

_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)

WIDTH = 128
"""Threads of a block."""


@dataclass
class LoadedKernel:
    """Represent the data of an executable on the device: loaded code, error record, memory of argument blocks.

    Attributes:
        module: Handle of its code.
        record: Address of its error record.
        printer: Its number for prints, 0 if it prints nothing.
        owned: Memory and CUDA graphs of its argument blocks on the device.
    """

    module: int
    record: int
    printer: int = 0
    owned: list[BlockState] = field(default_factory=list)

    def lose(self, owned: BlockState) -> None:
        """Free the device memory of a deleted argument block, which no launch may use any longer."""
        if owned in self.owned:
            self.owned.remove(owned)
            owned.give_back()

    def give_back(self, device: CudaDevice) -> None:
        """Unload the code and free all device memory of the executable, which no launch may use any longer."""
        while self.owned:
            self.owned.pop().give_back()
        device.records.release(self.record)
        if self.printer:
            device.prints.release(self.printer)
        device.driver.unload(self.module)


def limits_of(driver: Driver) -> policy.DeviceLimits:
    """Return the bytes of a GPU's second-level cache and of its memory, which limit the number of rows."""
    return policy.DeviceLimits(driver.l2_bytes, driver.memory_bytes)


class CudaExecutable(DeviceExecutable[CudaBlock]):
    """Represent a compiled kernel on an NVIDIA GPU.

    Attributes:
        code: Code of the kernel.
        device: GPU that the code is loaded on.
        buffers: Device buffers for copies of external arrays.
    """

    def __init__(self, code: DeviceCode, device: CudaDevice, heap: DeviceHeap, buffers: Buffers) -> None:
        kernel, layout = code.kernel, code.layout
        self.code, self.device, self.buffers = code, device, buffers
        placement = stacks.place(kernel, layout, limits_of(device.driver))
        reader = ErrorReader(kernel, code.sites, layout.stacks, heap.renew)
        super().__init__(kernel, layout, code.options, device, heap, placement, reader)
        self._load()
        names = {(entry.kind, entry.task): entry.name for entry in code.entries if entry.name}
        self._keys = launch_order(layout, names)
        self._load_host_code(host_code(kernel, layout, names, WIDTH), _LAUNCH)

    def _load(self) -> None:
        """Load the code on the device, and register where it reports errors and the number that its prints carry."""
        driver = self.device.driver
        module = driver.load(driver.assemble(self.code.text, self.code.names, self.options))
        record = self.device.records.claim(self._reader)
        printer = self.device.prints.claim(self.kernel, self.code.sites) if self.calls_back else 0
        self._functions = {
            (entry.kind, entry.task): driver.function(module, entry.name) for entry in self.code.entries if entry.name
        }
        self._loaded = loaded = LoadedKernel(module, record, printer)
        device = self.device
        weakref.finalize(self, device.drop, lambda: loaded.give_back(device))

    def new_block(self) -> CudaBlock:
        """Return a new argument block that is not yet filled for a launch."""
        layout = self.layout
        block = CudaBlock(layout, self.kernel.name, self._written, self.device, self.buffers, self._keys)
        block.put(layout.errors_at, self._loaded.record)
        if self.calls_back:
            block.put(layout.print_at, self.device.prints.address)
            block.put(layout.printer_at, self._loaded.printer)
        for key, function in self._functions.items():
            block.put(layout.functions[key], function)
        self._loaded.owned.append(block.owned)
        weakref.finalize(block, self.device.drop, partial(self._loaded.lose, block.owned)).atexit = False
        return block

    # -- launching ------------------------------------------------------------------------------------------

    @property
    def _is_recording(self) -> bool:
        """Return True if launches are being recorded as a CUDA graph at this moment, instead of running."""
        return self.device.is_capturing

    def _run_staged(self, block: CudaBlock, arrays: Arrays, scalars: Scalars, sizes: Sizes) -> None:
        """Launch on device copies of the external arrays and wait; raise Unsupported while launches are recorded."""
        if self.device.is_capturing:
            names = ", ".join(block.foreign)
            raise Unsupported(
                f"kernel {self.kernel.name}: a graph cannot record a launch on arrays of the host: {names}",
                "give fields, ndarrays, or arrays of the GPU",
            )
        super()._run_staged(block, arrays, scalars, sizes)

    def _start(self, block: CudaBlock) -> None:
        """Launch a block, ordered between earlier and later GPU work of the libraries that own its borrowed arrays."""
        block.prepare()
        if block.borrowed:
            with ordered_with_lenders(self.device, block.lenders()):
                self._start_own(block)
        else:
            self._start_own(block)

    def _start_own(self, block: CudaBlock) -> None:
        """Call the host code and retry a refused launch; a kernel that prints lets no other launch start meanwhile."""
        with self._starting:
            if self._launch(block.address) == FAILED:
                self._again(block)

    def _again(self, block: CudaBlock) -> None:
        """Retry a refused launch, once for each cause that can be removed; raise DriverError if it is refused again."""
        # A thread that the driver does not know yet must be attached; a graph for the launch may have to be made.
        driver = self.device.driver
        code = self._code(block)
        cures: dict[int, Callable[[], None]] = dict.fromkeys(CONTEXT_ERRORS, driver.attach)
        cures[WANTED] = lambda: block.graphs.make(block)
        while code in cures:
            cures.pop(code)()
            if self._launch(block.address) != FAILED:
                return
            code = self._code(block)
        raise DriverError(code, *driver.describe(code), f"launch of kernel {self.kernel.name}")

    def _code(self, block: CudaBlock) -> int:
        """Return the driver's error code for the refused launch of an argument block."""
        return block.word(self.layout.driver_error_at)

    @contextmanager
    def _timed(self, block: CudaBlock) -> Iterator[Seconds]:
        """Measure by CUDA events the time of each task in the `with` block; yield a function that returns the times."""
        with task_events(self.device.driver, len(self.kernel.tasks)) as events:
            block.put(self.layout.laps_at, events.address)
            try:
                yield events.by_task
            finally:
                block.put(self.layout.laps_at, 0)

    # -- ready launches --------------------------------------------------------------------------------------

    @property
    def is_bound(self) -> bool:
        """Return True if argument blocks hold addresses of one stream's memory, which a new heap epoch invalidates."""
        return bool(self.layout.stacks or self.layout.state_size)

    def _prepare_ready(self, block: CudaBlock) -> bool:
        """Allocate the device state of a block for ready launches; return False if they are not possible now.

        They are not while launches are recorded for a CUDA graph, and never if an array of the block is borrowed.
        """
        if block.borrowed or self.device.is_capturing:
            return False
        block.prepare()
        return True

    def refuse(self, block: CudaBlock, sizes: Sizes) -> bool:
        """Repeat a ready launch that the driver refused. Return True if its argument block is still ready.

        Raises:
            DriverError: The driver refuses the launch again, or no cure for its error is known.
        """
        # Another thread may have used the heap meanwhile, so the block is bound again.
        block.prepare()
        if not self.layout.stacks:
            self._again(block)
            return True
        with self.heap.claimed() as heap:
            stacks.bind(block, self._placement, sizes, heap)
            self._again(block)
            return heap is self.heap
