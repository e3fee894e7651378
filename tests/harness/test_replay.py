"""Test replays: right kernels pass, and each kind of mistake is found by an executor that can detect it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from launches import RELU, SINES, Launch, Silent, Spoiled, of, over, pointwise, recorded
from stackgrad.backends import registry
from stackgrad.backends.base import Draws
from stackgrad.compiler.ad.rules import VJP
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.build import Builder
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.statement import Value
from stackgrad.harness.testing.compare import Comparison
from stackgrad.harness.testing.outcome import Arrays
from stackgrad.harness.testing.replay import ExecutorPanel, ReplayCase, replay

XS = [-1.5, -0.25, 0.5, 0.75]


def cases_of(launch: Launch, panel: ExecutorPanel) -> dict[tuple[str, str], ReplayCase]:
    """Return the replay cases of a launch by direction and precision."""
    return {(c.direction, c.precision): c for c in replay(launch, panel)}


def comparison(case: ReplayCase, executor: str) -> Comparison:
    return next(c for c in case.comparisons if c.executor == executor)


def verdicts(case: ReplayCase) -> dict[str, str]:
    return {c.executor: c.verdict for c in case.comparisons}


def quiet(*backends: Any) -> ExecutorPanel:
    """Return a panel whose oracle fails the test if it is asked."""
    return ExecutorPanel(backends or [_cpu()], oracle=Silent())


def _cpu(spoil: Any = None, direction: str = "reverse") -> Spoiled:
    made = Spoiled("cpu", registry.get("cpu"), direction=direction)
    made.spoil = spoil or made.spoil
    return made


# ---- right kernels ------------------------------------------------------------------------------------------


def test_double_precision_is_judged_by_all_at_once(panel: ExecutorPanel) -> None:
    found = cases_of(recorded(pointwise(SINES), of(XS)), panel)
    assert set(found) == {("forward", "f64"), ("reverse", "f64")}
    assert verdicts(found["forward", "f64"]) == dict.fromkeys(("classic", "cpu", "jax", "program"), "ok")
    assert verdicts(found["reverse", "f64"]) == dict.fromkeys(("classic", "cpu", "jax"), "ok")
    stacks = found["reverse", "f64"].adstacks
    assert sum(use.bytes for use in stacks) == len(XS) * 5 * 8


def test_single_precision_is_judged_twice(panel: ExecutorPanel) -> None:
    found = cases_of(recorded(pointwise(SINES, "f32"), of(XS, "f32")), panel)
    assert set(found) == {(d, p) for d in ("forward", "reverse") for p in ("f64", "f32")}
    assert all(case.verdict == "ok" for case in found.values())
    assert "jax" in verdicts(found["reverse", "f64"]) and "jax" not in verdicts(found["reverse", "f32"])
    assert "program" in verdicts(found["forward", "f32"]) and "program" not in verdicts(found["forward", "f64"])
    times = [c.seconds for c in found["reverse", "f32"].comparisons]
    assert all(s is not None and 0 < s < 10 for s in times)


def test_half_precision() -> None:
    found = cases_of(recorded(pointwise("%9: T = mul %3, %3", "f16"), of(XS, "f16")), quiet())
    assert found["reverse", "f16"].verdict == "ok"


def test_random_numbers_are_replayed(panel: ExecutorPanel) -> None:
    kernel = pointwise("%4: T = random\n%9: T = mul %3, %4")
    launch = recorded(kernel, of(XS), Draws(3, 8))
    assert set(verdicts(cases_of(launch, panel)["forward", "f64"]).values()) == {"ok"}
    other = cases_of(replace(launch, draws=Draws(3, 9)), panel)["forward", "f64"]
    assert verdicts(other) == {"classic": "ok", "cpu": "ok", "jax": "ok", "program": "disagree"}


def test_integers_and_scalars() -> None:
    kernel = over(
        "x: f64[1], n: i32[1], by: i32, s: f64",
        """\
