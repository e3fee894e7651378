"""Define the interface of backends: a backend compiles a kernel of stage tasks, structured or adjoint, and runs it.

Backends know the IR and the passes, never the derivative rules. In this interface, memory is host memory in NumPy
arrays; a device backend keeps its own buffers behind the same calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..compiler.ir.kernels import Kernel
from ..compiler.ir.types import Scalar

Arrays = Mapping[str, np.ndarray]
"""The type of array parameters by name: C-contiguous, of the parameter's dtype and rank, written in place."""

Scalars = Mapping[str, "int | float | bool"]
"""The type of scalar arguments by name."""

SLABS = ("real", "integer", "flag")
"""Names of the slabs, by kind of slot: first reals (f*), then integers (i* and u*), then flags (u1)."""


def slab_of(dtype: Scalar) -> str:
    """Return the name of the slab that holds slots of this dtype."""
    return SLABS[2] if dtype.is_bool else SLABS[0] if dtype.is_real else SLABS[1]


@dataclass(frozen=True)
class Options:
    """Represent the options of compilation: precision, checks, vector lanes, threads, determinism.

    Attributes:
        debug: check indices, asserts and divisions; iterations run one after another (lanes 0, threads 1)
        precise: no contraction and no approximation
        effort: 2 for code that runs fast, 0 for code that is made fast (in a seventh of the time in LLVM)
        lanes: iterations that masked code of a task runs side by side; None: as many as suit the task, from 16
            iterations on, made when first needed; 0: no masked code; k: k lanes, a power of two, for every task that
            can have them
        threads: greatest number of threads of a launch
        debug_info: machine code carries the user's lines, for debuggers and profilers
        deterministic: the same launches on the same machine give the same bits for any schedule of threads: sums over
            iterations are added up in one order, and tasks in which another order would show run on one thread
        interruptible: on a CPU, loops that may run forever also look for signals, as all code does between tasks and
            between parts of parallel loops, and a launch that they make long ends with `LaunchTooLong` after about a
            second
        endless: interruptible code is not ended with `LaunchTooLong`, because it ends by itself
        bounds: compare every index with the extent of its axis unless it is proved to be inside, and end the launch
            with an error if an index is outside; debug builds compare every index
    """

    debug: bool = False
    precise: bool = True
    effort: int = 2
    lanes: int | None = None
    threads: int = 1
    debug_info: bool = False
    deterministic: bool = False
    interruptible: bool = False
    endless: bool = False
    bounds: bool = True

    def __post_init__(self) -> None:
        if self.lanes and self.lanes & (self.lanes - 1):
            raise ValueError(f"lanes cannot be {self.lanes}: vectors in memory have a power of two")
        if self.debug:
            object.__setattr__(self, "lanes", 0)
            object.__setattr__(self, "threads", 1)


@dataclass(frozen=True)
class Probe:
    """Represent the answer to whether a backend can run on this machine, with a reason and a cure if it cannot.

    Attributes:
        available: True if it can
        version: version of the backend's driver or library
        reason: why it cannot run
        cure: how to make it run
    """

    available: bool
    version: str = ""
    reason: str = ""
    cure: str = ""


@dataclass(frozen=True)
class Sizes:
    """Represent the sizes of a kernel's adstacks for one launch: slots per iteration, and numbers of rows.

    Attributes:
        capacities: slots by stack name
        rows: iterations that need a row, by task index and slab
        totals: sum of the depths of a stack over all iterations, by stack name
        iterations: iterations of parallel tasks with stacks, by task, where they were counted
    """

    capacities: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[tuple[int, str], int] = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)
    iterations: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Concurrency:
    """Represent how many iterations of a task run at the same time: `lanes` on each of `threads` threads.

    Attributes:
        threads: threads that run the task
        lanes: lanes of each thread
        claimed: rows exist only for iterations that need one; otherwise every lane of every thread has a row, unless no
            iteration needs a row
    """

    threads: int = 1
    lanes: int = 1
    claimed: bool = False

    def rows(self, passing: int | None) -> int:
        """Return how many adstack rows are in use at once if `passing` iterations need one (None: unknown number)."""
        places = self.threads * self.lanes
        return min(passing, places) if passing is not None and (self.claimed or not passing) else places


