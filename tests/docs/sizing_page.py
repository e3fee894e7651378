"""Write docs/sizing_paths.md from measurements of launches:  python tests/docs/sizing_page.py

The page is never edited by hand: a test fails if it differs from what this module generates. The module launches each
kernel of sizing_kernels.py on each backend, and counts the copies and waits of finding adstack sizes, besides the
counters of the kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

_HERE = Path(__file__).resolve().parent
for folder in (_HERE, _HERE.parent):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

import stackgrad as sg  # noqa: E402
from sizing_kernels import PROGRAMS, Program  # noqa: E402
from stackgrad.backends import registry  # noqa: E402
from stackgrad.backends.launching.launcher import Launcher  # noqa: E402
from stackgrad.backends.launching.prelaunch import CountingLaunch  # noqa: E402
from stackgrad.backends.vulkan import staging, windows  # noqa: E402
from stackgrad.backends.vulkan.access import HostAccess  # noqa: E402
from stackgrad.backends.vulkan.backend import VulkanBackend  # noqa: E402
from stackgrad.harness.testing.emulated_cuda.backend import EmulatedCuda  # noqa: E402

PAGE = _HERE.parents[1] / "docs" / "sizing_paths.md"

HEAD = """\
# What finding sizes costs

How deep adstacks are is found before a launch ([sizing.md](sizing.md)). This page says what that copies and
waits for, on each backend, by what bounds the loop of a kernel. It is generated: the kernels of
`tests/docs/sizing_kernels.py`, of 40 iterations, were launched, forward and then the gradient, and what the
gradient did before it could start was counted. After a change run `python tests/docs/sizing_page.py`; a test
fails while the page says something else.

*expression*: found by the size expressions of the kernel. *counted*: by its counting kernel, on the device if
there is one. *cached*: nothing was looked at. *wait*: the host waited until the device had done what it was
given before. *to device*, *to host*: bytes that went there; the counting kernel is given arrays to count into,
of which there is one for depths, one for rows and one for totals. On Vulkan the host reads a single element
where it lies, which is counted too. *duplicated*: bytes of what a gradient itself writes and its bounds depend
on, of which the counting kernel has a copy; nothing here is, for a gradient reads what the forward launch has
left. An array that the forward launch writes is looked at behind each.

