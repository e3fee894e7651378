"""Test that every relation holds on kernels of every kind, on every executor, and is not always skipped."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from relation_kernels import KERNELS
from relation_support import executor, reference, said, traced
from stackgrad.harness.tools.relations import RELATIONS
from stackgrad.harness.tools.relations.table import TABLE

SILENT = {
    "linear": set(),
    "loop-split": {"straight", "extremes", "box", "temporaries"},
    "permuted": set(),
    "widened": set(),
    "kernel-split": set(KERNELS) - {"tasks", "temporaries", "overwriting"},
    "stray": set(KERNELS),
}
"""Kernels without anything that a relation could change, or of which it says nothing on the reference."""


def test_the_table_has_every_relation() -> None:
    assert tuple(TABLE) == RELATIONS == tuple(SILENT)


@pytest.mark.rotating
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_holds_on_the_reference(relation: str, kernel: str) -> None:
    for real, dtype in ((sg.f32, np.float32), (sg.f64, np.float64)):
        judged = said(relation, traced(kernel, real), reference(), dtype)
        assert {j.verdict for j in judged} <= {"ok"}, [str(j) for j in judged if j.verdict != "ok"]
        silent = kernel in SILENT[relation]
        assert {j.direction for j in judged} == set() if silent else {"reverse"} <= {j.direction for j in judged}


@pytest.mark.rotating
@pytest.mark.parametrize("backend", ["cpu", "cpu-masked"])
@pytest.mark.parametrize("kernel", ["nested", "sums", "tasks"])
def test_holds_on_machine_code(kernel: str, backend: str) -> None:
    for relation in RELATIONS:
        judged = said(relation, traced(kernel, sg.f32), executor(backend), np.float32, draws=(1,))
        assert {j.verdict for j in judged} <= {"ok"}, [str(j) for j in judged if j.verdict != "ok"]
        assert all(j.reference == backend and j.executor == relation for j in judged)
