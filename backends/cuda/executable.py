"""This module defines the executable of a kernel on a GPU: device code, host launch code, argument blocks.

Launches on managed arrays are not waited for; what goes wrong on the device surfaces at the next wait (device.py). A
launch on external arrays works on copies, so it is over, and has raised, when `run` returns; so is a launch on arrays
that other programs may touch without asking.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from ...compiler.errors import AdstackOverflow, StackgradError, Unsupported
from ...compiler.ir.nodes import Kernel
from ..base import Arrays, Draws, Scalars, Sizes
from ..codegen.layout import written_names
from ..codegen.prints import is_printing
from ..codegen.stack_sizes import stack_capacity
from ..device import policy, stacks
from ..device.heap import DeviceHeap
from ..host.jit import NativeCode
from ..host.report import exception
from ..llvm.errors import FAILED
from .block import BlockState, DeviceBlock
from .borrowed import ordered_with_lenders
from .code import DeviceCode
from .device import CudaDevice, Record
from .driver import CONTEXT_ERRORS, Driver, DriverError
from .graph_replay import WANTED, launch_order
from .host_code import host_code
from .memory import Buffers
from .task_times import TaskTimes, task_events

_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)

WIDTH = 128
"""Threads of a block."""

_EFFORT = 0
"""Effort of the optimizer for host code, which is a straight row of calls."""

DEBUG_WAITS = True
"""Launches of debug builds are waited for, so that an error is raised by the launch that made it.

Tests of errors that surface late set it to False, because debug builds find most errors.
"""


@dataclass
class ErrorReader:
    """Convert the error records of a kernel to exceptions.

    Attributes:
        code: Code of the kernel.
        distrust: Called after an overflow, so that no launch is ready any more for the published sizes.
        published: Sizes of the last launch.
        explain: Gives the function that adds to an overflow what it knows of it, or None if that is gone.
    """

    code: DeviceCode
    distrust: Callable[[], None]
    published: Sizes = field(default_factory=Sizes)
    explain: Callable[[], Callable[[AdstackOverflow], AdstackOverflow] | None] = lambda: None

    def __call__(self, record: Record) -> StackgradError:
        """Return the exception for an error record."""
        known = [(stack, stack_capacity(stack, self.published)) for stack in self.code.layout.stacks]
        found = exception(self.code.kernel, self.code.sites, record, known)
        if isinstance(found, AdstackOverflow):
            self.distrust()
            explain = self.explain()
            return found if explain is None else explain(found)
        return found


@dataclass
class LoadedKernel:
    """Represent what an executable holds on the device: its module, its error record, memory of its blocks.

    Attributes:
        module: Handle of its code.
        record: Address of its error record.
        printer: Its number for prints, 0 if it prints nothing.
        owned: What its blocks hold on the device.
    """

    module: int
    record: int
    printer: int = 0
    owned: list[BlockState] = field(default_factory=list)

    def lose(self, owned: BlockState) -> None:
        """Free the device memory of an argument block that was deleted; no launch may still use the block."""
        if owned in self.owned:
            self.owned.remove(owned)
            owned.give_back()

    def give_back(self, device: CudaDevice) -> None:
        """Unload the code and free all device memory of the executable; no launch may still use it."""
        while self.owned:
            self.owned.pop().give_back()
        device.records.release(self.record)
        if self.printer:
            device.prints.release(self.printer)
        device.driver.unload(self.module)


def limits_of(driver: Driver) -> policy.DeviceLimits:
    """Return the bytes of a GPU's second-level cache and of its memory, which limit the number of rows."""
    return policy.DeviceLimits(driver.l2_bytes, driver.memory_bytes)


