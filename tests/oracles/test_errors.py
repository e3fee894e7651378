"""What the oracles refuse, what traps in them, and that lanes which do not run cannot trap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stackgrad.compiler.errors import DivisionByZero, KernelAssertionError, OutOfBounds, StackgradError, Unsupported
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.oracles import dual, jax_oracle

X = "x: f64[1] grad, n: i32[1]"
Run = Callable[[Kernel, dict[str, np.ndarray]], object]
ORACLES: list[Run] = [
    lambda kernel, arrays: jax_oracle.run(kernel, arrays, {}),
    lambda kernel, arrays: jax_oracle.vjp(kernel, arrays, {}, {"x": np.ones(arrays["x"].shape)}),
    lambda kernel, arrays: dual.jvp(kernel, arrays, {}, {}),
]
TRAPS: list[tuple[str, type[StackgradError], str]] = [
    ("%4: f64 = load x[%3]", OutOfBounds, r"index \[7\] is outside x of shape \(4,\)"),
    ("%4: f64 = const 1.0  store x[%3], %4", OutOfBounds, "outside x"),
    ("local_array h: f64[5]  %4: f64 = get_element h[%3]", OutOfBounds, "outside h"),
    ('%4: i32 = const 5  %5: i32 = within %3, %4, "beyond"', OutOfBounds, "index 7 is outside 0 to 4"),
    ("%4: i32 = const 7  %5: i32 = sub %4, %3  %6: i32 = floordiv %4, %5", DivisionByZero, "floordiv of integers"),
    ('%4: i32 = const 7  %5: u1 = cmp_ne %4, %3  assert %5, "never seven"', KernelAssertionError, "never seven"),
]


@pytest.mark.parametrize("oracle", ORACLES, ids=("run", "vjp", "jvp"))
@pytest.mark.parametrize(("body", "error", "message"), TRAPS)
def test_traps(oracle: Run, body: str, error: type[StackgradError], message: str, parallel: Callable[..., Any]) -> None:
    """Lane 2 alone traps; behind a guard that keeps it out, nothing does."""
    arrays = {"x": np.zeros(4), "n": np.array([0, 1, 7, 3], np.int32)}
    load = "%3: i32 = load n[%2]"
    with pytest.raises(error, match=message):
        oracle(parallel(X, f"{load} {body}"), arrays)
    oracle(parallel(X, f"{load} %8: i32 = const 4  %9: u1 = cmp_lt %3, %8  if %9 {{ {body} }}"), arrays)


ADJOINT = ["adstack_alloca s: f64 capacity 3", "%3: f64 = load x.grad[%2]"]


@pytest.mark.parametrize("oracle", ORACLES, ids=("run", "vjp", "jvp"))
@pytest.mark.parametrize("body", ADJOINT)
def test_adjoint_kernels_are_refused(oracle: Run, body: str, parallel: Callable[..., Any]) -> None:
    with pytest.raises(Unsupported, match="(?s)not a forward kernel.*cure: give the oracle"):
        oracle(parallel(X, body), {"x": np.zeros(4), "n": np.zeros(1, np.int32)})


SCALAR = parse_kernel("kernel k(x: f64[1] grad, a: f64, m: i32[1]) { serial { } }")
GOOD = {"x": np.zeros(2), "m": np.zeros(2, np.int32)}


@pytest.mark.parametrize(
    ("arrays", "scalars", "message"),
    [
        ({"x": np.zeros(2)}, {"a": 1.0}, "no array for parameter m"),
        (GOOD, {}, "no value for scalar a"),
        (GOOD | {"x": np.zeros((2, 2))}, {"a": 1.0}, r"array x: expected f64\[1\] grad, got float64 with 2 axes"),
        (GOOD | {"m": np.zeros(2, np.int64)}, {"a": 1.0}, r"array m: expected i32\[1\], got int64"),
    ],
)
def test_arguments_that_do_not_fit(arrays: dict[str, np.ndarray], scalars: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jax_oracle.run(SCALAR, arrays, scalars)
    with pytest.raises(ValueError, match=message):
        dual.jvp(SCALAR, arrays, scalars, {})


def test_derivatives_that_make_no_sense() -> None:
    plain = parse_kernel("kernel k(x: f64[1] grad, y: f64[1], m: i32[1]) { serial { } }")
    arrays = GOOD | {"y": np.zeros(2)}
    with pytest.raises(ValueError, match=r"\['y'\] have cotangents but no adjoint"):
        jax_oracle.vjp(plain, arrays, {}, {"y": np.ones(2)}, ["x"])
    with pytest.raises(ValueError, match=r"\['m'\] are not real array parameters"):
        jax_oracle.vjp(plain, arrays, {}, {"x": np.ones(2)}, ["m"])
    with pytest.raises(ValueError, match=r"expected a cotangent of shape \(2,\), got \(3,\)"):
        jax_oracle.vjp(plain, arrays, {}, {"x": np.ones(3)}, ["x"])
    with pytest.raises(ValueError, match=r"\['m'\] are not real array parameters"):
        dual.jvp(plain, arrays, {}, {"m": np.ones(2)})
    with pytest.raises(ValueError, match=r"the tangent of x needs shape \(2,\)"):
        dual.jvp(plain, arrays, {}, {"x": np.ones(3)})
    assert not jax_oracle.vjp(plain, arrays, {}, {}, ["x"])["x"].any()
