"""Launches run once more on the reference, with the error bound of each element: those recorded, and those told.

Nobody chooses a tolerance: bounds follow from the ulps of operations (docs/error_bounds.md). They are distances from
the exact result too, so that code of another shape, with roundings of its own, is within twice the bound.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from stackgrad.backends.base import Arrays, Draws, Scalars
from stackgrad.backends.launcher import NO_DRAWS
from stackgrad.capture import CapturedLaunch
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.ir.nodes import Kernel
from stackgrad.harness.bounds import Bounded, Verdict, judge, run_bounded

GRAD = ".grad"


def bounded(launch: CapturedLaunch, start: Bounded | None = None) -> Bounded:
    """What permitted executors make of it, on the memory that it found. start: the forward launch that left what a
    gradient reads; without it the memory is taken as exact.
    """
    if launch.kind == "forward":
        return forward(launch.kernel, launch.before, launch.scalars, launch.draws)
    primal = {} if start is None else {k: a for k, a in start.arrays.items() if not k.endswith(GRAD)}
    errors = {} if start is None else {name: start.errors[name] for name in primal}
    return gradient(launch.kernel, {**launch.before, **primal}, launch.scalars, errors, launch.before, launch.draws)


def forward(kernel: Kernel, memory: Arrays, scalars: Scalars | None = None, draws: Draws = NO_DRAWS) -> Bounded:
    """Of a launch of a kernel on this memory."""
    return run_bounded(prepare_forward(kernel).kernel, memory, scalars or {}, draws=draws, precise=False)


def gradient(
    kernel: Kernel, memory: Arrays, scalars: Scalars | None = None, errors: Arrays | None = None,
    before: Arrays | None = None, draws: Draws = NO_DRAWS,
) -> Bounded:  # fmt: skip
    """Of a launch of the gradient. errors: of the memory. before: what the kernel had found, where that was kept."""
    lowered = prepare_reverse(kernel, taped=True)
    found = before or memory
    copies = {copy: found.get(copy, found[name]) for copy, name in lowered.before.items()}
    return run_bounded(lowered.kernel, {**copies, **memory}, scalars or {}, draws=draws, errors=errors, precise=False)


def memory_of(**arrays: Any) -> dict[str, np.ndarray]:
    """Copies of fields and arrays as a launch would find them, those of gradients among them."""
    found = {name: array.to_numpy() for name, array in arrays.items()}
    return found | {name + GRAD: a.grad.to_numpy() for name, a in arrays.items() if getattr(a, "needs_grad", False)}


def verdicts(known: Bounded, found: Mapping[str, np.ndarray], twice: bool = False) -> dict[str, Verdict]:
    """On arrays that are not exact by themselves. twice: found by code of another shape."""
    assert known.poisoned is None, known.poisoned
    return judge(known.arrays, found, known.errors, known.errors if twice else None)


def near(known: Bounded, name: str, found: Any, form: Any = None) -> None:
    """An array that a device left is within the bound, and a closed form in f64 within twice that; bounds so wide that
    this says nothing are refused.
    """
    device = verdicts(known, {name: np.asarray(found)})[name]
    assert device.state == "agree", device
    if form is not None:
        expected = np.asarray(form, np.float64).reshape(known.arrays[name].shape)
        told = verdicts(known, {name: expected}, twice=True)[name]
        assert told.state == "agree", f"of what is expected: {told}"
