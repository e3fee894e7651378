"""This module defines CpuBackend, which compiles kernels for the host and launches them through ctypes without the GIL.

A launch fills the kernel's argument block, calls one native function, and looks at its status. Launches of one kernel
by several threads at once take a block each; launches that use adstacks share the heap and take turns.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import llvmlite
import llvmlite.binding as llvm

from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Kernel
from ..base import Arrays, Concurrency, Draws, Options, Probe, Scalars, Sizes
from ..codegen.emit import MASKED_SITES
from ..codegen.layout import DECLINED, BlockLayout, lay_out, written_names
from ..codegen.prints import text_of
from ..codegen.target import Target
from ..forks import renew_in_child
from ..heap import Heap
from ..host.block import ArgumentBlock
from ..host.jit import NativeCode, host_cpu, host_target, machine, optimized_module
from ..host.report import exception
from ..llvm.compiler_lock import LOCK
from ..llvm.errors import FAILED
from ..llvm.module import KernelCode, generate, generate_later
from ..llvm.task_threads import POOL
from . import stacks
from .pool import pool
from .signals import STOP, raise_signal, signals
from .task_times import TaskTimes, measure_compilation
from .variants import REQUEST, Variants

_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_PRINT = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)


@dataclass
class CpuExecutable:
    """Represent a compiled kernel; several threads may run it at the same time.

    Attributes:
        kernel: Kernel that was compiled.
        generated: LLVM IR that the machine code was made from.
        heap: Adstack heap of the process.
        options: Options that the kernel was compiled with.
        target: Description of the CPU.
        layout: Byte offsets into the argument block.
    """

    kernel: Kernel
    generated: KernelCode
    heap: Heap
    options: Options
    target: Target
    layout: BlockLayout = field(init=False)
    _idle: list[ArgumentBlock] = field(default_factory=list)
    _written: set[str] = field(init=False)
    _raised: dict[int, BaseException] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layout = self.generated.layout
        self._written = written_names(self.kernel)
        self._placement = stacks.place(self.kernel, self.layout, self.options, self.target)
        self._code = NativeCode(self.generated, self.options.effort)
        self._launch: Callable[[int], int] = _LAUNCH(self._code.address)
        self._print = _PRINT(self._on_print)
        self._variants = Variants(self.kernel, self.options, self.target, self.layout)
        self._request = REQUEST(self._on_request)

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws, laps: TaskTimes | None = None) -> None:
        """Execute the kernel once; arrays are written in place.

        Args:
            arrays: Arrays by parameter name; adjoints are named `x.grad`.
            scalars: Numbers by parameter name.
            sizes: Capacities and rows of the adstacks.
            draws: Seed and number of the launch.
            laps: Gets the time of each task; None measures nothing.

        Raises:
            KernelTypeError: Arguments do not fit; nothing has run.
            DeviceError: Memory for adstacks cannot be had; nothing has run.
            OutOfBounds: An index was outside.
            KernelAssertionError: An assertion failed.
            DivisionByZero: A debug build divided by zero.
            AdstackOverflow: A push had no slot.
        """
        try:
            block = self._idle.pop()
        except IndexError:
            block = self.new_block()
        try:
            block.bind(arrays, scalars, draws)
            if self.layout.stacks:
                with self.heap.claimed() as heap:
                    stacks.bind(block, self._placement, sizes, heap)
                    status = self._started(block, laps)
            else:
                status = self._started(block, laps)
            if status == FAILED:
                self.refuse(block, sizes)
        finally:
            self._idle.append(block)
        if self._raised:
            self._raise_of_callback()

    def run_timed(
        self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws
    ) -> tuple[float, list[float] | None]:
        """Run the kernel once as `run` does, and return the time spent in compilation and in each task.

        Returns:
            (seconds in which code was made, seconds of each task; None where native code has no clock).
        """
        laps = TaskTimes(len(self.kernel.tasks))
        self.run(arrays, scalars, sizes, draws, laps)
        return laps.aside, laps.by_task()

    def _started(self, block: ArgumentBlock, laps: TaskTimes | None) -> int:
        """Launch the kernel's machine code with an argument block, and return its status code."""
        return self._launch(block.address) if laps is None else laps.around(self._launch, block, self.layout)

    @property
    def growths(self) -> int:
        """Return the number of launches of this kernel that made the adstack heap larger."""
        return self._placement.growths

    @property
    def address(self) -> int:
        """Return the address of the machine code `launch(block)`, which may be called while the executable lives."""
        return self._code.address

    @property
    def is_bound(self) -> bool:
        """Return True if argument blocks contain addresses of the adstack heap because the kernel uses adstacks."""
        return bool(self.layout.stacks)

    @property
    def calls_back(self) -> bool:
        """Return True if a launch calls back into Python, because the kernel prints."""
        return self.layout.printer_at != 0  # the block of a kernel that prints has this slot, and not at its begin

    def stand(self, block: ArgumentBlock, arrays: Arrays, scalars: Scalars, sizes: Sizes) -> bool:
        """Prepare an argument block for launches without Python; return False if another launch is using the heap.

        Args:
            block: Block to prepare.
            arrays: Arrays by parameter name.
            scalars: Numbers by parameter name.
            sizes: Capacities and rows of the adstacks.

        Raises:
            KernelTypeError: Arguments do not fit.
            DeviceError: Memory for adstacks cannot be had.
        """
        block.bind(arrays, scalars, Draws())
        # Take over code that earlier launches have asked for.
        for at in (*self.layout.variants.values(), self.layout.pool_at):
            if self._idle and not block.word(at):
                block.put(at, self._idle[-1].word(at))
        if self.layout.stacks:
            with self.heap.claimed() as heap:
                if heap is not self.heap:
                    return False
                stacks.bind(block, self._placement, sizes, heap)
        return True

    def new_block(self) -> ArgumentBlock:
        """Return a new argument block that is not yet filled for a launch."""
        block = ArgumentBlock(self.layout, self.kernel.name, self._written)
        block.put(self.layout.print_at, ctypes.cast(self._print, ctypes.c_void_p).value or 0)
        block.put(self.layout.request_at, ctypes.cast(self._request, ctypes.c_void_p).value or 0)
        block.put(self.layout.signals_at, signals())
        return block

    def refuse(self, block: ArgumentBlock, sizes: Sizes) -> bool:
        """Raise the error that made a launch fail: from a signal handler, a callback, or the block's error record."""
        raise_signal(block)
        self._raise_of_callback()
        published = [(s, stacks.stack_capacity(s, sizes)) for s in self.layout.stacks]
        site, first, second = block.take_error()
        masked = site >= MASKED_SITES
        sites = self._variants.sites if masked else self.generated.sites
        record = site - MASKED_SITES if masked else site, first, second
        raise exception(self.kernel, sites, record, published)

    def _raise_of_callback(self) -> None:
        """Raise the exception of Python code that a launch on this thread has called, if there was one."""
        error = self._raised.pop(threading.get_ident(), None)
        if error is not None:
            raise error

    def _on_print(self, site: int, arguments: int) -> None:
        """Print a line at the request of native code; an exception is stored and raised after the launch."""
        try:
            stmt = self.generated.sites[site].stmt
            assert isinstance(stmt, n.Print)
            print(text_of(stmt, arguments), end="", flush=True)
        except BaseException as error:
            self._raised.setdefault(threading.get_ident(), error)

    def _on_request(self, block: int, task: int) -> None:
        """Compile masked code for a task, or create the thread pool, at the request of native code."""
        try:
            with measure_compilation(task):
                if task == POOL:
                    slot = ctypes.c_int64.from_address(block + self.layout.pool_at)
                    # If the pool cannot be made, the slot says so.
                    slot.value = DECLINED
                    slot.value = pool().run
                else:
                    self._variants.fill(block, task)
        except BaseException as error:
            self._raised.setdefault(threading.get_ident(), error)
            # A signal handler raised this, so the launch must end.
            if not isinstance(error, Exception):
                ctypes.c_int64.from_address(block + self.layout.raised_at).value = STOP


