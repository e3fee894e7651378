"""Test tangent kernels against dual numbers, and against reverse mode by <w, J v> = <J^T w, v>."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stackgrad.backends import registry
from stackgrad.backends.base import Draws, Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import prepare_forward, prepare_reverse, prepare_tangent
from stackgrad.compiler.errors import NotDifferentiable, StackgradError
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import ArrayType
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.ir.walk import walk_kernel
from stackgrad.compiler.passes.split_tasks import split_tasks
from stackgrad.compiler.passes.widen import widen
from stackgrad.harness.testing.oracles.dual import jvp
from stackgrad.harness.tools.model import load
from stackgrad.harness.tools.strategies import sample

Arrays = dict[str, np.ndarray]
DRAWS = Draws(3, 7)
PRECISE = Options(precise=True, effort=0)


def carriers(kernel: Kernel) -> list[str]:
    return [p.name for p in kernel.params if isinstance(p.type, ArrayType) and p.type.grad]


def tangents(kernel: Kernel, arrays: Arrays, scalars: dict[str, Any], v: Arrays, arch: str) -> Arrays:
    """Return the contents and tangents of all arrays after a launch of the tangent kernel."""
    memory = {k: a.copy() for k, a in arrays.items()} | {f"{k}.dual": a.copy() for k, a in v.items()}
    lowered = prepare_tangent(kernel, v, check=True)
    Launcher(lowered, registry.get(arch), PRECISE).run(memory, scalars, DRAWS)
    return memory


def gradient(kernel: Kernel, arrays: Arrays, scalars: dict[str, Any], w: Arrays, arch: str) -> Arrays:
    """Return J^T w, by the grad kernel after a forward launch."""
    memory, backend = {k: a.copy() for k, a in arrays.items()}, registry.get(arch)
    lowered = prepare_reverse(kernel)
    Launcher(prepare_forward(kernel), backend, PRECISE).run(memory, scalars, DRAWS)
    memory |= {f"{k}.grad": a.copy() for k, a in w.items()}
    Launcher(lowered, backend, PRECISE).run(memory, scalars, DRAWS)
    return {k: memory[f"{k}.grad"] for k in w}


def random_case(seed: int) -> tuple[Kernel, Arrays, dict[str, Any]] | None:
    """Return a random smooth program in double precision, or None if it is invalid or has no gradient."""
    try:
        kernel, arrays, scalars = load(sample(seed, "smooth"))
        kernel = widen(kernel)
    except StackgradError:
        return None
    wide = {k: a.astype(np.float64) if a.dtype.kind == "f" else a for k, a in arrays.items()}
    return (kernel, wide, scalars) if carriers(kernel) else None


def directions(kernel: Kernel, arrays: Arrays, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return {k: rng.standard_normal(arrays[k].shape) for k in carriers(kernel)}


@pytest.mark.expensive
def test_random_programs_against_dual_numbers(arch: str) -> None:
    """Refused are loops with draws that would have to run serially, and nothing else."""
    judged = 0
    for seed in range(30):
        case = random_case(seed)
        if case is None:
            continue
        kernel, arrays, scalars = case
        v = directions(kernel, arrays, seed)
        want, moved = jvp(split_tasks(kernel), arrays, scalars, v, DRAWS)
        try:
            found = tangents(kernel, arrays, scalars, v, arch)
        except NotDifferentiable as refusal:
            assert "where its random numbers would be others" in str(refusal)
            continue
        for k in v:
            np.testing.assert_allclose(found[k], want[k], 1e-9, 1e-9, err_msg=f"{seed}: {k}")
            np.testing.assert_allclose(found[f"{k}.dual"], moved[k], 1e-6, 1e-8, err_msg=f"{seed}: {k}.dual")
        judged += 1
    assert judged >= 20


@pytest.mark.expensive
def test_random_programs_against_reverse_mode(arch: str) -> None:
    """<w, J v> = <J^T w, v> for random v, w; the sum of magnitudes scales the tolerance."""
    judged = 0
    for seed in range(100, 130):
        case = random_case(seed)
        if case is None:
            continue
        kernel, arrays, scalars = case
        v, w = directions(kernel, arrays, seed), directions(kernel, arrays, seed + 1000)
        try:
            pulled = gradient(kernel, arrays, scalars, w, arch)
        except StackgradError:
            continue
        moved = tangents(kernel, arrays, scalars, v, arch)
        terms = [w[k] * moved[f"{k}.dual"] for k in v], [pulled[k] * v[k] for k in v]
        forward, backward = (sum(float(t.sum()) for t in side) for side in terms)
        size = sum(float(np.abs(t).sum()) for side in terms for t in side)
        assert abs(forward - backward) <= 1e-9 * max(size, 1e-3), seed
        judged += bool(size)
    assert judged >= 12


# ---- statements one by one ------------------------------------------------------------------------------------

HEAD = "kernel k(x: f64[1] grad, n: i32[1], y: f64[1] grad) {\n"
PARALLEL = (
    HEAD
    + """  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2]
    %4: i32 = load n[%2]
    %30: i32 = const 0
    %31: i32 = const 5
