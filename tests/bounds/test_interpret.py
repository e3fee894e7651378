"""Test error bounds statement by statement: how they propagate and grow, and when a run is poisoned."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.bounds import judge, run_bounded
from stackgrad.reference.launch import run

HEAD = """kernel k(x: f32[1], y: f32[1], c: i32[1]) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load x[%2]
    %4: f32 = const 1.0
    %5: i32 = const 1
    %20: i32 = const 0
    %21: i32 = shape x, 0
"""


def bounded(body, x, errors=(), c=(0, 0), precise=True):
    """Run `body` after HEAD with error bounds, on x with the given errors; y starts at zero."""
    arrays = {"x": np.array(x, np.float32), "y": np.zeros(len(x), np.float32), "c": np.array(c, np.int32)}
    given = {"x": np.array(errors)} if len(errors) else None
    return run_bounded(parse_kernel(HEAD + body + "\n  }\n}"), arrays, {}, errors=given, precise=precise)


STORE = "store y[%2], "


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("%6: u1 = cmp_lt %3, %4\nif %6 {\nstore y[%2], %4\n}", "condition of a branch"),
        ("%6: i32 = cast %3\n%7: f32 = load x[%6]\nstore y[%2], %7", "an index"),
        ("%6: i32 = cast %3\nfor %7: i32 in %20 .. %6 {\nstore y[%2], %4\n}", "end of a loop"),
        ("%6: i32 = cast %3\nfor %7: i32 in %6 .. %5 {\nstore y[%2], %4\n}", "begin of a loop"),
        (
            "local f: u1\nfor %6: i32 in %20 .. %5 until f {\n%7: u1 = cmp_lt %3, %4\nset f, %7\n}",
            "flag that ends a loop",
        ),
        ("while {\n%6: u1 = cmp_lt %3, %4\n} test %6 {\nbreak 1\n}", "condition of a loop"),
        ('%6: u1 = cmp_ge %3, %4\nassert %6, "small"', "asserted condition"),
        ("%6: i32 = cast %3\n%7: i32 = mod %5, %6", "a divisor"),
        ("local_array a: f32[4]\n%6: i32 = cast %3\nset_element a[%6], %4", "an index"),
        ("%6: f32 = floor %3\n%7: u1 = cmp_lt %6, %4\nif %7 {\nstore y[%2], %4\n}", "condition of a branch"),
        (
            "adstack_alloca s: u1\n%6: u1 = cmp_lt %3, %4\nadstack_push s, %6\n%7: u1 = adstack_load_top s\n"
            "if %7 {\nstore y[%2], %4\n}",
            "condition of a branch",
        ),
    ],
)
def test_uncertain_decisions_poison(body, what):
    """At x = 1 within 1e-3 the decision is open; at 1.5 it is not, nor at 1 exactly."""
    open_ = bounded(body, [1.5, 1.0], [1e-3, 1e-3])
    assert what in open_.poisoned
    assert "task 0, iteration (1)" in open_.poisoned and "`" in open_.poisoned
    assert np.isinf(open_.errors["y"]).all()
    assert bounded(body, [1.5, 1.5], [1e-3, 1e-3]).poisoned is None
    assert bounded(body, [1.0, 1.0]).poisoned is None


def test_values_go_on_after_poison():
    """The arrays are the reference's all the same."""
    body = "%6: u1 = cmp_ge %3, %4\nif %6 {\n%7: f32 = sin %3\nstore y[%2], %7\n}"
    found = bounded(body, [1.0, 2.0], [1e-3, 0.0])
    assert found.poisoned and found.arrays["y"].tolist() == np.sin([1.0, 2.0]).astype(np.float32).tolist()


def test_uncertain_select_covers_both_arms():
    body = "%6: u1 = cmp_lt %3, %4\n%7: f32 = const 5.0\n%8: f32 = select %6, %7, %4\n" + STORE + "%8"
    found = bounded(body, [1.0, 0.5], [1e-3, 1e-3])
    assert found.poisoned is None
    assert found.errors["y"] == pytest.approx([4.0, 0.0])