%3: i32 = arg by
%4: i32 = load n[%2]
%5: i32 = mul %4, %3
store n[%2], %5
%6: f64 = arg s
store x[%2], %6""",
    )
    launch = recorded(kernel, {"x": np.zeros(3), "n": np.arange(3, dtype=np.int32)}, by=3, s=0.5)
    found = cases_of(launch, quiet())
    assert found["forward", "f64"].verdict == "ok"
    assert found["reverse", "f64"].verdict == "refused" and "gradient" in found["reverse", "f64"].reason
    off = {"x": launch.after["x"], "n": launch.after["n"] + np.int32(1)}
    assert comparison(cases_of(replace(launch, after=off), quiet())["forward", "f64"], "program").verdict == "disagree"


def test_sums_in_any_order() -> None:
    """10^4 terms of both signs: rounding of another order exceeds what moved inputs show."""
    kernel = over("x: f32[1] grad, y: f32[0] grad", "%3: f32 = load x[%2]\n%4: f32 = atomic add y[], %3")
    x = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    launch = recorded(kernel, {"x": x, "y": np.zeros((), np.float32)})
    after = {"x": x, "y": np.float32(x.astype(np.float64).sum()).reshape(())}
    assert after["y"] != launch.after["y"]
    found = cases_of(replace(launch, after=after), quiet())
    assert found["forward", "f32"].verdict == "ok"


# ---- wrong executors ----------------------------------------------------------------------------------------


def _off(factor: float) -> Any:
    return lambda arrays: {name: array * array.dtype.type(factor) for name, array in arrays.items()}


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_a_wrong_gradient_of_a_backend(precision: str) -> None:
    launch = recorded(pointwise(SINES, precision), of(XS, precision))
    case = cases_of(launch, quiet(_cpu(_off(1.0001))))["reverse", precision]
    wrong = comparison(case, "cpu")
    assert case.verdict == wrong.verdict == "disagree" and wrong.error > 1
    assert wrong.reason.startswith("x[") and "bound" in wrong.reason
    assert comparison(case, "classic").verdict == "ok"


def test_one_wrong_element() -> None:
    def spoil(arrays: Arrays) -> Arrays:
        arrays["x"][2] += 1e-9
        return arrays

    case = cases_of(recorded(pointwise(SINES), of(XS)), quiet(_cpu(spoil)))["reverse", "f64"]
    assert comparison(case, "cpu").reason.startswith("x[2]: cpu has")


def test_rounding_is_no_disagreement() -> None:
    case = cases_of(recorded(pointwise(SINES), of(XS)), quiet(_cpu(_off(1 + 2.0**-52))))["reverse", "f64"]
    assert case.verdict == "ok"


def test_a_wrong_forward_result() -> None:
    found = cases_of(recorded(pointwise(SINES), of(XS)), quiet(_cpu(_off(1.0001), "forward")))
    assert verdicts(found["forward", "f64"])["cpu"] == "disagree"


def test_nan_where_the_reference_has_a_number() -> None:
    case = cases_of(recorded(pointwise(SINES), of(XS)), quiet(_cpu(_off(np.nan))))["reverse", "f64"]
    assert comparison(case, "cpu").verdict == "disagree"


def test_an_executor_that_dies() -> None:
    def die(arrays: Arrays) -> Arrays:
        raise ZeroDivisionError("gone")

    case = cases_of(recorded(pointwise(SINES), of(XS)), quiet(_cpu(die)))["reverse", "f64"]
    assert comparison(case, "cpu").verdict == "disagree" and "gone" in comparison(case, "cpu").reason


def test_what_the_program_obtained_is_judged() -> None:
    launch = recorded(pointwise(SINES), of(XS))
    wrong = replace(launch, after={**launch.after, "y": launch.after["y"] + 1e-6})
    assert comparison(cases_of(wrong, quiet())["forward", "f64"], "program").verdict == "disagree"


def _reverse_launch() -> Launch:
    kernel = pointwise("%9: T = mul %3, %3")
    forward = recorded(kernel, of(XS))
    before = {**forward.after, "x.grad": np.zeros(4), "y.grad": np.ones(4)}
    after = {**forward.after, "x.grad": 2 * np.array(XS), "y.grad": np.zeros(4)}
    return Launch(kernel, "reverse", {}, Draws(), before, after)


def test_recorded_gradients() -> None:
    launch = _reverse_launch()
    case = cases_of(launch, quiet())["reverse", "f64"]
    assert verdicts(case) == {"classic": "ok", "cpu": "ok", "program": "ok"}
    wrong = {**launch.after, "x.grad": launch.after["x.grad"] * 1.001}
    case = cases_of(replace(launch, after=wrong), quiet())["reverse", "f64"]
    assert verdicts(case) == {"classic": "ok", "cpu": "ok", "program": "disagree"}


# ---- the independent judge ----------------------------------------------------------------------------------


def _half(b: Builder, g: Value, a: tuple[Value, ...], r: Value) -> Value:
    return b.op("mul", b.op("mul", g, b.op("cos", a[0])), b.const(0.5, g.type))


def test_a_wrong_rule_deceives_all_but_the_oracle(panel: ExecutorPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VJP._rows, "sin", (_half,))
    case = cases_of(recorded(pointwise("%9: T = sin %3"), of(XS)), panel)["reverse", "f64"]
    assert verdicts(case) == {"classic": "ok", "cpu": "ok", "jax": "disagree"}
    assert case.verdict == "disagree"


def test_a_wrong_rule_is_found_without_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VJP._rows, "sin", (_half,))
    case = cases_of(recorded(pointwise("%9: T = sin %3"), of(XS)), quiet())["reverse", "f64"]
    assert verdicts(case) == {"classic": "ok", "cpu": "ok", "jax": "unsupported", "dual": "disagree"}


def test_dual_numbers_stand_in_for_jax() -> None:
    case = cases_of(recorded(pointwise(SINES), of(XS)), quiet())["reverse", "f64"]
    assert verdicts(case)["dual"] == "ok" and case.verdict == "ok"


def test_at_a_kink_jax_is_not_asked(panel: ExecutorPanel) -> None:
    """Of max(x, 0) at 0 JAX takes half, we nothing."""
    case = cases_of(recorded(pointwise(RELU), of([-1.0, 0.0, 1.0])), panel)["reverse", "f64"]
    assert verdicts(case)["jax"] == "unsupported" and "kink" in comparison(case, "jax").reason
    assert verdicts(case)["dual"] == "ok" and case.verdict == "ok"


def test_at_a_kink_dual_numbers_see_what_is_wrong(panel: ExecutorPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VJP._rows, "max", VJP._rows["min"])
    case = cases_of(recorded(pointwise(RELU), of([-1.0, 0.0, 1.0])), panel)["reverse", "f64"]
    assert verdicts(case)["dual"] == "disagree" and case.verdict == "disagree"


def test_beside_a_kink_jax_decides(panel: ExecutorPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VJP._rows, "max", VJP._rows["min"])
    case = cases_of(recorded(pointwise(RELU), of([-1.0, 0.5, 1.0])), panel)["reverse", "f64"]
    assert verdicts(case)["jax"] == "disagree"


def test_without_any_oracle_nothing_is_decided() -> None:
    kernel = pointwise(SINES.replace("const 5", "const 50"))
    case = cases_of(recorded(kernel, of(np.linspace(-1, 1, 20_000))), quiet())["reverse", "f64"]
    assert case.verdict == "undecided"
    assert "absent" in comparison(case, "jax").reason and "steps" in comparison(case, "jax").reason


# ---- what decides nothing -----------------------------------------------------------------------------------

CHAOS = """\
local v: T
set v, %3
%4: i32 = const 0
%5: i32 = const 40
%10: T = const 4.0
%11: T = const 1.0
for %6: i32 in %4 .. %5 {
  %7: T = get v
  %8: T = sub %11, %7
  %12: T = mul %7, %8
  %13: T = mul %10, %12
  set v, %13
}
%9: T = get v"""
"""The logistic map: an error doubles with each step."""


def test_chaos_is_undecided_in_single_precision_and_judged_in_double() -> None:
    found = cases_of(recorded(pointwise(CHAOS, "f32"), of([0.3, 0.6], "f32")), quiet())
    assert found["forward", "f32"].verdict == "undecided"
    assert "rounding moves it" in comparison(found["forward", "f32"], "cpu").reason
    assert found["forward", "f64"].verdict == "ok"


def test_a_pole_within_rounding_poisons() -> None:
    """1/(x - 1)^0.5 at x = 1 + ulp: moved inputs give NaN and infinity."""
    kernel = pointwise("%4: T = const 1.0\n%5: T = sub %3, %4\n%9: T = rsqrt %5")
    found = cases_of(recorded(kernel, of([1.0 + 2.0**-52, 2.0])), quiet())
    assert found["forward", "f64"].verdict == "poisoned"


def test_races_decide_nothing() -> None:
    launch = recorded(
        over("x: f64[1], y: f64[0]", "%3: f64 = load x[%2]\nstore y[], %3"), {"x": np.arange(3.0), "y": np.zeros(())}
    )
    case = cases_of(launch, quiet())["forward", "f64"]
    assert verdicts(case)["cpu"] == "undecided" and case.verdict == "undecided"


def test_a_trap_on_the_reference_is_a_trap_everywhere() -> None:
    kernel = over("x: f64[1], at: i32", "%3: i32 = arg at\n%4: f64 = load x[%3]\nstore x[%2], %4")
    launch = Launch(kernel, "forward", {"at": 9}, Draws(), {"x": np.zeros(3)}, {"x": np.zeros(3)})
    case = cases_of(launch, quiet())["forward", "f64"]
    assert case.verdict == "trap" and "OutOfBounds" in case.reason
    assert verdicts(case) == {"cpu": "ok"}, "under checks the cpu traps alike"


def test_refused_gradients() -> None:
    """x[i] = 2 x[i+1] reads after writes of other iterations."""
    kernel = over(
        "x: f64[1] grad, y: f64[1] grad",
        """\
