"""Test error bounds of elements to which several iterations store: only equal exact values leave them unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.bounds import BoundedKernel, run_bounded
from stackgrad.harness.testing.bounds.roundoff import SLACK
from stackgrad.reference.launch import run

ORDERS = ("vector", "forward", "reverse", "shuffled:1", "shuffled:2")


def kernel(body, dtype="f32", grad=""):
    """Return a kernel with `body` in a parallel task over x; %3 is x[i], %4 is c[i]."""
    return parse_kernel(f"""kernel k(x: {dtype}[1]{grad}, y: {dtype}[1]{grad}, z: {dtype}[1]{grad}, c: i32[1]) {{
      bounds {{
        %0: i32 = const 0
        %1: i32 = shape x, 0
      }} parallel %2: i32 in %0 .. %1 {{
        %3: {dtype} = load x[%2]
        %4: i32 = load c[%2]
        {body}
      }}
    }}""")


STORE = "store y[%4], %3"


def arrays_of(x, c, dtype="f32"):
    """Return the arrays of `kernel`; y and z are zero."""
    kind = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u1": np.bool_, "i64": np.int64}[dtype]
    return {"x": np.array(x, kind), "c": np.array(c, np.int32)} | {n: np.zeros(len(x), kind) for n in "yz"}


def bounded(body, x, c, errors=None, dtype="f32"):
    given = {} if errors is None else {"x": np.array(errors)}
    return run_bounded(kernel(body, dtype), arrays_of(x, c, dtype), {}, errors=given)


def test_equal_exact_stores_are_harmless():
    found = bounded(STORE, [3.0, 3.0, 3.0], [1, 1, 1])
    assert found.poisoned is None
    assert found.arrays["y"].tolist() == [0.0, 3.0, 0.0] and not found.errors["y"].any()


@pytest.mark.parametrize(
    ("x", "errors"),
    [
        ([3.0, 3.0, 3.0], [0.5, 0.25, 0.125]),
        ([3.0, 3.0, 3.0], [0.0, 0.25, 0.0]),
        ([3.0, 3.1, 2.9], [0.2, 0.1, 0.15]),
        ([-0.25, 0.0, 0.125], [0.25, 0.0, 0.125]),
    ],
)
def test_the_error_covers_every_value_that_may_stay(x, errors):
    """Whoever is last: the element lies within the interval of any of the iterations."""
    found = bounded(STORE, x, [0, 0, 0], errors)
    assert found.poisoned is None
    value, e = float(found.arrays["y"][0]), found.errors["y"][0]
    for v, d in zip(np.float32(x).astype(float), errors):
        assert value - e <= v - d and v + d <= value + e
    assert e <= max(abs(a - b) for a in x for b in x) + max(errors) + 1e-6


@pytest.mark.parametrize(
    ("x", "errors", "dtype"),
    [
        ([3.0, 4.0], None, "f32"),
        ([3.0, 4.0], [0.4, 0.5], "f32"),
        ([0.0, -0.0], None, "f32"),
        ([3.0, np.nan], None, "f32"),
        ([3, 4], None, "i32"),
        ([True, False], None, "u1"),
        ([2**62, 2**62 + 1], None, "i64"),
        ([1.0, np.inf], [1.0, 0.0], "f64"),
    ],
)
def test_different_stores_poison(x, errors, dtype):
    found = bounded(STORE, x, [1, 1], errors, dtype)
    assert found.poisoned.startswith("`y[1]` depends on the order of iterations")
    assert bounded(STORE, x, [1, 0], errors, dtype).poisoned is None


@pytest.mark.parametrize(
    ("x", "errors", "dtype", "expected"),
    [
        ([np.nan, np.nan], None, "f32", 0.0),
        ([np.inf, np.inf], None, "f32", 0.0),
        ([7, 7], None, "i32", 0.0),
        ([True, True], None, "u1", 0.0),
        ([2**62 + 1] * 2, None, "i64", 0.0),
        ([7, 7], [0.0, np.inf], "i32", np.inf),
        ([3.0, 3.0], [np.inf, 0.0], "f32", np.inf),
        ([3.0, 5.0], [np.inf, 0.0], "f32", np.inf),
        ([-0.0, -0.0], None, "f32", 0.0),
    ],
)
def test_equal_stores_of_every_kind(x, errors, dtype, expected):
    found = bounded(STORE, x, [1, 1], errors, dtype)
    assert found.poisoned is None
    assert found.errors["y"].tolist() == [0.0, expected]


@pytest.mark.parametrize(
    "body",
    [
        f"{STORE}\n%5: f32 = load y[%4]\nstore z[%2], %5",
        f"%5: f32 = load y[%4]\n{STORE}\nstore z[%2], %5",
        f"{STORE}\n%5: f32 = atomic add y[%4], %3",
        f"%5: f32 = atomic exchange y[%4], %3\n{STORE}",
    ],
)
def test_equal_stores_beside_another_use_poison(body):
    """Each iteration may see the element before or after another one's store."""
    assert "`y[1]` depends on the order" in bounded(body, [3.0, 3.0], [1, 1]).poisoned
    assert bounded(body, [3.0, 3.0], [1, 0]).poisoned is None