`cuda` is the emulated driver, `vulkan` any device with buffer addresses, `descriptors` one without them
([vulkan.md](vulkan.md#without-buffer-addresses)), where the counting kernel works on copies of all that it
reads. `metal` and `amdgpu` launch nothing. An adstack heap that has to grow costs a wait of its own, once.
"""

PHASES = {
    "first": "The first gradient",
    "again": "A launch like the one before",
    "changed": "When what bounds the loop has changed",
}

NO_CHANGE = "—"


@dataclass(frozen=True)
class Column:
    """Represent a backend of the page: its name for `init`, and a function that makes a new one, or None."""

    name: str
    arch: str
    make: Callable[[], Any] | None = None


COLUMNS = (
    Column("reference", "reference"),
    Column("cpu", "cpu"),
    Column("cuda", "cuda", EmulatedCuda),
    Column("vulkan", "vulkan", partial(VulkanBackend, masked=())),
    Column("descriptors", "vulkan", partial(VulkanBackend, masked=("buffer_addresses",))),
)


# ---- counting -----------------------------------------------------------------------------------------------------


@dataclass
class Meter:
    """Count the bytes that are copied; `looking` is True while adstack sizes are being found."""

    looking: bool = False
    device: int = 0
    host: int = 0
    duplicated: int = 0
    launches: int = 0

    def add(self, kind: str, size: int) -> None:
        """Count some copied bytes."""
        name = kind if self.looking else "launches"
        setattr(self, name, getattr(self, name) + size)


Size = Callable[..., int]


@contextmanager
def metered(backend: Any) -> Iterator[Meter]:
    """Count all copies inside the `with` block, wherever they are made."""
    meter = Meter()
    watched: list[tuple[Any, str, str, Size]] = [
        (CountingLaunch, "copy", "duplicated", lambda self, array: array.nbytes),
        (staging.StagedRange, "copy_in", "device", lambda run: run.end - run.begin),
        (staging.StagedRange, "copy_out", "host", lambda run, address, size: size),
        (windows.Windows, "copy_in", "device", lambda self: sum(run.end - run.begin for run in self._runs)),
        (windows.Windows, "copy_out", "host", lambda self, name: self.arrays[name].nbytes),
        (HostAccess, "item", "host", lambda self, array, place: array.itemsize),
        (HostAccess, "fetch", "host", lambda self, array: array.nbytes),
    ]
    if isinstance(backend, EmulatedCuda):
        watched += [
            (backend.emulator, "copy_in", "device", lambda to, source, size, *rest: size),
            (backend.emulator, "copy_out", "host", lambda to, source, size, *rest: size),
        ]
    with ExitStack() as stack:
        for owner, name, kind, size in watched:
            stack.enter_context(patch.object(owner, name, _counted(getattr(owner, name), meter, kind, size)))
        stack.enter_context(patch.object(Launcher, "_look", _marked(Launcher._look, meter)))
        yield meter


def _counted(made: Any, meter: Meter, kind: str, size: Size) -> Any:
    def call(*args: Any) -> Any:
        meter.add(kind, size(*args))
        return made(*args)

    return call


def _marked(look: Any, meter: Meter) -> Any:
    def call(*args: Any) -> Any:
        meter.looking = True
        try:
            return look(*args)
        finally:
            meter.looking = False

    return call


# ---- cells --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """The cost of one gradient: how sizes were found, and waits and bytes of finding sizes and of the launch."""

    source: str
    waits: int
    device: int
    host: int
    duplicated: int
    launch_waits: int = 0
    launch_bytes: int = 0

    def __str__(self) -> str:
        parts = [self.source] + [f"{self.waits} wait" + "s" * (self.waits > 1)] * (self.waits > 0)
        sizes = (("to device", self.device), ("to host", self.host), ("duplicated", self.duplicated))
        return ", ".join([*parts, *(f"{size} B {word}" for word, size in sizes if size)])


def cost(program: Program, backend: Any) -> Cost:
    """Launch a kernel and then its gradient, and return the cost of the gradient."""
    program.forward()
    counters = getattr(backend, "counters", None)
    before, waits = program.kernel.stats(), counters.waits if counters else 0
    with metered(backend) as meter:
        program.reverse()
    now = program.kernel.stats()
    looked = now.waits - before.waits
    kinds = {"expression": "evaluations", "counted": "countings", "cached": "cache_hits"}
    (source,) = (kind for kind, name in kinds.items() if getattr(now, name) - getattr(before, name) == 1)
    rest = (counters.waits if counters else 0) - waits - looked
    return Cost(source, looked, meter.device, meter.host, meter.duplicated, rest, meter.launches)


def costs(make: Callable[[], Program], backend: Any) -> dict[str, Cost | None]:
    """Return the costs by phase."""
    program = make()
    found: dict[str, Cost | None] = {"first": cost(program, backend)}
    for _ in range(3):
        cost(program, backend)
    found["again"] = cost(program, backend)
    if program.change is not None:
        program.change()
    found["changed"] = None if program.change is None else cost(program, backend)
    return found


@contextmanager
def runtime(column: Column) -> Iterator[Any]:
    """Return the backend of a column, for `init`."""
    before = registry._instances.get(column.arch)
    backend = registry.get(column.arch) if column.make is None else column.make()
    registry.put(column.arch, backend)
    try:
        sg.init(arch=column.arch)
        yield backend
    finally:
        sg.reset()
        if before is None:
            registry._instances.pop(column.arch)
        else:
            registry.put(column.arch, before)


def measured(column: Column) -> dict[str, dict[str, Cost | None]]:
    """Return the costs by path and phase."""
    with runtime(column) as backend:
        return {str(make.__doc__): costs(make, backend) for make in PROGRAMS}


# ---- the page -----------------------------------------------------------------------------------------------------

Cells = Mapping[str, Mapping[str, Mapping[str, str]]]
"""By phase, path and backend."""


def cells(found: Mapping[str, Mapping[str, Mapping[str, Cost | None]]]) -> Cells:
    """Return the cells of the page, from the costs by backend, path and phase."""
    return {
        phase: {
            path: {name: NO_CHANGE if (c := of[path][phase]) is None else str(c) for name, of in found.items()}
            for path in (str(make.__doc__) for make in PROGRAMS)
        }
        for phase in PHASES
    }


def text(made: Cells) -> str:
    """Return the text of the whole page."""
    names = [column.name for column in COLUMNS]
    parts = [HEAD]
    for phase, title in PHASES.items():
        parts += [f"## {title}\n", f"| bound | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
        for path, row in made[phase].items():
            if set(row.values()) != {NO_CHANGE}:
                parts.append(f"| {path} | {' | '.join(row[name] for name in names)} |")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def read(page: str) -> dict[str, dict[str, dict[str, str]]]:
    """Return the cells that a page shows."""
    titles, found, phase = {title: phase for phase, title in PHASES.items()}, {}, ""
    for line in page.splitlines():
        phase = titles.get(line.removeprefix("## "), phase)
        if phase and line.startswith("| ") and not line.startswith("| bound"):
            path, *row = line.strip("| ").split(" | ")
            found.setdefault(phase, {})[path] = dict(zip((c.name for c in COLUMNS), row))
    return found


if __name__ == "__main__":
    PAGE.write_text(text(cells({column.name: measured(column) for column in COLUMNS})), encoding="utf-8")