"""
)
BODIES = {
    "atomic max": "%5: f64 = atomic max y[%4], %3",
    "atomic min": "%5: f64 = atomic min y[%4], %3",
    "atomic mul": "%5: f64 = atomic mul y[%4], %3",
    "atomic exchange": "%5: f64 = atomic exchange y[%4], %3",
    "atomic add": "%5: f64 = mul %3, %3\n%6: f64 = atomic add y[%4], %5",
    "result of an atomic add": "%5: f64 = atomic add y[%4], %3\nstore y[%2], %5",
    "early return": "%5: f64 = const 0.0\n%6: u1 = cmp_lt %3, %5\nif %6 {\nreturn\n}\n%7: f64 = atomic max y[%4], %3",
    "local array": """local_array h: f64[3]
        set_element h[%4], %3
        %5: f64 = get_element h[%30]
        %6: f64 = sin %3
        set_element h[%30], %6
        %7: f64 = get_element h[%4]
        %8: f64 = add %5, %7
        store y[%2], %8""",
    "break and continue": """local s: f64
        for %5: i32 in %30 .. %31 {
          %6: u1 = cmp_eq %5, %4
          if %6 { continue 1 }
          %7: f64 = get s
          %8: f64 = add %7, %3
          %9: f64 = sin %8
          set s, %9
          %10: f64 = const 0.6
          %11: u1 = cmp_gt %9, %10
          if %11 { break 1 }
        }
        %12: f64 = get s
        store y[%2], %12""",
    "casts": "%5: f32 = cast %3\n%6: f32 = mul %5, %5\n%7: f64 = cast %6\nstore y[%2], %7",
    "bits end a derivative": "%5: f64 = bit_cast %3\n%6: f64 = mul %5, %3\nstore y[%2], %6",
    "overwritten": "store y[%2], %3\n%5: f64 = const 1.0\nstore y[%2], %5",
    "random": "%5: f64 = random\n%6: f64 = mul %5, %3\nstore y[%2], %6",
}


@pytest.mark.parametrize("name", BODIES)
def test_statements(name: str, arch: str) -> None:
    kernel = parse_kernel(PARALLEL + BODIES[name] + "\n}\n}")
    verify(kernel, "source")
    x, y = np.array([0.5, -0.8, 0.3, -0.2, 0.9]), np.array([0.1, 0.2, -0.1, -0.3, 0.4])
    arrays = {"x": x, "n": np.array([2, 0, 1, 1, 2], np.int32), "y": y}
    v = directions(kernel, arrays, 1)
    want, moved = jvp(kernel, arrays, {}, v, DRAWS)
    found = tangents(kernel, arrays, {}, v, arch)
    for k in v:
        np.testing.assert_allclose(found[k], want[k], 1e-7)
        np.testing.assert_allclose(found[f"{k}.dual"], moved[k], 1e-6)
    assert any(np.abs(moved[k] - v[k]).max() > 1e-3 for k in v)


def test_coupled_atomics_run_serially() -> None:
    """Primal and tangent of an extreme change as one, so the loop is no longer parallel; sums stay parallel."""
    made = {
        name: prepare_tangent(parse_kernel(PARALLEL + BODIES[name] + "\n}\n}"), ["x", "y"]).kernel
        for name in ("atomic max", "atomic add")
    }
    assert [k.tasks[0].is_parallel for k in made.values()] == [False, True]
    own = PARALLEL + "%5: f64 = atomic max y[%2], %3\n}\n}"
    assert prepare_tangent(parse_kernel(own), ["x", "y"]).kernel.tasks[0].is_parallel


def test_draws_of_a_serialized_loop_are_refused() -> None:
    body = "%5: f64 = random\n%6: f64 = mul %5, %3\n%7: f64 = atomic max y[%4], %6\n}\n}"
    with pytest.raises(NotDifferentiable, match="random numbers would be others"):
        prepare_tangent(parse_kernel(PARALLEL + body), ["x", "y"])


def test_a_kernel_that_uses_the_dual_itself() -> None:
    text = (
        "kernel k(x: f64[0] grad, x.dual: f64[0], y: f64[0] grad) {\n serial {\n"
        "%0: f64 = load x.dual[]\nstore y[], %0\n}\n}"
    )
    with pytest.raises(NotDifferentiable, match="x.dual"):
        prepare_tangent(parse_kernel(text), ["x", "y"])


def test_only_what_varies_has_a_tangent() -> None:
    """Without carriers the kernel is what it was; with them integer work is not doubled."""
    kernel = parse_kernel(PARALLEL + BODIES["break and continue"] + "\n}\n}")
    plain = prepare_tangent(kernel, []).kernel
    assert not [s for s in walk_kernel(plain) if getattr(s, "array", "").endswith(".dual")]
    loads = [s.array for s in walk_kernel(prepare_tangent(kernel, ["x", "y"]).kernel) if isinstance(s, n.Load)]
    assert sorted(loads) == ["n", "x", "x.dual"]