class CudaExecutable:
    """Represent a compiled kernel; several threads may run it at the same time."""

    def __init__(self, code: DeviceCode, device: CudaDevice, heap: DeviceHeap, buffers: Buffers) -> None:
        self.kernel: Kernel = code.kernel
        self.code, self.layout, self.options = code, code.layout, code.options
        self.device, self.heap, self.buffers = device, heap, buffers
        self._written = written_names(self.kernel)
        self._idle: list[DeviceBlock] = []
        self._reader = ErrorReader(code, heap.renew)
        self._placement = stacks.place(self.kernel, self.layout, limits_of(device.driver))
        self._load()
        names = {(entry.kind, entry.task): entry.name for entry in code.entries if entry.name}
        self._keys = launch_order(self.layout, names)
        self._host = NativeCode(host_code(self.kernel, self.layout, names, WIDTH), _EFFORT)
        self._launch: Callable[[int], int] = _LAUNCH(self._host.address)
        self._starting = device.prints.lock if self.calls_back else nullcontext()

    def _load(self) -> None:
        """Load the code on the device, and register an error record and a print number for it."""
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

    # -- launching ------------------------------------------------------------------------------------------

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws, timed: TaskTimes | None = None) -> None:
        """Launch the kernel once.

        Foreign arrays are written when `run` returns, managed arrays when the device is waited for. What goes wrong on
        the device is raised by the next wait, which is in `run` if an array is foreign or the build a debug build.

        Args:
            arrays: Arrays by parameter name; adjoints are named `x.grad`.
            scalars: Numbers by parameter name.
            sizes: Capacities and rows of the adstacks.
            draws: Seed and number of the launch.
            timed: Events to be recorded between the tasks; None for none.

        Raises:
            KernelTypeError: Arguments do not fit; nothing has run.
            DeviceError: Memory cannot be had, or the driver refuses; nothing has run.
        """
        self.device.tidy()
        try:
            block = self._idle.pop()
        except IndexError:
            block = self.new_block()
        try:
            block.bind(arrays, scalars, draws)
            block.put(self.layout.laps_at, timed.address if timed else 0)
            with ordered_with_lenders(self.device, block.lenders()) if block.borrowed else nullcontext():
                if block.foreign:
                    self._run_staged(block, sizes)
                else:
                    self._run(block, sizes)
            if block.is_shared:
                self.device.wait()
        finally:
            self._idle.append(block)
        if self.options.debug and DEBUG_WAITS and not self.device.is_capturing:
            self.device.wait()

    def run_timed(
        self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws
    ) -> tuple[float, list[float] | None]:
        """Launch the kernel once and wait; return the seconds waited for earlier launches, and seconds of each task.

        Returns:
            (seconds waited for launches before, seconds of each task).
        """
        begin = time.perf_counter()
        self.device.settle()
        aside = time.perf_counter() - begin
        with task_events(self.device.driver, len(self.kernel.tasks)) as timed:
            self.run(arrays, scalars, sizes, draws, timed)
            self.device.settle()
            return aside, timed.by_task()

    def _run_staged(self, block: DeviceBlock, sizes: Sizes) -> None:
        """Launch on device copies of the external arrays, wait, and copy the written arrays back."""
        if self.device.is_capturing:
            names = ", ".join(block.foreign)
            raise Unsupported(
                f"kernel {self.kernel.name}: a graph cannot record a launch on arrays of the host: {names}",
                "give fields, ndarrays, or arrays of the GPU",
            )
        with block.staged():
            self._run(block, sizes)
            self.device.driver.wait()
        self.device.wait()

    def _run(self, block: DeviceBlock, sizes: Sizes) -> None:
        """Launch an argument block whose arrays are all in device memory."""
        block.prepare()
        if not self.layout.stacks:
            self._start(block)
            return
        self._reader.published = sizes
        with self.heap.claimed() as heap:
            stacks.bind(block, self._placement, sizes, heap)
            self._start(block)

    def _start(self, block: DeviceBlock) -> None:
        """Launch an argument block; a kernel that prints excludes other launches meanwhile."""
        with self._starting:
            if self._launch(block.address) == FAILED:
                self._again(block)

    def _again(self, block: DeviceBlock) -> None:
        """Retry a launch that the driver refused, once per cause that can be removed, or raise DriverError."""
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

    def _code(self, block: DeviceBlock) -> int:
        """Return the driver's error code of the block's last launch, which was refused."""
        return block.word(self.layout.driver_error_at)

    @property
    def calls_back(self) -> bool:
        """Return True if the kernel prints, so that only Python code may launch it."""
        return is_printing(self.kernel)

    # -- ready launches --------------------------------------------------------------------------------------

    @property
    def growths(self) -> int:
        """Return the number of launches of this kernel that made the adstack heap larger."""
        return self._placement.growths

    @property
    def address(self) -> int:
        """Return the address of the machine code `launch(block)`, which may be called while the executable lives."""
        return self._host.address

    @property
    def is_bound(self) -> bool:
        """Return True if argument blocks hold addresses of one stream's memory, which a new heap epoch invalidates."""
        return bool(self.layout.stacks or self.layout.state_size)

    def on_overflow(self, explain: Callable[[], Callable[[AdstackOverflow], AdstackOverflow] | None]) -> None:
        """Set the function that adds the needed capacities to error messages about adstack overflows of this kernel."""
        self._reader.explain = explain

    def stand(self, block: DeviceBlock, arrays: Arrays, scalars: Scalars, sizes: Sizes) -> bool:
        """Prepare an argument block for launches without Python. Return False if each launch still needs Python.

        Args:
            block: Block to prepare.
            arrays: Arrays by parameter name.
            scalars: Numbers by parameter name.
            sizes: Capacities and rows of the adstacks.

        Raises:
            KernelTypeError: Arguments do not fit.
            DeviceError: Memory cannot be had.
        """
        if self.options.debug and DEBUG_WAITS:
            return False
        block.bind(arrays, scalars, Draws())
        if block.foreign or block.borrowed or block.is_shared or self.device.is_capturing:
            return False
        block.prepare()
        if self.layout.stacks:
            with self.heap.claimed() as heap:
                if heap is not self.heap:
                    return False
                stacks.bind(block, self._placement, sizes, heap)
        self._reader.published = sizes
        return True

    def new_block(self) -> DeviceBlock:
        """Return a new argument block that is not yet filled for a launch."""
        layout = self.layout
        block = DeviceBlock(layout, self.kernel.name, self._written, self.device, self.buffers, self._keys)
        block.put(layout.errors_at, self._loaded.record)
        if self.calls_back:
            block.put(layout.print_at, self.device.prints.address)
            block.put(layout.printer_at, self._loaded.printer)
        for key, function in self._functions.items():
            block.put(layout.functions[key], function)
        self._loaded.owned.append(block.owned)
        weakref.finalize(block, self.device.drop, partial(self._loaded.lose, block.owned)).atexit = False
        return block

    def refuse(self, block: DeviceBlock, sizes: Sizes) -> bool:
        """Retry a launch that the driver refused, or raise its error. Return True if the block stays launchable."""
        # Another thread may have used the heap meanwhile, so the block is bound again.
        block.prepare()
        if not self.layout.stacks:
            self._again(block)
            return True
        with self.heap.claimed() as heap:
            stacks.bind(block, self._placement, sizes, heap)
            self._again(block)
            return heap is self.heap