%3: i32 = const 1
%4: i32 = add %2, %3
%5: f64 = load x[%4]
%6: f64 = sin %5
store x[%2], %6""",
        array="y",
    )
    case = cases_of(recorded(kernel, {"x": np.ones(4), "y": np.ones(3)}), quiet())["reverse", "f64"]
    assert case.verdict == "refused" and case.reason and "\n" not in case.reason


def test_kernels_that_use_adjoints_themselves(panel: ExecutorPanel) -> None:
    kernel = over("x: f64[1] grad, x.grad: f64[1]", "%3: f64 = load x.grad[%2]\nstore x[%2], %3")
    found = cases_of(recorded(kernel, {"x": np.zeros(2), "x.grad": np.ones(2)}), panel)
    assert set(verdicts(found["forward", "f64"]).values()) == {"ok"}
    assert set(verdicts(found["reverse", "f64"]).values()) == {"ok"}


def test_adjoints_that_are_no_parameters() -> None:
    kernel = over("x: f64[1] grad", "%3: f64 = load x.grad[%2]\nstore x[%2], %3")
    found = cases_of(recorded(kernel, {"x": np.zeros(2), "x.grad": np.ones(2)}), quiet())
    assert found["reverse", "f64"].verdict == "refused" and "adjoints" in found["reverse", "f64"].reason


def test_gradients_given_as_kernels() -> None:
    """What they store to x.grad has no derivative, as in every kernel."""
    kernel = prepare_reverse(pointwise("%9: T = mul %3, %3")).kernel
    arrays = {**of(XS), "x.grad": np.zeros(4), "y.grad": np.ones(4)}
    found = cases_of(recorded(kernel, arrays), quiet())
    assert found["forward", "f64"].verdict == "ok" and found["reverse", "f64"].verdict == "ok"


def test_bits_of_reals_have_no_double() -> None:
    kernel = pointwise("%4: i32 = bit_cast %3\n%9: f32 = bit_cast %4", "f32")
    found = cases_of(recorded(kernel, of(XS, "f32")), quiet())
    assert found["forward", "f64"].verdict == "unsupported" and "bits" in found["forward", "f64"].reason
    assert found["forward", "f32"].verdict == "ok"


def test_empty_launches() -> None:
    found = cases_of(recorded(pointwise("%9: T = sin %3"), of(np.zeros(0))), quiet())
    assert {case.verdict for case in found.values()} == {"ok"}


def test_kernels_without_arrays() -> None:
    launch = recorded(parse_kernel("kernel k(n: i32) { serial { %0: i32 = arg n } }"), {}, n=3)
    assert cases_of(launch, quiet())["forward", "exact"].verdict == "ok"
