"""Reports: rows, counts, failures, JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
from launches import SINES, Launch, Silent, of, over, pointwise, recorded
from stackgrad.backends.base import Draws
from stackgrad.harness.testing.check import check_launches, group_by_kernel
from stackgrad.harness.testing.compare import Comparison
from stackgrad.harness.testing.executors import present_backends
from stackgrad.harness.testing.finite import is_finite, nonfinite_fault
from stackgrad.harness.testing.replay import ExecutorPanel, ReplayCase
from stackgrad.harness.testing.report import CheckReport, ReportedFault, make_row

KERNEL = pointwise("%9: T = sin %3")


def _panel() -> ExecutorPanel:
    return ExecutorPanel(present_backends(["cpu"])[0], oracle=Silent())


def _case(verdict: str, precision: str = "f64", **more: object) -> ReplayCase:
    found = (Comparison("cpu", verdict, "why", **more),)  # type: ignore[arg-type]
    return ReplayCase(KERNEL, "reverse", precision, "ok", "", found)


def test_specializations_of_one_name() -> None:
    double, single = pointwise(SINES), pointwise(SINES, "f32")
    launches = [recorded(double, of([1.0])), recorded(single, of([1.0], "f32")), recorded(pointwise(SINES), of([2.0]))]
    found = group_by_kernel(launches)
    assert {name: len(mine) for name, mine in found.items()} == {"k": 2, "k#2": 1}


def test_a_report_of_two_launches() -> None:
    launches = [recorded(pointwise(SINES), of([x])) for x in (0.5, 0.7)]
    seen: list[tuple[int, int, str]] = []
    report = check_launches(
        "p.py", launches, _panel(), {("k", "forward"): 40}, progress=lambda *step: seen.append(step)
    )
    assert report.passed and report.failures == [] and report.counts["ok"] == 2 * (3 + 3)
    forward, reverse = report.rows
    assert (forward.launches, forward.cases, reverse.launches) == (40, 2, 0)
    assert (forward.direction, reverse.direction) == ("forward", "reverse")
    assert reverse.adstack_bytes == 5 * 8 and "v[5] of 8 B; 1 rows" in reverse.adstacks[0]
    assert list(reverse.cells) == ["reference", "classic", "cpu", "jax", "dual"]
    assert seen[0] == (0, 2, "k (forward)") and seen[-1] == (2, 2, "")


def test_disagreement_fails_and_says_where() -> None:
    launch = recorded(pointwise(SINES), of([0.5]))
    report = check_launches("p.py", [replace(launch, after={**launch.after, "y": np.ones(1)})], _panel())
    assert not report.passed
    assert report.failures[0].startswith("k (forward): f64: y[0]: program has 1, the reference ")


def test_errors_and_findings_fail() -> None:
    assert check_launches("p.py", [], _panel()).passed
    assert "ValueError: x" in check_launches("p.py", [], _panel(), error="ValueError: x").failures[0]
    assert check_launches("p.py", [], _panel(), findings=[ReportedFault("NaN loss: y")]).failures == ["NaN loss: y"]


def test_a_launch_that_raised_fails() -> None:
    kernel = over("x: f64[1], at: i32", "%3: i32 = arg at\n%4: f64 = load x[%3]\nstore x[%2], %4")
    launch = Launch(kernel, "forward", {"at": 9}, Draws(), {"x": np.zeros(3)}, {"x": np.zeros(3)}, "OutOfBounds: 9")
    report = check_launches("p.py", [launch], _panel())
    assert report.rows[0].verdict == "trap"
    assert any("k (forward) raised: OutOfBounds: 9" in text for text in report.failures)


def test_too_much_undecided_fails() -> None:
    def report(undecided: int) -> CheckReport:
        made = CheckReport("p.py")
        made.counts.update(ok=8, undecided=undecided, unsupported=100)
        return made

    assert report(2).passed and report(2).open_share == 0.2
    assert not report(3).passed and "27%" in report(3).failures[0]


def test_rows_take_the_worst_case() -> None:
    row = make_row("k", [_case("ok", error=0.5), _case("undecided", "f32")], 7)
    assert row.verdict == row.cells["cpu"].verdict == "undecided"
    assert (row.precisions, row.error, row.launches) == (("f64", "f32"), 0.5, 7)
    assert row.reasons == ("f32: why",)


def test_declared_limits_show_only_where_nothing_else_does() -> None:
    assert make_row("k", [_case("unsupported"), _case("ok")], 1).cells["cpu"].verdict == "ok"
    row = make_row("k", [_case("unsupported")], 1)
    assert row.cells["cpu"].verdict == "unsupported" and row.cells["cpu"].reasons == ("f64: why",)


def test_a_precision_that_cannot_be_tried_harms_nothing() -> None:
    bits = pointwise("%4: i32 = bit_cast %3\n%9: f32 = bit_cast %4", "f32")
    report = check_launches("p.py", [recorded(bits, of([1.0], "f32"))], _panel())
    assert report.passed and report.rows[0].verdict == "ok" and report.rows[0].precisions == ("f32",)


def test_refused_gradients_pass() -> None:
    kernel = over("x: f64[1]", "%3: f64 = const 2.0\nstore x[%2], %3")
    report = check_launches("p.py", [recorded(kernel, {"x": np.ones(2)})], _panel())
    assert report.passed and [row.verdict for row in report.rows] == ["ok", "refused"]


def test_json_survives_infinite_errors() -> None:
    launch = recorded(KERNEL, of([0.5]))
    nan = replace(launch, after={**launch.after, "y": np.array([np.nan])})
    content = json.loads(json.dumps(check_launches("p.py", [nan], _panel()).to_json(), allow_nan=False))
    assert content["passed"] is False and content["rows"][0]["error"] is None
    assert content["rows"][0]["cells"]["program"]["verdict"] == "disagree"
    assert content["rows"][1]["cells"]["dual"]["verdict"] == "ok"


def test_nan_and_infinity() -> None:
    assert is_finite(np.arange(3)) and is_finite(np.ones(2)) and not is_finite(np.array([1, np.inf]))
    loss = nonfinite_fault("total", "forward", "loss", np.array(np.nan), 3, before=False)
    assert loss.text == "NaN loss: loss holds NaN after launch 3 of total (forward)"
    assert (loss.kernel, loss.array) == ("total", "loss")
    field = nonfinite_fault("k", "reverse", "x.grad", np.array([np.inf, 1]), 1, before=True)
    assert field.text == "infinity gradient: x.grad holds infinity already before launch 1 of k (reverse)"