@pytest.mark.parametrize("op", ["floor", "ceil", "round"])
def test_jumps_back_in_a_real_have_infinite_error(op):
    found = bounded(f"%6: f32 = {op} %3\n{STORE}%6", [1.5 if op == "round" else 1.0, 1.2], [1e-6, 1e-6])
    assert found.poisoned is None
    assert found.errors["y"].tolist() == [np.inf, 0.0]


@pytest.mark.parametrize(
    "body",
    [
        "local v: f32\nset v, %3\n%6: f32 = get v\nstore y[%2], %6",
        "local_array a: f32[3]\nset_element a[%5], %3\n%6: f32 = get_element a[%5]\nstore y[%2], %6",
        "adstack_alloca s: f32\nadstack_push s, %4\nadstack_push s, %3\n%6: f32 = adstack_load_top s\nstore y[%2], %6",
        "adstack_alloca s: f32 adjoint\nadstack_push s, %4\nadstack_acc_adj s, %3\n"
        "%6: f32 = adstack_load_top_adj s\nstore y[%2], %6",
        "%6: f32 = neg %3\nstore y[%2], %6",
        "%6: f32 = max %3, %4\nstore y[%2], %6",
        "%6: f32 = atomic exchange y[%2], %3",
        "%6: f32 = atomic max y[%2], %3",
        "%6: u1 = cmp_lt %20, %5\nif %6 {\nstore y[%2], %3\n}",
        "local v: f32\nfor %6: i32 in %20 .. %5 {\nset v, %3\n}\n%7: f32 = get v\nstore y[%2], %7",
    ],
)
def test_errors_are_carried_unchanged(body):
    errors = bounded(body, [2.0, 4.0], [1e-2, 1e-1]).errors["y"]
    assert errors == pytest.approx([1e-2, 1e-1], rel=1e-5)


def test_slots_and_locals_are_reset():
    """An adstack drops the error with the slot, a declaration with the content."""
    body = (
        "adstack_alloca s: f32\nadstack_push s, %4\nadstack_push s, %3\nadstack_pop s\n"
        "%6: f32 = adstack_load_top s\nlocal v: f32\nset v, %6\n" + STORE + "%6"
    )
    assert bounded(body, [2.0, 4.0], [1e-2, 1e-1]).errors["y"].tolist() == [0.0, 0.0]
    loop = "for %6: i32 in %20 .. %21 {\nlocal v: f32\n%7: f32 = get v\nstore y[%2], %7\nset v, %3\n}"
    assert bounded(loop, [2.0, 4.0], [1e-2, 1e-1]).errors["y"].tolist() == [0.0, 0.0]


def test_precise_code_rounds_alike():
    """With exact inputs IEEE operations give one result; contraction may lose a rounding, sin is approximated."""
    body = f"%6: f32 = mul %3, %3\n%7: f32 = sub %6, %4\n{STORE}%7"
    assert not bounded(body, [1.1, 1.3]).errors["y"].any()
    contracted, exact = bounded(body, [1.1, 1.3], precise=False), np.float32([1.1, 1.3]).astype(float) ** 2 - 1
    gap = np.abs(exact - contracted.arrays["y"])
    assert (gap <= contracted.errors["y"]).all() and (contracted.errors["y"] < 4 * gap + 1e-9).all()
    assert bounded(f"%6: f32 = sin %3\n{STORE}%6", [1.1, 1.3]).errors["y"].all()


SUMS = "%6: i32 = load c[%2]\n%7: f32 = atomic add y[%6], %3"


