"""What a backend is: it compiles a kernel of stage tasks, structured or adjoint, and runs it on memory.

Backends know the IR and the passes, never the derivative rules. Memory is host memory in NumPy arrays here;
a device backend keeps its own buffers behind the same calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..compiler.ir.nodes import Kernel
from ..compiler.ir.types import Scalar

Arrays = Mapping[str, np.ndarray]
"""Array parameters by name: C-contiguous, of the parameter's dtype and rank, written in place."""

Scalars = Mapping[str, "int | float | bool"]
"""Scalar arguments by name."""

SLABS = ("real", "integer", "flag")
"""Adstack memory by kind of slot: f*, then i* and u*, then u1."""


def slab_of(dtype: Scalar) -> str:
    """The slab that holds slots of this type."""
    return SLABS[2] if dtype.is_bool else SLABS[0] if dtype.is_real else SLABS[1]


@dataclass(frozen=True)
class Options:
    """How to compile. debug: check indices, asserts and divisions. precise: no contraction, no approximation.

    effort: 2 for code that runs fast, 0 for code that is made fast (a seventh of the time in LLVM).
    lanes: iterations that masked code of a task runs side by side. None: as many as suit the task, from 16 iterations
    on, made when first needed; 0: no masked code; k: k lanes, a power of two, for every task that can have it, however
    few iterations.
    threads: most threads that a launch may use. Debug builds run one iteration after another: lanes 0, threads 1.
    debug_info: machine code carries the user's lines, for debuggers and profilers. deterministic: the same launches on
    the same machine give the same bits, whatever the threads do: sums over a task's iterations are added up in one
    order, and tasks in which another order of updates would show run on one thread.
    interruptible: on a CPU, loops that may run for ever look for signals too, as all code does between tasks and
    between parts of parallel loops, and a launch that they make long ends with `TooLong`, after a second or so; unless
    it is `endless`, as code is that ends by itself.
    bounds: every index is compared with the extent of its axis, unless it is proved to be inside; one that is outside
    ends the launch with an error. Debug builds look at every index.
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
    """Whether a backend can run here. If not: why, and how to get it."""

    available: bool
    version: str = ""
    reason: str = ""
    cure: str = ""


@dataclass(frozen=True)
class Sizes:
    """What is known before a launch about the adstacks of a kernel.

    capacities: slots by stack name. rows: iterations that need a row, by (task index, slab). totals: by stack name the
    sum of its depths over all iterations. iterations: of parallel tasks with stacks, where somebody has counted them.
    """

    capacities: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[tuple[int, str], int] = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)
    iterations: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Flight:
    """What a task runs at once: `lanes` iterations side by side on each of `threads`.

    claimed: rows exist only for iterations that need one; otherwise one for every place, unless none is needed at all.
    """

    threads: int = 1
    lanes: int = 1
    claimed: bool = False

    def rows(self, passing: int | None) -> int:
        """Rows held at once, if so many iterations need one."""
        places = self.threads * self.lanes
        return min(passing, places) if passing is not None and (self.claimed or not passing) else places


@dataclass(frozen=True)
class Draws:
    """Key of the random numbers of a launch."""

    seed: int = 0
    launch: int = 0


class TooLong(Exception):
    """A launch of interruptible code has ended because its loops ran for long. What it wrote is void."""


@runtime_checkable
class Limited(Protocol):
    """A backend that knows how many bytes the adstacks of a launch can have at most, and who says so."""

    def most_bytes(self) -> tuple[int, str]: ...


class Executable(Protocol):
    """A compiled kernel. growths: how often a launch of it made the adstack heap larger."""

    kernel: Kernel

    @property
    def growths(self) -> int: ...

    def run(self, arrays: Arrays, scalars: Scalars, sizes: Sizes, draws: Draws) -> None:
        """Execute once. Raises OutOfBounds, KernelAssertionError, DivisionByZero, AdstackOverflow, DeviceError."""


class Backend(Protocol):
    """One way to execute kernels. One instance per process and name."""

    name: str

    def probe(self) -> Probe:
        """Can it run here? Never raises."""

    def compile(self, kernel: Kernel, options: Options) -> Executable:
        """Compile a kernel. Raises Unsupported for what the backend declares it cannot do."""

    def rows_in_flight(self, kernel: Kernel, task: int, sizes: Sizes, options: Options) -> Flight | None:
        """What bounds the rows that a task holds at once, however many iterations need one; None: nothing."""

    def heap_report(self) -> dict[str, dict[str, int]]:
        """Adstack memory by slab: {"real": {"current": bytes, "peak": bytes}, ...}."""

    def reset(self) -> None:
        """Give all adstack memory back."""


@dataclass
class Counters:
    """What the host waited for, and copied from a device, since that was opened."""

    waits: int = 0
    readbacks: int = 0


@runtime_checkable
class Remote(Protocol):
    """What a backend has beside the methods of `Backend` if launches may be in flight when `run` returns.

    The host does not touch arrays then, but asks for what it wants of them. Whatever follows launches raises what went
    wrong in them.
    """

    @property
    def counters(self) -> Counters: ...

    def wait(self) -> None:
        """For all launches, if any may be in flight: then arrays can be touched, until the next one."""

    def is_own(self, array: np.ndarray) -> bool:
        """Whether launches use the array in place."""

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """A new array that launches use in place. Raises DeviceError if there is not enough memory."""

    def borrow(self, interface: Mapping[str, Any], lender: Any, stream: int | None) -> np.ndarray:
        """An array over memory of the device of another library, as `__cuda_array_interface__` describes it.

        lender: kept alive. stream: with whose work launches are ordered; None if that is over. Raises ValueError.
        """

    def interface(self, array: np.ndarray) -> dict[str, Any]:
        """`__cuda_array_interface__` of an array of the backend."""

    def duplicate(self, array: np.ndarray) -> np.ndarray:
        """A copy behind all launches, made by the device, that launches use in place."""

    def item(self, array: np.ndarray, place: tuple[int, ...]) -> Any:
        """An element behind all launches, as a Python number."""

    def fetch(self, array: np.ndarray) -> np.ndarray:
        """A copy behind all launches, in memory of the host."""

    def assign(self, array: np.ndarray, place: Any, value: Any) -> None:
        """`array[place] = value`, of the array's type, behind all launches."""

    def share(self, array: np.ndarray) -> None:
        """From now on others may touch the memory without asking: launches that use it are over when they return."""

    def fill(self, array: np.ndarray, value: Any) -> None:
        """Overwrite every element with one number, behind all launches."""