class CpuBackend:
    """Compile and run kernels on the host CPU."""

    name = "cpu"
    blocks = "loops"
    ends_long_launches = True

    def __init__(self, target: Target | None = None) -> None:
        self.target = target or host_target()
        self.heap = Heap()
        renew_in_child(self.heap.renew)

    def probe(self) -> Probe:
        """Report whether llvmlite can make code for the host."""
        try:
            cpu, _ = host_cpu()
        except (RuntimeError, OSError) as error:
            reason = f"LLVM has no target for this machine: {error}"
            return Probe(False, reason=reason, cure="use the reference backend")
        version = ".".join(map(str, llvm.llvm_version_info))
        source = f"LLVM {version}, llvmlite {llvmlite.__version__}"
        return Probe(True, version=f"{source}; {cpu}, {os.cpu_count()} cores")

    def compile(self, kernel: Kernel, options: Options) -> CpuExecutable:
        """Generate, optimize and load the code of a kernel, and return the executable.

        Raises:
            Unsupported: The kernel uses something that backends/limits.py declares as unsupported.
        """
        generated = generate_later(generate, kernel, options, self.target)
        return CpuExecutable(kernel, generated, self.heap, options, self.target)

    def ir_text(self, kernel: Kernel, options: Options | None = None, optimize: bool = True) -> str:
        """Return the LLVM IR of a kernel, optimized by LLVM's pipeline if `optimize` is True."""
        generated = generate(kernel, options or Options(), self.target)
        if not optimize:
            return generated.text
        with LOCK:
            return str(optimized_module(generated.text))

    def assembly(self, kernel: Kernel, options: Options | None = None) -> str:
        """Return the machine code of a kernel as text."""
        generated = generate(kernel, options or Options(), self.target)
        with LOCK:
            return str(machine().emit_assembly(optimized_module(generated.text)))

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Concurrency:
        """Return the number of rows of a task: one for each thread, or for each lane of each thread.

        An iteration begins when the iteration before it has given the row back.

        Args:
            kernel: Kernel of the task.
            task: Index of the task.
            sizes: Capacities and rows of the adstacks.
            options: Options that the kernel is compiled with.
        """
        return stacks.place(kernel, lay_out(kernel), options, self.target).flights(sizes)[task]

    def most_bytes(self) -> tuple[int, str]:
        """Return the greatest number of adstack bytes of one launch, and a text that names the cause of this limit."""
        return self.heap.most_bytes()

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Return the adstack memory by slab: bytes held now, and the most since the last reset."""
        return self.heap.report()

    def reset(self) -> None:
        """Free all adstack memory of the process."""
        self.heap.reset()