def test_sums_in_any_order():
    """Every order of a sum with cancellation stays within the bound; own elements have none."""
    rng = np.random.default_rng(0)
    x, c = (rng.normal(size=200) * 10.0 ** rng.integers(-3, 4, 200)).astype(np.float32), np.zeros(200, np.int32)
    found = bounded(SUMS, x, c=c)
    kernel, seen = parse_kernel(HEAD + SUMS + "\n  }\n}"), set()
    for order in ("forward", "reverse", *(f"shuffled:{s}" for s in range(20))):
        arrays = {"x": x, "y": np.zeros(200, np.float32), "c": c}
        run(kernel, arrays, {}, order=order)
        seen.add(float(arrays["y"][0]))
        assert judge(found.arrays, arrays, found.errors)["y"].state != "disagree"
    assert len(seen) > 3
    assert found.errors["y"][0] > 0 and not found.errors["y"][1:].any()
    assert not bounded(SUMS, x, c=np.arange(200)).errors["y"].any()


@pytest.mark.parametrize(
    "body",
    [
        "%6: i32 = load c[%2]\n%7: f32 = atomic exchange y[%6], %3",
        "%6: i32 = load c[%2]\n%7: f32 = atomic mul y[%6], %3",
        "%6: i32 = load c[%2]\n%7: f32 = atomic add y[%6], %3\nset v, %7",
        "%6: i32 = load c[%2]\n%7: f32 = atomic add y[%6], %3\n%8: f32 = atomic max y[%6], %3",
        "%6: i32 = load c[%2]\n%7: f32 = atomic add y[%6], %3\n%8: f32 = load y[%6]",
    ],
)
def test_order_dependence_poisons(body):
    body = "local v: f32\n" + body
    found = bounded(body, [1.0, 2.0], c=[1, 1])
    assert "`y[1]` depends on the order of iterations" in found.poisoned
    assert bounded(body, [1.0, 2.0], c=[1, 0]).poisoned is None


def test_extremes_are_continuous():
    found = bounded("%6: i32 = load c[%2]\n%7: f32 = atomic max y[%6], %3", [1.0, 2.0], [1e-3, 1e-2])
    assert found.poisoned is None
    assert found.errors["y"] == pytest.approx([1e-2, 0.0])


def test_gradient_starts_from_the_errors_of_its_forward_run():
    """Errors of temporaries and of tasks in a row add up; an exact start gives less."""
    body = f"%6: f32 = sin %3\n%7: f32 = mul %6, %6\n{STORE}%7"
    once = bounded(body, [0.7, 0.9])
    again = bounded(body, once.arrays["y"], once.errors["y"]).errors["y"]
    assert (again > bounded(body, once.arrays["y"]).errors["y"]).all()


def test_scalars_may_have_errors():
    kernel = parse_kernel(
        "kernel k(a: f32, y: f32[1]) {\n  serial {\n    %0: f32 = arg a\n    %1: i32 = const 0\n"
        "    store y[%1], %0\n  }\n}"
    )
    found = run_bounded(kernel, {"y": np.zeros(1, np.float32)}, {"a": 2.0}, errors={"a": 0.25})
    assert found.errors["y"] == pytest.approx([0.25])


def test_overflow_is_open_and_exact_infinity_is_not():
    body = f"%6: f32 = exp %3\n{STORE}%6"
    assert bounded(body, [100.0, np.inf], [0.0, 0.0]).errors["y"].tolist() == [np.inf, 0.0]


def test_inputs_are_left_alone_and_trips_are_counted():
    arrays = {"x": np.ones(2, np.float32), "y": np.zeros(2, np.float32), "c": np.zeros(2, np.int32)}
    body = f"%6: i32 = const 7\nfor %7: i32 in %20 .. %6 {{\n{STORE}%3\n}}"
    found = run_bounded(parse_kernel(HEAD + body + "\n  }\n}"), arrays, {})
    assert found.trips == 7 and found.executed > 7
    assert not arrays["y"].any() and found.arrays["y"].all()


def test_errors_grow_with_trips():
    body = """local v: f32
set v, %3
%6: i32 = load c[%2]
for %7: i32 in %20 .. %6 {
  %8: f32 = get v
  %9: f32 = sin %8
  %10: f32 = add %9, %8
  set v, %10
}
%11: f32 = get v
store y[%2], %11"""
    errors = bounded(body, [0.5] * 5, c=[1, 2, 3, 4, 5]).errors["y"]
    assert all(a < b for a, b in pairwise(errors))