@dataclass(frozen=True)
class Draws:
    """Represent the seed and the launch number from which all random numbers of a launch follow.

    Attributes:
        seed: seed of the runtime
        launch: number of the launch
    """

    seed: int = 0
    launch: int = 0


class LaunchTooLong(Exception):
    """Signal that a launch of interruptible code ran too long and was ended; its results are invalid."""


@runtime_checkable
class MemoryLimited(Protocol):
    """Define the interface of a backend that has a limit on the adstack bytes of one launch."""

    def most_bytes(self) -> tuple[int, str]:
        """Return the greatest number of adstack bytes of one launch, and a text that names the cause of this limit."""
        ...


class Executable(Protocol):
    """Define the interface of a compiled kernel, which a backend's `compile` returns.

    Attributes:
        kernel: kernel that was compiled
    """

    kernel: Kernel

    @property
    def growths(self) -> int:
        """Return the number of launches for which the adstack heap was made larger."""
        ...

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Run the kernel once on the given arrays and scalars.

        Raises:
            OutOfBounds, KernelAssertionError, DivisionByZero, AdstackOverflow: for a trap in the kernel
            DeviceError: if the launch is impossible
        """


class Backend(Protocol):
    """Define the interface of a backend; there is one instance per process and backend name.

    Attributes:
        name: name of the backend
        blocks: how the backend runs blocks, a key of `BLOCKS` of the driver
    """

    name: str
    blocks: str

    def probe(self) -> Probe:
        """Return a Probe that says whether the backend can run on this machine. Never raise an exception."""

    def compile(self, kernel: Kernel, options: Options) -> Executable:
        """Compile a kernel and return the executable. Raise Unsupported if the backend cannot run the kernel."""

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Concurrency | None:
        """Return an upper bound of a task's rows in use at once, or None if its iteration count is the only bound."""

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Return the adstack memory by slab: {"real": {"current": bytes, "peak": bytes}, ...}."""

    def reset(self) -> None:
        """Free all adstack memory of the backend."""


@dataclass
class DeviceCounters:
    """Represent the numbers of waits for a device and of copies from the device since it was opened.

    Attributes:
        waits: waits for the device
        readbacks: copies from the device
    """

    waits: int = 0
    readbacks: int = 0


@runtime_checkable
class Remote(Protocol):
    """Define the additional interface of a backend whose `run` may return before the launch is over.

    The host does not touch arrays of this backend, but asks for their contents by these methods. Each method that waits
    for launches raises an error that occurred in one.
    """

    @property
    def counters(self) -> DeviceCounters:
        """Return the numbers of waits for the device and of copies from the device."""
        ...

    def wait(self) -> None:
        """Wait until all launches are over; then the host may access arrays until the next launch."""

    def is_own(self, array: np.ndarray) -> bool:
        """Return True if launches use the array in place, without a copy."""

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return a new array that launches use in place, or raise DeviceError if there is not enough memory."""

    def borrow(self, interface: Mapping[str, Any], lender: Any, stream: int | None) -> np.ndarray:
        """Return an array over device memory of another library, described by its `__cuda_array_interface__`.

        Args:
            interface: description of the memory, a `__cuda_array_interface__`
            lender: object that owns the memory, which is kept alive
            stream: stream with whose work launches are ordered; None if this work is over

        Raises:
            ValueError: if the memory cannot be used
        """

    def interface(self, array: np.ndarray) -> dict[str, Any]:
        """Return the `__cuda_array_interface__` of an array of the backend."""

    def duplicate(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of the array that is made on the device after all launches and that launches use in place."""

    def item(self, array: np.ndarray, place: tuple[int, ...]) -> Any:
        """Return the element at the indices `place` as a Python number, read after all launches are over."""

    def fetch(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of a device array in host memory, made after all launches are over."""

    def assign(self, array: np.ndarray, place: Any, value: Any) -> None:
        """Store `value`, converted to the array's dtype, in `array[place]`, after all launches."""

    def share(self, array: np.ndarray) -> None:
        """Make later launches on an array end before their calls return, because foreign code uses the array too.

        From now on, launches that use this memory are over when they return.
        """

    def fill(self, array: np.ndarray, value: Any) -> None:
        """Overwrite every element of an array with one number, after all launches."""
