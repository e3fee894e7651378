"""Test tangents of gradients of single kernels: random programs against JAX, adstacks, minima, reverse over forward."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stackgrad.backends import registry
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.ad.policies import POLICIES
from stackgrad.compiler.ad.tangent import tangent
from stackgrad.compiler.driver import prepare_forward, prepare_reverse, prepare_second, prepare_tangent
from stackgrad.compiler.errors import NotDifferentiable, StackgradError
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import ArrayType
from stackgrad.compiler.ir.walk import walk_kernel
from stackgrad.compiler.passes.split_tasks import split_tasks
from stackgrad.compiler.passes.widen import widen
from stackgrad.harness.tools.model import load
from stackgrad.harness.tools.strategies import sample

_spec = importlib.util.spec_from_file_location(
    "second_order_support", Path(__file__).with_name("second_order_support.py")
)
assert _spec is not None and _spec.loader is not None
support = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = support
_spec.loader.exec_module(support)
Arrays = dict[str, np.ndarray]

SEEDS = range(4, 24)


def random_case(seed: int) -> tuple[Kernel, Arrays, dict[str, Any]] | None:
    """Return a random smooth program in double precision with inputs away from kinks, or None if it has no gradient."""
    try:
        kernel, arrays, scalars = load(sample(seed, "smooth"))
        kernel = widen(kernel)
        prepare_reverse(kernel, taped=True)
    except StackgradError:
        return None
    rng = np.random.default_rng(seed)
    moved = {
        k: np.asarray(a + 1e-3 * rng.normal(size=a.shape)) if a.dtype.kind == "f" else a for k, a in arrays.items()
    }
    return (kernel, moved, scalars) if support.carriers(kernel) else None


CASES: dict[int, Any] = {}


def judged_by_jax(seed: int) -> Any:
    """Return a random program with directions and JAX's derivatives; results are cached for both executors."""
    if seed not in CASES:
        CASES[seed] = case = random_case(seed)
        if case is not None:
            v, w = (support.normal(case[0], case[1], seed + k) for k in (0, 1))
            CASES[seed] = *case, v, w, support.jax_second(*case, v, w)
    return CASES[seed]


@pytest.mark.expensive
def test_random_programs_against_jax(arch: str) -> None:
    """Programs with loops, branches, exits and atomics; the lowering changes from one to the next."""
    judged = bent = 0
    for seed in SEEDS:
        case = judged_by_jax(seed)
        if case is None:
            continue
        kernel, arrays, scalars, v, w, want = case
        try:
            found = support.second(kernel, arrays, scalars, v, w, arch, support.LOWERINGS[seed % 2])
        except NotDifferentiable as refusal:
            assert "where its random numbers would be others" in str(refusal)
            continue
        for side in (0, 1):
            for k in v:
                scale = max(float(np.abs(want[side][k]).max(initial=0.0)), 1e-3)
                np.testing.assert_allclose(found[side][k], want[side][k], 1e-7, 1e-8 * scale, err_msg=f"{seed}: {k}")
        judged += 1
        bent += any(np.abs(a).max(initial=0.0) > 1e-6 for a in want[1].values())
    assert judged >= 10 and bent >= 5


HEAD = """kernel k(x: f64[1] grad, n: i32[1], y: f64[1] grad) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2]
    %4: i32 = load n[%2]
    %30: i32 = const 0
"""
RECURRENCE = """    local s: f64
    set s, %3
    for %5: i32 in %30 .. %4 {
      %6: f64 = get s
      %7: f64 = sin %6
      %8: f64 = mul %7, %3
      set s, %8
    }
    %9: f64 = get s
"""
BODIES = {
    "recurrence": RECURRENCE + "store y[%2], %9",
    "sum": RECURRENCE + "%10: f64 = atomic add y[%30], %9",
    "product": RECURRENCE + "%10: f64 = atomic mul y[%30], %9",
    "extreme": RECURRENCE + "%10: f64 = atomic max y[%30], %9",
    "in place": "%5: f64 = exp %3\nstore x[%2], %5\n%6: f64 = mul %5, %5\nstore y[%2], %6",
}
X, V, COUNTS = np.array([0.3, 0.9, -0.5, 1.2]), np.array([1.0, 2.0, 3.0, -1.0]), np.array([3, 0, 2, 4], np.int32)


def kernel_of(body: str) -> Kernel:
    return parse_kernel(HEAD + body + "\n}\n}")


