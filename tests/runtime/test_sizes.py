"""Sizes of a launch: by expressions where they are exact, once for each state, else by the counting kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import stackgrad as sg
from runtime_kernels import over_array
from stackgrad.backends.launching import size_finder

SLICES = over_array(
    "slices",
    "x: f64[1] grad, row: i32[1], y: f64[1] grad",
    "x",
    """\
%3: f64 = load x[%2]
%4: i32 = const 1
%5: i32 = add %2, %4
%6: i32 = load row[%2]
%7: i32 = load row[%5]
local v: f64
set v, %3
for %8: i32 in %6 .. %7 {
  %9: f64 = get v
  %10: f64 = sin %9
  set v, %10
}
%11: f64 = get v
store y[%2], %11""",
)
"""y[i] = sin applied row[i + 1] - row[i] times to x[i]."""

NEWTON = SLICES.replace("for %8: i32 in %6 .. %7 {", "local s: u1\nfor %8: i32 in %6 .. %7 until s {").replace(
    "  set v, %10\n", "  set v, %10\n  %12: f64 = const 0.1\n  %13: u1 = cmp_lt %10, %12\n  set s, %13\n"
)
"""The same, until the value is small: what is pushed depends on reals."""


@pytest.fixture(params=["reference", "cpu"])
def runtime(request: pytest.FixtureRequest) -> Iterator[str]:
    sg.init(arch={"reference": sg.reference, "cpu": sg.cpu}[request.param], default_fp=sg.f64)
    yield request.param
    sg.reset()


def arrays_of(lengths: list[int]):  # type: ignore[no-untyped-def]
    """Arrays of a launch over slices of these lengths."""
    x, y = (sg.field(sg.f64, len(lengths), needs_grad=True) for _ in "xy")
    row = sg.field(sg.i32, len(lengths) + 1)
    row.from_numpy(np.cumsum([0, *lengths]).astype(np.int32))
    x.fill(0.5)
    y.grad.fill(1)
    return {"x": x, "row": row, "y": y}


def launched(text: str, lengths: list[int]):  # type: ignore[no-untyped-def]
    """A kernel and the arrays of a launch, its gradient launched once."""
    kernel, arrays = sg.kernel_from_text(text), arrays_of(lengths)
    kernel.grad(arrays)
    return kernel, arrays


def sizes_of(kernel) -> tuple[int, int, int]:  # type: ignore[no-untyped-def]
    stats = kernel.stats()
    return stats.evaluations, stats.countings, stats.cache_hits


def use():  # type: ignore[no-untyped-def]
    """Of the only kernel with adstacks."""
    (found,) = sg.adstack_report().tasks
    return found


@pytest.mark.lowering("lean")
def test_an_unchanged_state_is_not_looked_at(runtime: str) -> None:
    kernel, arrays = launched(SLICES, [2, 0, 5])
    assert sizes_of(kernel) == (1, 0, 0)
    found = use()
    assert (found.stacks[0].capacity, found.stacks[0].total, found.passing) == (5, 7, 2)
    assert found.source == "expression" and found.registry_id > 0
    for _ in range(3):
        kernel.grad(arrays)
    assert sizes_of(kernel) == (1, 0, 3) and use().source == "cached"
    arrays["x"].fill(0.25)
    kernel.grad(arrays)
    assert sizes_of(kernel) == (1, 0, 4), "what decides no bound is not looked at"


@pytest.mark.lowering("lean")
def test_a_mutation_is_looked_at_once(runtime: str) -> None:
    kernel, arrays = launched(SLICES, [2, 0, 5])
    arrays["row"].from_numpy(np.array([0, 1, 8, 9], np.int32))
    for _ in range(3):
        kernel.grad(arrays)
    assert sizes_of(kernel) == (2, 0, 2)
    assert (use().stacks[0].capacity, use().stacks[0].total, use().passing) == (7, 9, 3)


@pytest.mark.lowering("lean")
def test_other_arrays_and_shapes_are_other_states(runtime: str) -> None:
    kernel, first = launched(SLICES, [2, 0, 5])
    other = arrays_of([1, 1])
    for arrays in (other, first, other):
        kernel.grad(arrays)
    assert sizes_of(kernel) == (2, 0, 2) and use().stacks[0].capacity == 1
    for _ in range(2):  # as many arrays come and go: an address says nothing
        arrays = arrays_of([3, 4])
        kernel.grad(arrays)
        assert use().stacks[0].capacity == 4
    assert sizes_of(kernel) == (4, 0, 2)


@pytest.mark.lowering("lean")
def test_exported_arrays_are_looked_at_each_time(runtime: str) -> None:
    kernel, arrays = launched(SLICES, [2, 0, 5])
    memory = np.from_dlpack(arrays["row"])
    kernel.grad(arrays)
    memory[:] = [0, 0, 9, 9]
    kernel.grad(arrays)
    assert sizes_of(kernel) == (3, 0, 0) and use().stacks[0].capacity == 9


@pytest.mark.lowering("lean")
def test_what_reals_decide_is_counted(runtime: str) -> None:
    kernel, arrays = launched(NEWTON, [2, 0, 5])
    for _ in range(2):
        kernel.grad(arrays)
    assert sizes_of(kernel) == (0, 1, 2)
    assert (use().stacks[0].capacity, use().passing) == (5, 2)


@pytest.mark.lowering("lean")
def test_machine_code_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once NumPy has been at it for long enough; the sizes stay the same."""
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    monkeypatch.setattr(size_finder, "BREAK_EVEN", 0.0)
    made = []
    right = size_finder.size_kernel
    monkeypatch.setattr(size_finder, "size_kernel", lambda *args: made.append(args) or right(*args))
    kernel, arrays = launched(SLICES, [2, 0, 5])
    assert len(made) == 1 and sizes_of(kernel) == (1, 0, 0)
    assert (use().stacks[0].capacity, use().stacks[0].total, use().passing) == (5, 7, 2)
    arrays["row"].from_numpy(np.array([0, 1, 8, 9], np.int32))
    kernel.grad(arrays)
    assert (use().stacks[0].capacity, use().stacks[0].total, use().passing) == (7, 9, 3)
    assert len(made) == 1 and sizes_of(kernel) == (2, 0, 0)


def test_sources_are_printed(runtime: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("STACKGRAD_DEBUG_ADSTACK", "1")
    kernel, arrays = launched(SLICES, [2, 0, 5])
    kernel.grad(arrays)
    launched(NEWTON, [1])
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("size ")[1].split(";")[0] for line in lines] == ["expression", "cached", "counted"]
