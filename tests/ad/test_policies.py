"""Test that all policies give the same gradient, and that each pushes as often as its counting kernel says.

Policies differ only in what they save, so their gradients agree to the last bit, except that `classic` adds adjoints in
another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import random_arrays
from kernel_catalogue import differentiable
from stackgrad.backends.base import Draws
from stackgrad.compiler.ad.policies import POLICIES
from stackgrad.compiler.errors import NotDifferentiable
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.executors import LaunchExecutor, lower_plainly
from stackgrad.harness.testing.launch import used_arrays, with_gradient
from stackgrad.harness.testing.outcome import Arrays
from stackgrad.harness.tools.fuzz.features import sizes_of
from stackgrad.harness.tools.model import render_ir
from stackgrad.harness.tools.mutants import patched_row
from stackgrad.harness.tools.strategies import sample
from stackgrad.reference.backend import ReferenceBackend
from stackgrad.reference.frame import LaneFrame
from stackgrad.reference.places import RUN
from test_pitfalls import before, kernel, seeds

Scalars = dict[str, Any]
PROGRAMS, ARRAYS = range(7000, 7060), range(20)


@contextmanager
def pushes() -> Iterator[dict[str, int]]:
    """Yield a dict that gets the depth that each adstack reaches on the reference while the block runs."""
    right, found = RUN[n.StackPush], {}

    def push(m: Any, stmt: n.StackPush, frame: LaneFrame) -> LaneFrame:
        frame = right(m, stmt, frame)
        deepest = int(np.max(m.stack(stmt.stack).top(frame), initial=0))
        found[stmt.stack] = max(found.get(stmt.stack, 0), deepest)
        return frame

    with patched_row(RUN, n.StackPush, push):
        yield found


def agree(source: Kernel, arrays: Arrays, scalars: Scalars, cotangents: Arrays) -> int:
    """Assert that all policies give the same gradient and count their pushes right. Return the total number of pushes.

    Raises NotDifferentiable if the kernel has no gradient.
    """
    plain = LaunchExecutor("plain", ReferenceBackend(), lower=lambda k: lower_plainly(k))
    final = plain.forward(source, arrays, scalars, Draws())
    lean: Arrays = {}
    total = 0
    for policy in POLICIES:
        executor = LaunchExecutor(policy, ReferenceBackend(), policy)
        with pushes() as depths:
            found = executor.gradient(source, arrays, final, scalars, Draws(), cotangents)
        counted = sizes_of(executor.grad_launcher(source)).capacities
        assert {k: v for k, v in counted.items() if v} == depths, policy
        total += sum(depths.values())
        lean = lean or found
        for name, adjoint in found.items():
            compare(policy, adjoint, lean[name])
    return total


def compare(policy: str, found: np.ndarray, lean: np.ndarray) -> None:
    if policy == "classic":
        np.testing.assert_allclose(found, lean, rtol=1e-3 if found.dtype == np.float32 else 1e-9, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, lean, err_msg=policy)


@pytest.mark.expensive
def test_random_programs() -> None:
    judged = deep = 0
    for seed in PROGRAMS:
        program = sample(seed, "smooth")
        source = render_ir(program)
        if not with_gradient(source):
            continue
        cotangents = {k: s for k, s in program.seeds().items() if k in with_gradient(source)}
        try:
            deep += agree(source, program.arrays(), program.scalars(), cotangents) > 0
        except NotDifferentiable:
            continue
        judged += 1
    assert judged > 45 and deep > 20


@pytest.mark.rotating
@pytest.mark.parametrize("number", ARRAYS)
def test_local_arrays(number: int) -> None:
    source, arrays = parse_kernel(random_arrays.make_text(number)), random_arrays.make_arrays(number)
    given = np.random.default_rng(number).normal(size=4)
    assert agree(source, {k: arrays[k] for k in used_arrays(source)}, {}, {"x": np.zeros(4), "y": given}) >= 0


@pytest.mark.parametrize("name", sorted(e.name for e in differentiable()))
def test_pitfalls(name: str) -> None:
    assert agree(kernel(name), before(name), {}, seeds(name)) >= 0
