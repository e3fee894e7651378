"""What `pytest --cost` says: which tests cost how much, summed up by folder and family."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from processor_time import COLLECTING, Meter, family_of, folder_of, table

COSTS = {
    "tests/ad/test_a.py::test_b[x]": 1.0,
    "tests/ad/test_a.py::test_b[y]": 2.0,
    "tests/ad/nested.kir::grad1[cpu]": 0.5,
    "tests/ad/nested.kir::run2[cpu]": 0.25,
    COLLECTING: 4.0,
}


def test_the_most_expensive_family_comes_first() -> None:
    lines = [line.split(maxsplit=4) for line in table(COSTS, family_of)]
    assert [(float(line[0]), int(line[2]), line[4]) for line in lines] == [
        (4.0, 1, COLLECTING),
        (3.0, 2, "tests/ad/test_a.py::test_b"),
        (0.8, 2, "tests/ad/nested.kir"),
    ]
    assert [line.split()[-1] for line in table(COSTS, folder_of)][1:] == ["tests/ad"]
    assert len(table(COSTS, family_of, 2)) == 2


def test_work_is_booked_for_its_test_and_waiting_is_not(tmp_path: Path) -> None:
    """The worker's half puts numbers on reports, the controller's half adds up those that came."""
    worker, controller = Meter(tmp_path / "unused"), Meter(tmp_path / "costs.tsv")
    worker.pytest_collection_finish()

    def reported(name: str, work: Any) -> None:
        work()
        made = worker.pytest_runtest_makereport()
        next(made)
        with pytest.raises(StopIteration) as stop:
            made.send(SimpleNamespace(nodeid=name))
        controller.pytest_runtest_logreport(stop.value.value)

    def busy() -> None:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass

    for name, work in (("a", busy), ("a", busy), ("b", lambda: time.sleep(0.2))):
        reported(name, work)
    controller.pytest_runtest_logreport(SimpleNamespace(nodeid="of a worker that crashed"))
    assert 0.4 <= controller.costs["a"] < 0.6 and controller.costs["b"] < 0.1
    assert controller.costs[COLLECTING] > 0.2, "pytest itself has started"
