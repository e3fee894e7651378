"""Launch a kernel on a GPU: the steps that all backends of GPUs take (class DeviceExecutable).

Launches on memory that host and device share are not waited for; what goes wrong on the device surfaces at the next
wait (queue.py). A launch on external arrays works on copies, so it is over, and has raised its errors, when `run`
returns. So is a launch on arrays that other code may touch without asking, and a launch of a debug build.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

from ...compiler.ir.kernels import Kernel
from ..base import Arrays, Draws, Options, Scalars, Sizes
from ..codegen.layout import BlockLayout, written_names
from ..codegen.prints import is_printing
from ..host.jit import NativeCode
from ..llvm.module import Generated
from . import stacks
from .block import DeviceBlock
from .error_reader import ErrorReader, Explain
from .heap import DeviceHeap
from .queue import DeviceQueue

DEBUG_WAITS = True
"""If True, launches of debug builds are waited for, so that the launch that made an error raises it.

Tests of errors that surface late set it to False, because debug builds find most errors.
"""

_EFFORT = 0
"""Effort of the optimizer for host code, which is a straight row of calls."""

Block = TypeVar("Block", bound=DeviceBlock)
Seconds = Callable[[], "list[float] | None"]
"""The type of a function that gives the seconds of each task of a launch; None if the device does not measure."""


class DeviceExecutable(ABC, Generic[Block]):
    """Represent a compiled kernel on a GPU; several Python threads may run it at the same time.

    A launch binds an argument block to the arguments, places the adstacks, and starts the host code of the kernel. What
    a backend does in its own way are the abstract methods: new blocks, the start, retries, and the time of each task.

    Attributes:
        kernel: Kernel that was compiled.
        layout: Byte offsets into a whole argument block.
        options: Options that the kernel was compiled with.
        queue: Work of the GPU.
        heap: Memory of adstacks.
    """

    def __init__(
        self,
        kernel: Kernel,
        layout: BlockLayout,
        options: Options,
        queue: DeviceQueue,
        heap: DeviceHeap,
        placement: stacks.StackPlacement,
        reader: ErrorReader,
    ) -> None:
        """Store the objects that launches use; `placement.kernel` is the kernel that code was generated for."""
        self.kernel, self.layout, self.options = kernel, layout, options
        self.queue, self.heap = queue, heap
        self._placement, self._reader = placement, reader
        self._written = written_names(placement.kernel)
        self._idle: list[Block] = []
        self._starting: AbstractContextManager[Any] = queue.prints.lock if self.calls_back else nullcontext()

    def _load_host_code(self, code: Generated, launch: Callable[[int], Callable[[int], int]]) -> None:
        """Compile and load the host code; `launch` converts its address to the Python function that starts launches."""
        self._host = NativeCode(code, _EFFORT)
        self._launch: Callable[[int], int] = launch(self._host.address)

    # -- steps of a backend ------------------------------------------------------------------------------------

    @abstractmethod
    def new_block(self) -> Block:
        """Return an argument block that holds no ready launch yet."""

    @abstractmethod
    def _start(self, block: Block) -> None:
        """Start the launch of a block whose adstacks are placed; retry a refused launch, or raise the refusal."""

    @abstractmethod
    def refuse(self, block: Block, sizes: Sizes) -> bool:
        """Repeat a ready launch that the driver refused, or raise its error. Return True if its block stays ready."""

    @abstractmethod
    def _timed(self, block: Block) -> AbstractContextManager[Seconds]:
        """Measure the time of each task in the `with` block; yield a function that returns the seconds by task."""

    def _prepare_ready(self, block: Block) -> bool:
        """Return True; backends override this step, which prepares a block for native launches or returns False."""
        return True

    @property
    def _is_recording(self) -> bool:
        """Return True if launches are recorded at present instead of run, so that the host cannot wait for them."""
        return False

    # -- launching ---------------------------------------------------------------------------------------------

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Launch the kernel once.

        Foreign arrays are written when `run` returns, shared ones when the device is waited for. What goes wrong on the
        device is raised by the next wait, which is in `run` if an array is foreign or the build is a debug build.

        Args:
            arrays: Arrays by parameter name; adjoints are named `x.grad`.
            scalars: Numbers by parameter name.
            sizes: Capacities and rows of the adstacks.
            draws: Seed and number of the launch.

        Raises:
            KernelTypeError: Arguments do not fit; nothing has run.
            DeviceError: Memory cannot be had, or the driver refuses; nothing has run.
        """
        block = self._claim_block()
        try:
            self._run_bound(block, arrays, scalars, sizes, draws)
        finally:
            self._idle.append(block)

    def run_timed(
        self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws
    ) -> tuple[float, list[float] | None]:
        """Launch once and wait; return the seconds spent waiting for earlier launches, and the seconds of each task.

        Returns:
            (seconds waited for launches before, seconds of each task; None if the device does not measure them).
        """
        begin = time.perf_counter()
        self.queue.settle()
        aside = time.perf_counter() - begin
        block = self._claim_block()
        try:
            with self._timed(block) as seconds:
                self._run_bound(block, arrays, scalars, sizes, draws)
                self.queue.settle()
                return aside, seconds()
        finally:
            self._idle.append(block)

    def _claim_block(self) -> Block:
        """Return an argument block that no launch is using, which is a new one if all blocks are in use."""
        self.queue.tidy()
        try:
            return self._idle.pop()
        except IndexError:
            return self.new_block()

    def _run_bound(self, block: Block, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Bind a block to the arguments and launch it; wait if an array is external or shared, or in debug builds."""
        block.bind(arrays, scalars, draws)
        if block.foreign:
            self._run_staged(block, arrays, scalars, sizes)
            return
        self._run(block, arrays, scalars, sizes)
        if block.is_shared or (self.options.debug and DEBUG_WAITS and not self._is_recording):
            self.queue.wait()

    def _run_staged(self, block: Block, arrays: Arrays, scalars: Scalars, sizes: Sizes) -> None:
        """Launch on device copies of the external arrays, wait, and copy the written arrays back."""
        with block.staged():
            self._run(block, arrays, scalars, sizes)
            self.queue.finish()
        self.queue.wait()

    def _run(self, block: Block, arrays: Arrays, scalars: Scalars, sizes: Sizes) -> None:
        """Place a block's adstacks in the heap and launch the block, whose arrays the device can all access."""
        if not self.layout.stacks:
            self._start(block)
            return
        placement = self._placement
        with self.heap.claimed() as heap:
            self._reader.published = sizes
            stacks.bind(block, placement, sizes, heap, placement.iterations(sizes, arrays, scalars))
            self._start(block)

    # -- ready launches ----------------------------------------------------------------------------------------

    @property
    def growths(self) -> int:
        """Return the number of launches that made the heap larger."""
        return self._placement.growths

    @property
    def address(self) -> int:
        """Return the address of the machine code `launch(block)`, which may be called while the executable lives."""
        return self._host.address

    @property
    def calls_back(self) -> bool:
        """Return True if the kernel prints; then only Python launches the kernel (see `PrintBuffer.lock`)."""
        return is_printing(self.kernel)

    @property
    def is_bound(self) -> bool:
        """Return True if argument blocks hold heap addresses, which change with the epoch of the heap."""
        return bool(self.layout.stacks)

    def on_overflow(self, explain: Explain) -> None:
        """Set the function that explains adstack overflows of this kernel in error messages.

        `explain` returns this function, or None if its owner was deleted.
        """
        self._reader.explain = explain

    def stand(self, block: Block, arrays: Arrays, scalars: Scalars, sizes: Sizes) -> bool:
        """Prepare an argument block for launches by native code; return False if that is not possible now.

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
        if block.foreign or block.is_shared or not self._prepare_ready(block):
            return False
        if self.layout.stacks:
            placement = self._placement
            with self.heap.claimed() as heap:
                if heap is not self.heap:
                    return False
                stacks.bind(block, placement, sizes, heap, placement.iterations(sizes, arrays, scalars))
        self._reader.published = sizes
        return True