def test_one_iteration_may_store_as_often_as_it_likes():
    body = f"%5: f32 = neg %3\nstore y[%4], %5\n{STORE}"
    assert bounded(body, [1.0, 2.0], [1, 0]).poisoned is None


def test_a_store_for_all_lanes_at_one_place():
    body, c = "%5: i32 = const 2\nstore y[%5], %3", [0, 0, 0]
    assert bounded(body, [3.0, 3.0, 3.0], c, [0.0, 0.5, 0.0]).errors["y"].tolist() == [0.0, 0.0, 0.5 * SLACK]
    assert bounded(body, [3.0, 3.0, 4.0], c).poisoned
    one = "%5: i32 = const 2\n%6: f32 = const 3.0\nstore y[%5], %6"
    assert bounded(one, [1.0, 2.0, 3.0], c).poisoned is None


def test_indices_of_the_task_need_no_books():
    """Two axes, both in every access: nobody can meet, and nothing is noted."""
    text = """kernel k(x: f32[2], y: f32[2]) {
      bounds {
        %0: i32 = const 0
        %1: i32 = const 3
      } parallel %2: i32, %3: i32 in %0 .. %1, %0 .. %1 {
        %4: f32 = load x[%2, %3]
        store y[AT], %4
      }
    }"""
    arrays = {"x": np.arange(9.0, dtype=np.float32).reshape(3, 3), "y": np.zeros((3, 3), np.float32)}
    for place, kept in (("%2, %3", False), ("%3, %2", False), ("%2, %2", True)):
        program = BoundedKernel(parse_kernel(text.replace("AT", place)))
        assert ("y" in program.plans[0].kept) == kept
        assert (run_bounded(program, arrays, {}).poisoned is not None) == kept


def gradient(body, c, seeds, x=(3.0, 3.0)):
    """Return (gradient with error bounds, gradients of x with iterations in several orders)."""
    grad = prepare_reverse(kernel(body, grad=" grad")).kernel
    arrays = arrays_of(x, c) | {f"{n}.grad": np.zeros(len(x), np.float32) for n in "xz"}
    arrays["y.grad"] = np.array(seeds, np.float32)
    found = []
    for order in ORDERS:
        memory = {name: a.copy() for name, a in arrays.items()}
        run(grad, memory, {}, order=order)
        found.append(memory["x.grad"].tolist())
    return run_bounded(grad, arrays, {}), found


def test_the_adjoint_of_equal_stores_is_undefined():
    """Who takes it depends on the order, although the value stored does not."""
    bound, found = gradient(STORE, [1, 1], [0.0, 1.0])
    assert any(f != found[0] for f in found)
    assert bound.poisoned.startswith("`y.grad[1]` depends on the order of iterations")
    bound, found = gradient(STORE, [1, 0], [0.0, 1.0])
    assert found == [[1.0, 0.0]] * len(ORDERS)
    assert bound.poisoned is None


def test_an_adjoint_accumulated_without_atomics_is_not_excused():
    """That is a wrong gradient, to be found by comparison: a poisoned standard would hide it."""
    text = """kernel g(x: f32[1], c: i32[1], x.grad: f32[1]) {
      bounds {
        %0: i32 = const 0
        %1: i32 = shape x, 0
      } parallel %2: i32 in %0 .. %1 {
        %3: i32 = load c[%2]
        %4: f32 = load x.grad[%3]
        %5: f32 = load x[%2]
        %6: f32 = add %4, %5
        store x.grad[%3], %6
      }
    }"""
    arrays = {"x": np.ones(3, np.float32), "c": np.zeros(3, np.int32), "x.grad": np.zeros(3, np.float32)}
    assert run_bounded(parse_kernel(text), arrays, {}).poisoned is None
