"""This module runs recorded launches of a program again on every executor and reports how the results compare.

Invariant: each specialization of a kernel has a row of the report for both directions, whatever became of its launches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...compiler.ir.kernels import Kernel
from ...compiler.ir.printer import print_kernel
from ...compiler.ir.walk import renumber
from .launch import CapturedLike
from .replay import Direction, ExecutorPanel, ReplayCase, replay
from .report import REFERENCE, CheckReport, ReportedFault, ReportRow, make_row

Progress = Callable[[int, int, str], None]
"""A function that is called with the number of launches done, the number of all launches, and the current one."""


def group_by_kernel(launches: Iterable[CapturedLike]) -> dict[str, list[CapturedLike]]:
    """Return launches grouped by name of their kernel; different kernels of one name get a numbered name."""
    texts: dict[str, str] = {}
    found: dict[str, list[CapturedLike]] = {}
    for launch in launches:
        text = print_kernel(renumber(launch.kernel))
        if text not in texts:
            taken = sum(name.partition("#")[0] == launch.kernel.name for name in texts.values())
            texts[text] = f"{launch.kernel.name}#{taken + 1}" if taken else launch.kernel.name
        found.setdefault(texts[text], []).append(launch)
    return found


def check_launches(
    program: str,
    launches: Sequence[CapturedLike],
    panel: ExecutorPanel,
    totals: Mapping[tuple[str, str], int] | None = None,
    findings: Sequence[ReportedFault] = (),
    error: str | None = None,
    absent: Mapping[str, str] | None = None,
    progress: Progress = lambda done, total, text: None,
) -> CheckReport:
    """Run recorded launches on a panel of executors, compare the results, and return the report.

    Everything that goes wrong stands in the report, so this function raises nothing.

    Args:
        program: the name of the program, for the report.
        launches: the recorded launches.
        panel: the executors to replay on.
        totals: the number of launches by (kernel name, kind), if the program made more than were recorded.
        findings: problems that were seen while the program ran.
        error: the exception that ended the program, as text.
        absent: backends that cannot run on this machine, with the reason.
        progress: is called before each launch and at the end.
    """
    report = CheckReport(program, findings=list(findings), error=error, absent=absent or {})
    done = 0
    for name, recorded in group_by_kernel(launches).items():
        cases: list[ReplayCase] = []
        for launch in recorded:
            progress(done, len(launches), f"{name} ({launch.kind})")
            cases += replay(_shared(launch, recorded[0].kernel), panel)
            report.findings += _trapped(launch)
            done += 1
        report.counts.update(c.verdict for case in cases for c in case.comparisons)
        report.rows += _rows(name, recorded, cases, totals or {})
    progress(done, len(launches), "")
    names = [n for row in report.rows for n in row.cells]
    report.executors = tuple(dict.fromkeys((REFERENCE, *(e.name for e in panel.judged), panel.oracle.name, *names)))
    return report


class _Shared:
    """A `_Shared` is a recorded launch that refers to an equal kernel of an earlier launch, compiled already."""

    def __init__(self, launch: CapturedLike, kernel: Kernel) -> None:
        self.kernel = kernel
        self.kind, self.scalars, self.draws = launch.kind, launch.scalars, launch.draws
        self.before, self.after, self.error = launch.before, launch.after, launch.error


def _shared(launch: CapturedLike, kernel: Kernel) -> CapturedLike:
    return launch if launch.kernel is kernel or launch.kernel != kernel else _Shared(launch, kernel)


def _trapped(launch: CapturedLike) -> list[ReportedFault]:
    if launch.error is None:
        return []
    return [ReportedFault(f"{launch.kernel.name} ({launch.kind}) raised: {launch.error}", launch.kernel.name)]


def _rows(
    name: str, recorded: Sequence[CapturedLike], cases: Sequence[ReplayCase], totals: Mapping[tuple[str, str], int]
) -> list[ReportRow]:
    rows = []
    kinds = Counter(launch.kind for launch in recorded)
    directions: tuple[Direction, ...] = ("forward", "reverse")
    for direction in directions:
        mine = [c for c in cases if c.direction == direction]
        if mine:
            launches = totals.get((recorded[0].kernel.name, direction), kinds[direction])
            rows.append(make_row(name, mine, launches))
    return rows
