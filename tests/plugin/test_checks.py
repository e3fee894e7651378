"""`differential` and `gradcheck` pass what is right, and say what is wrong with the rest."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.harness.testing.executors import present_backends
from stackgrad.harness.testing.plugin_checks import OpenPanel
from stackgrad.harness.tools.mutants import MUTANTS

pytestmark = pytest.mark.backends("reference", "cpu")


@pytest.fixture
def executor_panel():
    """Return a panel of the cpu and the reference only, even if other backends are available or requested."""
    return OpenPanel(present_backends(["cpu"])[0])


def recurrence(fp=sg.f64):
    """y[i] = sin(.. sin(x[i])), n[None] times."""
    x, y = sg.field(fp, shape=4, needs_grad=True), sg.field(fp, shape=4, needs_grad=True)
    n = sg.field(sg.i32, shape=())
    x.from_numpy(np.array([0.5, -0.3, 0.8, 0.25], fp.dtype))
    n[None] = 3

    @sg.kernel
    def run(scale: float):
        for i in range(4):
            v = x[i] * scale
            for _ in range(n[None]):
                v = sg.sin(v) * 1.5
            y[i] = v

    return run, x, y


def verdicts(cases, direction):
    return {c.executor: c.verdict for case in cases if case.direction == direction for c in case.comparisons}


@pytest.mark.parametrize("fp", [sg.f32, sg.f64], ids=str)
def test_right_kernels_pass_on_every_executor(backend, differential, gradcheck, fp):
    backend.init(default_fp=fp)
    run, x, y = recurrence(fp)
    cases = differential(run, 0.75)
    assert set(verdicts(cases, "forward").items()) == {(n, "ok") for n in ("classic", "cpu", "jax", "program")}
    v = x.to_numpy().astype(float) * 0.75
    for _ in range(3):
        v = np.sin(v) * 1.5
    np.testing.assert_allclose(y.to_numpy(), v, rtol=1e-5, err_msg="the call is a call")
    cases = gradcheck(run, scale=0.75)
    assert set(verdicts(cases, "reverse").items()) == {(n, "ok") for n in ("classic", "cpu", "jax", "dual", "taylor")}
    assert {c.precision for c in cases} == {"f64", str(fp)}


def test_wrong_gradients_are_shown(backend, gradcheck):
    backend.init(default_fp=sg.f64)
    run, *_ = recurrence()
    with MUTANTS["for-misses-first"].planted(), pytest.raises(AssertionError) as caught:
        gradcheck(run, 0.75)
    lines = str(caught.value).splitlines()
    assert lines[0] == "kernel run:"
    assert any(line.startswith("gradient f64: jax: x[") and "the reference" in line for line in lines), lines
    assert "gradient f64: taylor: the Taylor remainder has order 1.00, not 2" in lines
    rows = {line.split()[0]: line.split()[1:] for line in lines if line and ":" not in line}
    assert rows["executor"] == ["values", "f64", "gradient", "f64"]
    assert rows["reference"] == ["ok", "ok"] and rows["jax"][-1] == rows["dual"][-1] == rows["taylor"][-1] == "disagree"


def test_wrong_values_are_shown(backend, differential):
    backend.init(default_fp=sg.f64)
    x, y = sg.field(sg.f64, shape=3), sg.field(sg.f64, shape=3)

    @sg.kernel
    def halves():
        for i in range(3):
            y[i] = x[i] + (i - 2) // 2

    with MUTANTS["division-truncates"].planted(), pytest.raises(AssertionError) as caught:
        differential(halves)
    assert "values f64: cpu: y[1]: cpu has 0, the reference -1, bound" in str(caught.value)


def test_kernels_that_trap_are_no_pass(backend, differential):
    backend.init(default_fp=sg.f64)
    x, n = sg.field(sg.f64, shape=3), sg.field(sg.i32, shape=())
    n[None] = 1

    @sg.kernel
    def divide():
        for i in range(3):
            x[i] = sg.cast(7 // (n[None] - 1), sg.f64)

    with pytest.raises((AssertionError, sg.DivisionByZero), match="by zero"):
        differential(divide)


def test_kernels_without_a_gradient_are_no_pass(backend, gradcheck):
    backend.init(default_fp=sg.f64)
    x = sg.field(sg.f64, shape=3, needs_grad=True)
    y = sg.field(sg.f64, shape=3, needs_grad=True)

    @sg.kernel
    def overwrites():
        for i in range(2):
            y[i] = x[i] * x[i + 1]
            x[i] = 1.0

    refused = r"(?s)gradient f64: refused: .*the iterations are not independent.*executor"
    with pytest.raises(AssertionError, match=refused):
        gradcheck(overwrites)


def test_ties_are_decided_by_the_oracle_that_shares_the_convention(backend, gradcheck):
    backend.init(default_fp=sg.f64)
    x, y = sg.field(sg.f64, shape=3, needs_grad=True), sg.field(sg.f64, shape=3, needs_grad=True)

    @sg.kernel
    def rectify():
        for i in range(3):
            y[i] = max(x[i], 0.0)

    found = verdicts(gradcheck(rectify), "reverse")
    assert (found["jax"], found["dual"], found["taylor"]) == ("unsupported", "ok", "poisoned")
    x.from_numpy(np.array([1.0, -1.0, 0.5]))
    found = verdicts(gradcheck(rectify), "reverse")
    assert (found["jax"], found["dual"], found["taylor"]) == ("ok", "ok", "ok")


def test_a_gradient_that_no_oracle_judges_is_no_pass(backend, differential, gradcheck):
    """The bits of an f32 have no double precision, where oracles compute."""
    backend.init(default_fp=sg.f32)
    x, y = sg.field(sg.f32, shape=3, needs_grad=True), sg.field(sg.f32, shape=3, needs_grad=True)

    @sg.kernel
    def bits():
        for i in range(3):
            if sg.bit_cast(x[i], sg.i32) >= 0:
                y[i] = x[i]

    differential(bits)
    with pytest.raises(AssertionError, match="(?s)none of jax, dual, taylor decided anything.*values f64: .*bit"):
        gradcheck(bits)


def test_what_launches_no_kernel_is_no_pass(backend, differential):
    with pytest.raises(AssertionError, match="launched no kernel"):
        differential(lambda: None)


def test_kernels_given_as_text_and_functions_that_launch_several(backend, gradcheck):
    square = sg.kernel_from_text("""
kernel square(x: f64[1] grad, y: f64[1] grad) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2]
    %4: f64 = mul %3, %3
    store y[%2], %4
  }
}
""")
    x, y, z = np.array([3.0, -1.0]), np.zeros(2), np.zeros(2)

    def twice():
        square(x=x, y=y)
        square(x=y, y=z)

    cases = gradcheck(twice)
    assert [c.direction for c in cases] == ["forward", "reverse"] * 2
    np.testing.assert_array_equal(z, [81.0, 1.0])
