"""Implement `sg.profile()`, which measures run times, launches and adstack memory of kernels and their tasks.

Invariant: while no profile is active, a launch costs what it would cost without this module. While one is active, every
launch goes through Python and is timed, those of the counting kernels that size adstacks included.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from ..backends.launching import launch_collectors
from ..backends.launching.adstack_usage import SlabUse
from ..backends.launching.launch_collectors import Tasks
from ..compiler.ir.kernels import Kernel, Task
from .session import RUNTIME
from .usage_errors import UsageError


@dataclass(frozen=True)
class TaskProfile:
    """Represent the measured launches, run time and adstack bytes of one task of a kernel.

    Attributes:
        task: Number of the task.
        kind: "parallel" or "serial".
        place: File and line of its loop, or an empty text.
        launches: Number of launches.
        seconds: Seconds of all launches, or None where the backend cannot tell tasks apart.
        bytes: Bytes of adstack memory, the maximum over all launches.
    """

    task: int
    kind: str
    place: str
    launches: int
    seconds: float | None
    bytes: int


@dataclass(frozen=True)
class KernelProfile:
    """Represent measured launches, run time and adstack bytes of one kernel: `k`, `k.grad` or its counting kernel.

    Attributes:
        name: The name of the kernel.
        launches: Number of launches.
        seconds: Seconds of all launches.
        least: Seconds of the fastest launch.
        most: Seconds of the slowest launch.
        bytes: Bytes of adstack memory, the maximum over all launches. Tasks run one after another and share memory.
        tasks: The profiles of the tasks.
    """

    name: str
    launches: int
    seconds: float
    least: float
    most: float
    bytes: int
    tasks: tuple[TaskProfile, ...]

    @property
    def mean(self) -> float:
        """Return the average time of a launch in seconds."""
        return self.seconds / self.launches


@dataclass
class _KernelTotals:
    """Accumulate the launches, run times and adstack bytes of one kernel.

    Attributes:
        kernel: The kernel.
        launches: Number of launches.
        seconds: Seconds of all launches.
        least: Seconds of the fastest launch.
        most: Seconds of the slowest launch.
        by_task: Seconds of each task; None before the first launch, and after a launch that could not tell tasks apart.
        bytes: Bytes of adstack memory, the maximum over all launches.
        task_bytes: The same maximum for each task by number.
    """

    kernel: Kernel
    launches: int = 0
    seconds: float = 0.0
    least: float = float("inf")
    most: float = 0.0
    by_task: list[float] | None = None
    bytes: int = 0
    task_bytes: dict[int, int] = field(default_factory=dict)

    def add(self, seconds: float, tasks: Tasks, uses: Sequence[SlabUse]) -> None:
        """Add the run time and adstack memory of one launch."""
        if tasks is None or self.launches and self.by_task is None:
            self.by_task = None
        else:
            before = self.by_task or [0.0] * len(tasks)
            self.by_task = [a + b for a, b in zip(before, tasks)]
        self.launches += 1
        self.seconds += seconds
        self.least, self.most = min(self.least, seconds), max(self.most, seconds)
        self._add_bytes(uses)

    def _add_bytes(self, uses: Sequence[SlabUse]) -> None:
        """Update the maximum adstack memory of the kernel and of its tasks."""
        tasks: dict[int, int] = {}
        # Tasks share a slab, so the need of a launch is the sum over slabs of the largest need of a task.
        slabs: dict[str, int] = {}
        for use in uses:
            tasks[use.task] = tasks.get(use.task, 0) + use.bytes
            slabs[use.slab] = max(slabs.get(use.slab, 0), use.bytes)
        for task, count in tasks.items():
            self.task_bytes[task] = max(self.task_bytes.get(task, 0), count)
        self.bytes = max(self.bytes, sum(slabs.values()))

    def profile(self) -> KernelProfile:
        """Return the accumulated totals of the kernel as a profile."""
        tasks = tuple(self._task(number, task) for number, task in enumerate(self.kernel.tasks))
        return KernelProfile(self.kernel.name, self.launches, self.seconds, self.least, self.most, self.bytes, tasks)

    def _task(self, number: int, task: Task) -> TaskProfile:
        """Return the accumulated totals of one task as a profile."""
        span = self.kernel.span(task.loc) or next((s for s in map(self._span, task.body) if s), None)
        place = f"{span.file}:{span.line}" if span else ""
        seconds = None if self.by_task is None else self.by_task[number]
        kind = "parallel" if task.is_parallel else "serial"
        return TaskProfile(number, kind, place, self.launches, seconds, self.task_bytes.get(number, 0))

    def _span(self, stmt: Any) -> Any:
        return self.kernel.span(stmt.loc)


class Profile:
    """Measure the launches, times and adstack bytes of all kernels between `start` and `stop` or in a `with` block.

    A profile that is started again adds to its measurements. A launch that raises is not counted. The time of a kernel
    is that of the launch on the backend with its preparation (arguments, adstack memory), without tracing, compilation
    and counting; counting kernels are listed separately.
    """

    def __init__(self) -> None:
        self._sums: dict[int, _KernelTotals] = {}
        self._lock = threading.Lock()
        self._active = False

    # -- taking it ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to measure launches.

        Raises:
            UsageError: The profile is counting already.
        """
        if self._active:
            raise UsageError("this profile is being taken already", "stop it first, or take another one beside it")
        self._active = True
        launch_collectors.add_collector(self)
        RUNTIME.profiles = (*RUNTIME.profiles, self)

    def stop(self) -> None:
        """Stop measuring launches."""
        self._active = False
        launch_collectors.remove_collector(self)
        RUNTIME.profiles = tuple(p for p in RUNTIME.profiles if p is not self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def add(self, kernel: Kernel, seconds: float, tasks: Tasks, uses: Sequence[SlabUse]) -> None:
        """Add the run time and adstack memory of one launch; backends call this method."""
        with self._lock:
            found = self._sums.get(id(kernel))
            if found is None:
                found = self._sums[id(kernel)] = _KernelTotals(
                    kernel
                )  # The sum holds the kernel, so its id stays unique.
            found.add(seconds, tasks, uses)

    def clear(self) -> None:
        """Discard all measurements made so far."""
        with self._lock:
            self._sums.clear()

    # -- reading it -----------------------------------------------------------------------------------------

    @property
    def kernels(self) -> tuple[KernelProfile, ...]:
        """Return the profiles of all kernels that ran, in descending order of their time.

        Kernels of one name, such as those traced for different arguments, have a profile each.
        """
        with self._lock:
            found = [one.profile() for one in self._sums.values()]
        return tuple(sorted(found, key=lambda k: -k.seconds))

    @property
    def seconds(self) -> float:
        """Return the total time of all launches in seconds."""
        return sum(kernel.seconds for kernel in self.kernels)

    @property
    def launches(self) -> int:
        """Return the number of launches of all kernels."""
        return sum(kernel.launches for kernel in self.kernels)

    def __str__(self) -> str:
        return "\n".join(_table(self.kernels))


def profile() -> Profile:
    """Return a new profile, a context manager that measures the launches inside its `with` block.

        with sg.profile() as p:
            step()
        print(p)

    For each kernel launched inside, the table shows launches, time, share, mean, least and most, and adstack memory.
    For each of its tasks it shows time, share and adstack memory where the backend knows them (cpu). `p.kernels` holds
    the numbers.
    """
    return Profile()


# ---- text ---------------------------------------------------------------------------------------------------

_HEADS = ("kernel, task", "launches", "time", "share", "mean", "least", "most", "adstacks", "")


def _table(kernels: Sequence[KernelProfile]) -> Iterator[str]:
    """Yield the lines of the table that shows these profiles."""
    if not kernels:
        yield "no kernel was launched"
        return
    total = sum(kernel.seconds for kernel in kernels)
    rows = [_HEADS, *(row for kernel in kernels for row in _rows(kernel, total))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:])), row[-1]]
        yield "  ".join(cells).rstrip()


def _rows(kernel: KernelProfile, total: float) -> Iterator[tuple[str, ...]]:
    """Yield the cells of the rows of one kernel and its tasks; `total` is the time of all kernels in seconds."""
    times = [_time(t) for t in (kernel.mean, kernel.least, kernel.most)]
    yield (
        kernel.name,
        str(kernel.launches),
        _time(kernel.seconds),
        _share(kernel.seconds, total),
        *times,
        _bytes(kernel.bytes),
        "",
    )
    for task in kernel.tasks if len(kernel.tasks) > 1 or kernel.bytes else ():
        seconds = task.seconds
        time, share, mean = (
            ("", "", "")
            if seconds is None
            else (_time(seconds), _share(seconds, total), _time(seconds / task.launches))
        )
        yield (f"  {task.kind} {task.task}", "", time, share, mean, "", "", _bytes(task.bytes), task.place)


def _time(seconds: float) -> str:
    """Return a time in seconds as a text with a unit."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3f} {unit}"
    return f"{seconds / 1e-6:.2f} us"


def _share(seconds: float, total: float) -> str:
    return f"{seconds / total:.1%}" if total > 0 else ""


def _bytes(count: int) -> str:
    return f"{count} B" if count else ""
