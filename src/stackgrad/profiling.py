"""`sg.profile()`: how long kernels and their tasks ran, how often, and how much adstack memory they used.

Invariant: while no profile is being taken a launch costs what it costs without this module; while one is, every launch
goes through Python and is timed, the counting kernels that size adstacks among them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from .backends import profiling
from .backends.profiling import Tasks
from .backends.usage import SlabUse
from .compiler.ir.nodes import Kernel, Task
from .session import RUNTIME
from .usage import UsageError


@dataclass(frozen=True)
class TaskProfile:
    """One task of a kernel. seconds: None where the backend cannot tell tasks apart. bytes: of adstack memory, the most
    of a launch. place: file and line of its loop, if it has them.
    """

    task: int
    kind: str
    place: str
    launches: int
    seconds: float | None
    bytes: int


@dataclass(frozen=True)
class KernelProfile:
    """One kernel: `k`, its gradient `k.grad`, or what counts for it, `k.grad.count`. seconds: of all its launches.

    bytes: of adstack memory, the most of a launch; its tasks run one after another and share it.
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
        """Seconds of a launch."""
        return self.seconds / self.launches


@dataclass
class _Sum:
    """What is known of one kernel so far. ticks: seconds by task; None once a launch could not tell."""

    kernel: Kernel
    launches: int = 0
    seconds: float = 0.0
    least: float = float("inf")
    most: float = 0.0
    by_task: list[float] | None = None
    bytes: int = 0
    task_bytes: dict[int, int] = field(default_factory=dict)

    def add(self, seconds: float, tasks: Tasks, uses: Sequence[SlabUse]) -> None:
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
        tasks: dict[int, int] = {}
        slabs: dict[str, int] = {}
        for use in uses:
            tasks[use.task] = tasks.get(use.task, 0) + use.bytes
            slabs[use.slab] = max(slabs.get(use.slab, 0), use.bytes)
        for task, count in tasks.items():
            self.task_bytes[task] = max(self.task_bytes.get(task, 0), count)
        self.bytes = max(self.bytes, sum(slabs.values()))

    def profile(self) -> KernelProfile:
        tasks = tuple(self._task(number, task) for number, task in enumerate(self.kernel.tasks))
        return KernelProfile(self.kernel.name, self.launches, self.seconds, self.least, self.most, self.bytes, tasks)

    def _task(self, number: int, task: Task) -> TaskProfile:
        span = self.kernel.span(task.loc) or next((s for s in map(self._span, task.body) if s), None)
        place = f"{span.file}:{span.line}" if span else ""
        seconds = None if self.by_task is None else self.by_task[number]
        kind = "parallel" if task.is_parallel else "serial"
        return TaskProfile(number, kind, place, self.launches, seconds, self.task_bytes.get(number, 0))

    def _span(self, stmt: Any) -> Any:
        return self.kernel.span(stmt.loc)


class Profile:
    """Takes a profile between `start` and `stop`, or inside `with`; shown by `print`. Started again, it goes on.

    A launch that raises is not counted. Times of a kernel are those of the launch on the backend with its preparation
    (arguments, adstack memory), without tracing, compilation and counting; counting kernels have rows of their own.
    """

    def __init__(self) -> None:
        self._sums: dict[int, _Sum] = {}
        self._lock = threading.Lock()
        self._active = False

    # -- taking it ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Count launches from here on. Raises UsageError if it is counting already."""
        if self._active:
            raise UsageError("this profile is being taken already", "stop it first, or take another one beside it")
        self._active = True
        profiling.collect(self)
        RUNTIME.profiles = (*RUNTIME.profiles, self)

    def stop(self) -> None:
        """Count no longer."""
        self._active = False
        profiling.dismiss(self)
        RUNTIME.profiles = tuple(p for p in RUNTIME.profiles if p is not self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def add(self, kernel: Kernel, seconds: float, tasks: Tasks, uses: Sequence[SlabUse]) -> None:
        """A launch; for backends."""
        with self._lock:
            found = self._sums.get(id(kernel))
            if found is None:
                found = self._sums[id(kernel)] = _Sum(kernel)  # it holds the kernel: no other one gets its id
            found.add(seconds, tasks, uses)

    def clear(self) -> None:
        """Forget what was counted."""
        with self._lock:
            self._sums.clear()

    # -- reading it -----------------------------------------------------------------------------------------

    @property
    def kernels(self) -> tuple[KernelProfile, ...]:
        """One for each kernel that ran, the longest first. Kernels of one name, such as those traced for different
        arguments, have one each.
        """
        with self._lock:
            found = [one.profile() for one in self._sums.values()]
        return tuple(sorted(found, key=lambda k: -k.seconds))

    @property
    def seconds(self) -> float:
        """Of all launches."""
        return sum(kernel.seconds for kernel in self.kernels)

    @property
    def launches(self) -> int:
        """Of all kernels."""
        return sum(kernel.launches for kernel in self.kernels)

    def __str__(self) -> str:
        return "\n".join(_table(self.kernels))


def profile() -> Profile:
    """A profile: `with sg.profile() as p: ...`, then `print(p)`, or `p.kernels` for the numbers.

    For each kernel launched inside: launches, time, share, mean, least and most, adstack memory; the time, share and
    adstack memory of each of its tasks where the backend knows them (cpu).
    """
    return Profile()


# ---- text ---------------------------------------------------------------------------------------------------

_HEADS = ("kernel, task", "launches", "time", "share", "mean", "least", "most", "adstacks", "")


def _table(kernels: Sequence[KernelProfile]) -> Iterator[str]:
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
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3f} {unit}"
    return f"{seconds / 1e-6:.2f} us"


def _share(seconds: float, total: float) -> str:
    return f"{seconds / total:.1%}" if total > 0 else ""


def _bytes(count: int) -> str:
    return f"{count} B" if count else ""
