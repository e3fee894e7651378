"""A kernel on a GPU: its code loaded there, host code that launches it, blocks to launch with.

Launches on managed arrays are not waited for; what goes wrong on the device surfaces at the next wait (device.py). A
launch on foreign arrays works on copies, so it is over, and has raised, when `run` returns; so is one on arrays that
others may touch without asking.
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
from ..cpu.jit import NativeCode
from ..cpu.report import exception
from ..llvm.errors import FAILED
from ..llvm.layout import written
from ..llvm.stack_sizes import capacity
from ..prints import is_printing
from . import policy, stacks
from .block import DeviceBlock, Owned
from .borrowed import ordered
from .code import DeviceCode
from .device import Device, Record
from .driver import CONTEXT_ERRORS, Driver, DriverError
from .heap import DeviceHeap
from .host_code import host_code
from .laps import Laps, laps
from .memory import Buffers
from .replay import WANTED, order

_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)

WIDTH = 128
"""Threads of a block."""

_EFFORT = 0
"""Of the optimiser for host code, which is straight calls."""

DEBUG_WAITS = True
"""Launches of debug builds are waited for, so that an error is raised by the launch that made it. Tests of what
surfaces late set it to False: debug builds find most errors.
"""


@dataclass
class Reader:
    """Makes exceptions of error records. published: the sizes of the last launch. explain: refers to what adds to an
    overflow what it knows of it. distrust: called then: nothing stands ready any more for what was published.
    """

    code: DeviceCode
    distrust: Callable[[], None]
    published: Sizes = field(default_factory=Sizes)
    explain: Callable[[], Callable[[AdstackOverflow], AdstackOverflow] | None] = lambda: None

    def __call__(self, record: Record) -> StackgradError:
        known = [(stack, capacity(stack, self.published)) for stack in self.code.layout.stacks]
        found = exception(self.code.kernel, self.code.sites, record, known)
        if isinstance(found, AdstackOverflow):
            self.distrust()
            explain = self.explain()
            return found if explain is None else explain(found)
        return found


@dataclass
class Loaded:
    """What an executable holds on the device. module: its code. record: address of its error record. printer: its
    number for prints, 0 if it prints nothing.
    """

    module: int
    record: int
    printer: int = 0
    owned: list[Owned] = field(default_factory=list)

    def lose(self, owned: Owned) -> None:
        """A block is no more, and no launch with it is in flight."""
        if owned in self.owned:
            self.owned.remove(owned)
            owned.give_back()

    def give_back(self, device: Device) -> None:
        """No launch uses it any more."""
        while self.owned:
            self.owned.pop().give_back()
        device.records.release(self.record)
        if self.printer:
            device.prints.release(self.printer)
        device.driver.unload(self.module)


def limits_of(driver: Driver) -> policy.Device:
    """What decides how many rows suit a GPU."""
    return policy.Device(driver.l2_bytes, driver.memory_bytes)


class CudaExecutable:
    """A compiled kernel. Threads may run it at the same time."""

    def __init__(self, code: DeviceCode, device: Device, heap: DeviceHeap, buffers: Buffers) -> None:
        self.kernel: Kernel = code.kernel
        self.code, self.layout, self.options = code, code.layout, code.options
        self.device, self.heap, self.buffers = device, heap, buffers
        self._written = written(self.kernel)
        self._idle: list[DeviceBlock] = []
        self._reader = Reader(code, heap.renew)
        self._placement = stacks.place(self.kernel, self.layout, limits_of(device.driver))
        self._load()
        names = {(entry.kind, entry.task): entry.name for entry in code.entries if entry.name}
        self._keys = order(self.layout, names)
        self._host = NativeCode(host_code(self.kernel, self.layout, names, WIDTH), _EFFORT)
        self._launch: Callable[[int], int] = _LAUNCH(self._host.address)
        self._starting = device.prints.lock if self.calls_back else nullcontext()

    def _load(self) -> None:
        driver = self.device.driver
        module = driver.load(driver.assemble(self.code.text, self.code.names, self.options))
        record = self.device.records.claim(self._reader)
        printer = self.device.prints.claim(self.kernel, self.code.sites) if self.calls_back else 0
        self._functions = {
            (entry.kind, entry.task): driver.function(module, entry.name) for entry in self.code.entries if entry.name
        }
        self._loaded = loaded = Loaded(module, record, printer)
        device = self.device
        weakref.finalize(self, device.drop, lambda: loaded.give_back(device))

    # -- launching ------------------------------------------------------------------------------------------

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws, timed: Laps | None = None) -> None:
        """Launch once. Foreign arrays are written when it returns, managed ones when the device is waited for.

        Raises KernelTypeError for arguments that do not fit and DeviceError for memory that cannot be had or a driver
        that refuses, before anything runs; what goes wrong on the device at the next wait, which is now if an array is
        foreign or the build a debug build. timed: to be recorded between the tasks.
        """
        self.device.tidy()
        try:
            block = self._idle.pop()
        except IndexError:
            block = self.new_block()
        try:
            block.bind(arrays, scalars, draws)
            block.put(self.layout.laps_at, timed.address if timed else 0)
            with ordered(self.device, block.lenders()) if block.borrowed else nullcontext():
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
        """Launch once and wait, for a profile. Gives the seconds waited for launches before, and those of each task.

        Raises what `run` raises, and what went wrong on the device.
        """
        begin = time.perf_counter()
        self.device.settle()
        aside = time.perf_counter() - begin
        with laps(self.device.driver, len(self.kernel.tasks)) as timed:
            self.run(arrays, scalars, sizes, draws, timed)
            self.device.settle()
            return aside, timed.by_task()

    def _run_staged(self, block: DeviceBlock, sizes: Sizes) -> None:
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
        block.prepare()
        if not self.layout.stacks:
            self._start(block)
            return
        self._reader.published = sizes
        with self.heap.claimed() as heap:
            stacks.bind(block, self._placement, sizes, heap)
            self._start(block)

    def _start(self, block: DeviceBlock) -> None:
        with self._starting:
            if self._launch(block.address) == FAILED:
                self._again(block)

    def _again(self, block: DeviceBlock) -> None:
        """A launch was not made: what it lacked is done, once each, and it is made again, or refused with the reason.

        From a thread that the driver does not know yet, the driver must be told; a graph for it may have to be made.
        """
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
        """Why the last launch of a block was not made."""
        return block.word(self.layout.driver_error_at)

    @property
    def calls_back(self) -> bool:
        """Whether launches are made by Python alone: those of a kernel that prints, see `Prints.lock`."""
        return is_printing(self.kernel)

    # -- launches that stand ready --------------------------------------------------------------------------

    @property
    def growths(self) -> int:
        """How often a launch made the heap larger."""
        return self._placement.growths

    @property
    def address(self) -> int:
        """Of the machine code `launch(block)`. It may be called while the executable lives."""
        return self._host.address

    @property
    def is_bound(self) -> bool:
        """Whether blocks hold addresses that are of one stream, and may change with the heap's epoch."""
        return bool(self.layout.stacks or self.layout.state_size)

    def on_overflow(self, explain: Callable[[], Callable[[AdstackOverflow], AdstackOverflow] | None]) -> None:
        """Let what a reference leads to, if it is alive, add to the overflows of this kernel what it knows of them."""
        self._reader.explain = explain

    def stand(self, block: DeviceBlock, arrays: Arrays, scalars: Scalars, sizes: Sizes) -> bool:
        """Prepare a block for native launches. False if that cannot be now; raises what `run` raises before it runs."""
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
        """A block in which no launch stands yet."""
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
        """Make a launch that was not made once more, or raise why. Another thread may have used the heap meanwhile."""
        block.prepare()
        if not self.layout.stacks:
            self._again(block)
            return True
        with self.heap.claimed() as heap:
            stacks.bind(block, self._placement, sizes, heap)
            self._again(block)
            return heap is self.heap