def reverse_over_forward(kernel: Kernel, arrays: Arrays, v: Arrays, w: Arrays, arch: str) -> Arrays:
    """Return H v, the gradient of <w, tangent of the final contents> by the initial contents, by reverse mode."""
    moved = tangent(split_tasks(kernel), v)
    params = tuple(
        replace(p, type=replace(p.type, grad=True)) if isinstance(p.type, ArrayType) and p.name.endswith(".dual") else p
        for p in moved.params
    )
    moved, backend = replace(moved, name="k", params=params), registry.get(arch)
    initial = {**arrays, **{f"{k}.dual": a for k, a in v.items()}}
    memory = {k: a.copy() for k, a in initial.items()}
    Launcher(prepare_forward(moved), backend, support.PRECISE).run(memory, {})
    memory |= {f"{k}.grad": np.zeros_like(a) for k, a in w.items()}
    memory |= {f"{k}.dual.grad": a.copy() for k, a in w.items()}
    gradient = prepare_reverse(moved, taped=True)
    memory |= {copy: initial[array].copy() for copy, array in gradient.before.items()}
    Launcher(gradient, backend, support.PRECISE).run(memory, {})
    return {k: memory[f"{k}.grad"] for k in v}


@pytest.mark.rotating
@pytest.mark.parametrize("name", BODIES)
def test_the_other_order_agrees(name: str, arch: str) -> None:
    """Whatever the gradient saves, and wherever."""
    kernel = kernel_of(BODIES[name])
    arrays = {"x": X, "n": COUNTS, "y": np.array([0.4, -9.0, 0.1, 0.2])}
    v, w = {"x": V, "y": 0.1 * V}, {"x": np.ones(4), "y": np.array([1.5, 0.5, -1.0, 2.0])}
    want = reverse_over_forward(kernel, arrays, v, w, arch)
    for lowering in POLICIES:
        _, found = support.second(kernel, arrays, {}, v, w, arch, lowering)
        for k in v:
            np.testing.assert_allclose(found[k], want[k], 1e-12, 1e-13)
    assert np.abs(want["x"]).max() > 1e-2


def lowered(body: str) -> tuple[Kernel, Kernel]:
    gradient = prepare_reverse(kernel_of(body), taped=True)
    return gradient.kernel, prepare_second(gradient.kernel, ["x", "y", "x.grad", "y.grad"], (), gradient.before).kernel


def test_twins_of_adstacks_and_nothing_else() -> None:
    """Each adstack of reals has one twin, of its type; those of integers and the number of loops stay."""
    gradient, second = lowered(BODIES["recurrence"])
    stacks = {s.stack: s.dtype for s in walk_kernel(gradient) if isinstance(s, n.StackAlloca)}
    twins = {s.stack: s.dtype for s in walk_kernel(second) if isinstance(s, n.StackAlloca)}
    assert stacks and twins == stacks | {f"{name}.dual": dtype for name, dtype in stacks.items() if dtype.is_real}
    loops = [sum(isinstance(s, n.For) for s in walk_kernel(k)) for k in (gradient, second)]
    assert loops[0] == loops[1]


def test_the_gradient_of_an_extreme_stays_parallel() -> None:
    """Though its tangent, where the element itself is updated, runs serially."""
    _, second = lowered(BODIES["extreme"])
    assert [task.is_parallel for task in second.tasks] == [True]
    assert not prepare_tangent(kernel_of(BODIES["extreme"]), ["x", "y"]).kernel.tasks[0].is_parallel
    own = kernel_of("%5: f64 = atomic exchange y[%4], %3")
    assert not prepare_tangent(own, ["x", "y"]).kernel.tasks[0].is_parallel


STACKS = """kernel k(x: f64[1] grad, x.grad: f64[1], n: i32[1], y: f64[1]) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    adstack_alloca s: f64 adjoint
    %3: f64 = load x[%2]
    %4: i32 = load n[%2]
    %5: i32 = const 0
    for %6: i32 in %5 .. %4 {
      %7: f64 = mul %3, %3
      adstack_push s, %7
      adstack_acc_adj s, %3
    }
    for %8: i32 in %5 .. %4 {
      %9: f64 = adstack_load_top s
      %10: f64 = adstack_load_top_adj s
      %11: f64 = mul %9, %10
      %12: f64 = load x.grad[%2]
      %13: f64 = add %12, %11
      store x.grad[%2], %13
      adstack_pop s
    }
  }
}
"""


def test_a_kernel_with_adstacks_of_its_own_has_tangents(arch: str) -> None:
    """n · x^3, by slots that hold x^2 as primal and x as adjoint."""
    made = prepare_tangent(parse_kernel(STACKS), ["x", "x.grad"], check=True)
    memory = {"x": X.copy(), "n": COUNTS, "y": np.zeros(4), "x.dual": V}
    memory |= {"x.grad": np.zeros(4), "x.grad.dual": np.zeros(4)}
    Launcher(made, registry.get(arch), support.PRECISE).run(memory, {})
    np.testing.assert_allclose(memory["x.grad"], COUNTS * X**3, 1e-14)
    np.testing.assert_allclose(memory["x.grad.dual"], COUNTS * 3 * X**2 * V, 1e-14)


def test_an_adjoint_that_is_no_parameter_is_refused() -> None:
    text = STACKS.replace(" x.grad: f64[1],", "")
    with pytest.raises(NotDifferentiable, match=r"'x.grad' is used in a kernel that runs in forward mode") as caught:
        prepare_tangent(parse_kernel(text), ["x"])
    assert "parameter" in str(caught.value)
