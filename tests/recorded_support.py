"""Run recorded launches again on the reference, with an error bound for each element of the results.

Bounds follow from the ulps of operations (docs/error_bounds.md), not from chosen tolerances. They also bound the
distance from the exact result, so that the result of differently written code, which rounds differently, is within
twice the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from stackgrad.backends.base import Arrays, Draws, Scalars
from stackgrad.backends.launching.launcher import NO_DRAWS
from stackgrad.capture import CapturedLaunch, capture
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.harness.testing.bounds import ArrayVerdict, BoundedKernel, BoundedResult, judge, run_bounded

GRAD = ".grad"


def bounded(launch: CapturedLaunch, start: BoundedResult | None = None) -> BoundedResult:
    """Return the bounded result of a recorded launch, on the memory that it started from.

    `start` is the result of the forward launch that wrote the memory; without it the memory is taken as exact.
    """
    primal = {} if start is None else {k: a for k, a in start.arrays.items() if not k.endswith(GRAD)}
    errors = {} if start is None else {name: start.errors[name] for name in primal}
    memory = {**launch.before, **primal}
    if launch.kind == "forward":
        return forward(launch.kernel, memory, launch.scalars, errors, launch.draws)
    return gradient(launch.kernel, memory, launch.scalars, errors, launch.before, launch.draws)


def forward(
    kernel: Kernel,
    memory: Arrays,
    scalars: Scalars | None = None,
    errors: Arrays | None = None,
    draws: Draws = NO_DRAWS,
) -> BoundedResult:
    """Return the bounded result of a kernel on this memory, which has these error bounds."""
    return run_bounded(_forward(kernel), memory, scalars or {}, draws=draws, errors=errors, precise=False)


def gradient(
    kernel: Kernel,
    memory: Arrays,
    scalars: Scalars | None = None,
    errors: Arrays | None = None,
    before: Arrays | None = None,
    draws: Draws = NO_DRAWS,
) -> BoundedResult:
    """Return the bounded result of a gradient on this memory; `before` is the memory that its kernel started from."""
    program, kept = _reverse(kernel)
    found = before or memory
    copies = {copy: found.get(copy, found[name]) for copy, name in kept.items()}
    return run_bounded(program, {**copies, **memory}, scalars or {}, draws=draws, errors=errors, precise=False)


def gradients(kernel: Kernel, memory: Arrays, changes: Iterable[Arrays]) -> BoundedResult:
    """Return the bounded result of several gradients in a row, each after some arrays are set."""
    errors: dict[str, np.ndarray] = {}
    for change in changes:
        found = {**memory, **change}
        known = gradient(kernel, found, errors={name: e for name, e in errors.items() if name not in change})
        memory, errors = known.arrays, known.errors
    return known


@lru_cache(64)
def _forward(kernel: Kernel) -> BoundedKernel:
    return BoundedKernel(prepare_forward(kernel).kernel)


@lru_cache(64)
def _reverse(kernel: Kernel) -> tuple[BoundedKernel, Mapping[str, str]]:
    lowered = prepare_reverse(kernel, taped=True)
    return BoundedKernel(lowered.kernel), lowered.before


def memory_of(**arrays: Any) -> dict[str, np.ndarray]:
    """Return copies of fields and arrays, gradients included, as a launch would find them."""
    found = {name: array.to_numpy() for name, array in arrays.items()}
    return found | {name + GRAD: a.grad.to_numpy() for name, a in arrays.items() if getattr(a, "needs_grad", False)}


def verdicts(known: BoundedResult, found: Mapping[str, np.ndarray], twice: bool = False) -> dict[str, ArrayVerdict]:
    """Return the verdicts on arrays; `twice` adds error bounds for results of differently written code."""
    assert known.poisoned is None, known.poisoned
    return judge(known.arrays, found, known.errors, known.errors if twice else None)


def near(known: BoundedResult, name: str, found: Any, form: Any = None) -> None:
    """Assert that a device's array is within its error bound, and a closed form within twice the bound.

    The assertion fails, too, if a bound is so wide that it proves nothing.
    """
    device = verdicts(known, {name: np.asarray(found)})[name]
    assert device.state == "agree", device
    if form is not None:
        expected = np.asarray(form, np.float64).reshape(known.arrays[name].shape)
        told = verdicts(known, {name: expected}, twice=True)[name]
        assert told.state == "agree", f"of what is expected: {told}"


def leaves(run: Callable[[], Any], forms: Mapping[str, Any]) -> None:
    """Assert that the last launch of a run leaves arrays within their bounds, as these closed forms say."""
    with capture() as made:
        run()
    launch = made.launches[-1]
    known = bounded(launch)
    for name, form in forms.items():
        near(known, name, launch.after[name], form)


def slopes(value: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """Return the gradient at x of an analytic function of NumPy, by complex steps, exact except for rounding."""
    found = np.empty(x.shape)
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape, complex)
        step[place] = 1e-150j
        found[place] = np.imag(value(x + step)) / 1e-150
    return found


def near_both_ways(kernel: Any, x: Any, y: Any, undecided: int = 0, **others: Any) -> None:
    """Run a kernel and its gradient, and assert that y and x.grad are within their error bounds.

    `undecided` is the number of elements whose bounds may be too wide to prove anything.
    """
    x.grad.fill(0)
    y.grad.fill(1)
    before = memory_of(x=x, y=y, **others)
    kernel()
    kernel.grad()
    for run, name, found in ((forward, "y", y), (gradient, "x.grad", x.grad)):
        told = verdicts(run(kernel.ir(), before), {name: found.to_numpy()})[name]
        assert told.state != "disagree" and told.undecided <= undecided, told
