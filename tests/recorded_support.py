"""Launches run once more on the reference, with the error bound of each element: those recorded, and those told.

Nobody chooses a tolerance: bounds follow from the ulps of operations (docs/error_bounds.md). They are distances from
the exact result too, so that code of another shape, with roundings of its own, is within twice the bound.
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
    """What permitted executors make of it, on the memory that it found. start: the forward launch that left what it
    reads; without it the memory is taken as exact.
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
    """Of a launch of a kernel on this memory. errors: of the memory."""
    return run_bounded(_forward(kernel), memory, scalars or {}, draws=draws, errors=errors, precise=False)


def gradient(
    kernel: Kernel,
    memory: Arrays,
    scalars: Scalars | None = None,
    errors: Arrays | None = None,
    before: Arrays | None = None,
    draws: Draws = NO_DRAWS,
) -> BoundedResult:
    """The same of a launch of the gradient. before: what the kernel had found, where that was kept."""
    program, kept = _reverse(kernel)
    found = before or memory
    copies = {copy: found.get(copy, found[name]) for copy, name in kept.items()}
    return run_bounded(program, {**copies, **memory}, scalars or {}, draws=draws, errors=errors, precise=False)


def gradients(kernel: Kernel, memory: Arrays, changes: Iterable[Arrays]) -> BoundedResult:
    """Of launches of the gradient one after another, each with these arrays in place of what it would find."""
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
    """Copies of fields and arrays as a launch would find them, those of gradients among them."""
    found = {name: array.to_numpy() for name, array in arrays.items()}
    return found | {name + GRAD: a.grad.to_numpy() for name, a in arrays.items() if getattr(a, "needs_grad", False)}


def verdicts(known: BoundedResult, found: Mapping[str, np.ndarray], twice: bool = False) -> dict[str, ArrayVerdict]:
    """On arrays that are not exact by themselves. twice: found by code of another shape."""
    assert known.poisoned is None, known.poisoned
    return judge(known.arrays, found, known.errors, known.errors if twice else None)


def near(known: BoundedResult, name: str, found: Any, form: Any = None) -> None:
    """An array that a device left is within the bound, and a closed form in f64 within twice that; bounds so wide that
    this says nothing are refused.
    """
    device = verdicts(known, {name: np.asarray(found)})[name]
    assert device.state == "agree", device
    if form is not None:
        expected = np.asarray(form, np.float64).reshape(known.arrays[name].shape)
        told = verdicts(known, {name: expected}, twice=True)[name]
        assert told.state == "agree", f"of what is expected: {told}"


def leaves(run: Callable[[], Any], forms: Mapping[str, Any]) -> None:
    """The last launch of a run leaves in these arrays what is within its bounds, and so are these closed forms."""
    with capture() as made:
        run()
    launch = made.launches[-1]
    known = bounded(launch)
    for name, form in forms.items():
        near(known, name, launch.after[name], form)


def slopes(value: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """The gradient at x of a function of NumPy that is analytic, by complex steps: nothing cancels, unlike in central
    differences, so that it is exact but for roundings.
    """
    found = np.empty(x.shape)
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape, complex)
        step[place] = 1e-150j
        found[place] = np.imag(value(x + step)) / 1e-150
    return found


def near_both_ways(kernel: Any, x: Any, y: Any, undecided: int = 0, **others: Any) -> None:
    """Run it and its gradient for ones as adjoint of y: y and x.grad are within their bounds, of which so many at most
    may be too wide to say anything.
    """
    x.grad.fill(0)
    y.grad.fill(1)
    before = memory_of(x=x, y=y, **others)
    kernel()
    kernel.grad()
    for run, name, found in ((forward, "y", y), (gradient, "x.grad", x.grad)):
        told = verdicts(run(kernel.ir(), before), {name: found.to_numpy()})[name]
        assert told.state != "disagree" and told.undecided <= undecided, told
