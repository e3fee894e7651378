"""The table of features tells how many cases have each one, how many are decided, and of how many an oracle judged."""

from __future__ import annotations

import pytest
from stackgrad.harness.tools.fuzz.coverage import KINDS, FeatureCounts
from stackgrad.harness.tools.fuzz.result import CaseFeatures, CaseResult, JudgedComparison
from stackgrad.harness.tools.fuzz.statistics import Statistics
from stackgrad.harness.tools.strategies import SHAPES


def judged(executor: str, verdict: str, direction: str = "reverse") -> JudgedComparison:
    return JudgedComparison(direction, executor, "lean", verdict)  # type: ignore[arg-type]


FEATURES = CaseFeatures(tags=frozenset({"sin f64"}))
RESULTS = (
    CaseResult((judged("dual", "ok"), judged("cpu", "ok")), FEATURES, shapes=frozenset({"while", "view"})),
    CaseResult((judged("dual", "poisoned"), judged("cpu", "poisoned")), FEATURES, shapes=frozenset({"while"})),
    CaseResult((judged("dual", "poisoned"), judged("cpu", "ok")), shapes=frozenset({"while"})),
    CaseResult((judged("plain", "trap", "forward"),)),
)


def counted() -> FeatureCounts:
    statistics = Statistics()
    for result in RESULTS:
        statistics.add(result)
    return statistics.coverage


@pytest.mark.parametrize(
    ("feature", "numbers"),
    [
        (("program", "while"), (3, 2, 1)),
        (("program", "view"), (1, 1, 1)),
        (("program", "break"), (0, 0, 0)),
        (("kernel", "sin f64"), (2, 1, 1)),
        (("comparison", "reverse dual"), (3, 1, 1)),
        (("comparison", "reverse cpu"), (3, 2, 1)),
        (("comparison", "forward plain"), (1, 1, 0)),
    ],
)
def test_numbers(feature: tuple[str, str], numbers: tuple[int, int, int]) -> None:
    counts = counted()
    assert (counts.cases[feature], counts.decided[feature], counts.by_oracle[feature]) == numbers


def test_the_table_has_every_property_and_the_rarest_first() -> None:
    lines = counted().text().splitlines()
    assert lines[0] == "of 1,000 cases, from 4:"
    titles = [k for k, line in enumerate(lines) if line.lstrip().startswith("cases")]
    assert [lines[k].split("oracle  ")[1] for k in titles] == list(KINDS.values())
    rows = lines[titles[0] + 1 : titles[1] - 1]
    assert {row[27:] for row in rows} == set(SHAPES)
    assert [row.split() for row in rows[-2:]] == [
        ["250.0", "250.0", "250.0", "view"],
        ["750.0", "500.0", "250.0", "while"],
    ]


def test_a_run_without_cases_has_a_table() -> None:
    assert "    0.0      0.0      0.0  while" in FeatureCounts().text().splitlines()
