"""Which indices are proved to be inside, and which are compared where: rules of the analysis, one kernel each."""

from __future__ import annotations

import pytest
from stackgrad.compiler.analysis.affine import Affine
from stackgrad.compiler.analysis.index_checks import index_checks
from stackgrad.compiler.analysis.inequalities import FactSet
from stackgrad.compiler.analysis.intervals import type_interval
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import i32
from stackgrad.compiler.ir.walk import walk_task

LOOP = """kernel k(x: f64[1], y: f64[1], a: f64[2], idx: i32[1], m: i32) {{
  bounds {{
    %0: i32 = shape x, 0
    %1: i32 = const 0
  }} parallel %2: i32 in %1 .. %0 {{
    %3: i32 = const 1
    %4: f64 = const 1.0
    %5: i32 = arg m
    {body}
  }}
}}"""


def compared(body: str, hoist: bool = True) -> tuple[list[str], list[str]]:
    """Return (accesses that are compared at the access, comparisons that loops make before), as short texts."""
    task = parsed(body).tasks[0]
    found = index_checks(task, hoist)
    here = [
        f"{type(s).__name__.lower()} {s.result.id if isinstance(s, n.Within) else s.array} {sorted(found.of(s))}"
        for s in walk_task(task)
        if isinstance(s, (n.Load, n.Store, n.Atomic, n.Within)) and found.of(s)
    ]
    before = [
        f"{getattr(c.stmt, 'array', 'within')} {c.axis}: {c.coefficient}"
        for s in walk_task(task)
        if isinstance(s, n.For)
        for c in found.before(s)
    ]
    return here, before


def parsed(body: str) -> Kernel:
    return parse_kernel(LOOP.format(body=body))


PROVED = {
    "the loop's own index": "%6: f64 = load x[%2]",
    "a neighbor below a condition": """%6: u1 = cmp_gt %2, %1
        if %6 { %7: i32 = sub %2, %3 %8: f64 = load x[%7] }""",
    "the other arm of a condition": """%6: u1 = cmp_le %2, %1
        if %6 { } else { %7: i32 = sub %2, %3 %8: f64 = load x[%7] }""",
    "both conditions of `and`": """%6: i32 = add %2, %3 %7: i32 = shape x, 0
        %8: u1 = cmp_lt %6, %7 %9: u1 = cmp_ge %2, %1 %10: u1 = logical_and %8, %9
        if %10 { %11: f64 = load x[%6] }""",
    "a remainder": """%6: i32 = add %2, %3 %7: i32 = shape x, 0 %8: i32 = mod %6, %7 %9: f64 = load x[%8]""",
    "clamped on both sides": """%6: i32 = sub %2, %3 %7: i32 = max %6, %1 %8: f64 = load x[%7]""",
    "half of it": "%6: i32 = const 2 %7: i32 = floordiv %2, %6 %8: f64 = load x[%7]",
    "a serial loop over the same axis": """%6: i32 = shape x, 0
        for %7: i32 in %1 .. %6 { %8: f64 = load x[%7] }""",
    "a descending loop from one": """%6: i32 = shape x, 0
        for %7: i32 in %3 .. %6 descending { %8: i32 = sub %7, %3 %9: f64 = load x[%8] }""",
    "a loop with a step below zero": """%6: i32 = const -1
        for %7: i32 in %2 .. %6 step -1 { %8: f64 = load x[%7] }""",
    "the upper four bits of sixteen": "%6: u16 = cast %5 %7: u16 = const 12 %8: u16 = bit_shr %6, %7 %9: i32 = cast %8 "
    '%10: i32 = const 16 %11: i32 = within %9, %10, ""',
    "a position below a condition": """%6: u1 = cmp_ge %2, %1 %7: u1 = cmp_lt %2, %5 %8: u1 = logical_and %6, %7
        if %8 { %9: i32 = within %2, %5, "" }""",
    "a position in a loop": 'for %6: i32 in %1 .. %5 { %7: i32 = within %6, %5, "" }',
    "what was a position of as many": '%6: i32 = shape x, 0 %7: i32 = within %2, %6, "" %8: f64 = load x[%7]',
}


@pytest.mark.parametrize("body", PROVED.values(), ids=PROVED)
def test_is_proved(body: str) -> None:
    assert compared(body) == ([], [])


COMPARED = {
    "another array": ("%6: f64 = load y[%2]", ["load y [0]"]),
    "a neighbor": ("%6: i32 = sub %2, %3 %7: f64 = load x[%6]", ["load x [0]"]),
    "an index from memory": ("%6: i32 = load idx[%2] %7: f64 = load x[%6]", ["load idx [0]", "load x [0]"]),
    "an argument": ("%6: f64 = load x[%5]", ["load x [0]"]),
    "a condition that is too weak": (
        "%6: u1 = cmp_ge %2, %1 if %6 { %7: i32 = sub %2, %3 %8: f64 = load x[%7] }",
        ["load x [0]"],
    ),
    "a condition of the other arm": (
        "%6: u1 = cmp_gt %2, %1 if %6 { } else { %7: i32 = sub %2, %3 %8: f64 = load x[%7] }",
        ["load x [0]"],
    ),
    "a sum that may wrap": (
        "%6: i32 = add %5, %3 %7: u1 = cmp_gt %6, %1 %8: i32 = shape x, 0 %9: u1 = cmp_lt %6, %8 "
        "%10: u1 = logical_and %7, %9 if %10 { %11: f64 = load x[%5] }",
        ["load x [0]"],
    ),
    "a remainder by an argument": ("%6: i32 = mod %2, %5 %7: f64 = load x[%6]", ["load x [0]"]),
    "behind a loop that looked": (
        "for %6: i32 in %1 .. %5 { %7: i32 = load idx[%2] } %8: i32 = load idx[%2]",
        ["load idx [0]"],
    ),
    "a wrapped index that is widened": (
        "%6: i32 = sub %5, %3 %7: i64 = cast %6 %8: i32 = shape x, 0 %9: u1 = cmp_lt %6, %8 "
        "if %9 { %10: f64 = load x[%7] }",
        ["load x [0]"],
    ),
    "a position of fewer": ('%6: i32 = within %2, %5, ""', ["within 6 [0]"]),
    "a position below zero": (
        '%6: i32 = sub %2, %3 %7: i32 = shape x, 0 %8: i32 = within %6, %7, ""',
        ["within 8 [0]"],
    ),
    "a position among what may have wrapped": (
        '%6: i32 = add %5, %3 for %7: i32 in %1 .. %5 { %8: i32 = within %7, %6, "" }',
        ["within 8 [0]"],
    ),
    "one axis of two": (
        "%6: i32 = shape a, 0 %7: u1 = cmp_lt %2, %6 if %7 { %8: f64 = load a[%2, %2] }",
        ["load a [1]"],
    ),
}


@pytest.mark.parametrize(("body", "wanted"), COMPARED.values(), ids=COMPARED)
def test_is_compared(body: str, wanted: list[str]) -> None:
    here, _ = compared(body, hoist=False)
    assert here[-len(wanted) :] == wanted


def test_one_comparison_serves_what_follows() -> None:
    """Also the adjoint of the array, and the same index in an arm; not what stands under no such condition."""
    body = """%6: f64 = load y[%2] store y[%2], %4 %7: u1 = cmp_gt %5, %3
        if %7 { %8: i32 = load idx[%2] } if %7 { store idx[%2], %3 } store idx[%2], %3"""
    assert compared(body)[0] == ["load y [0]", "load idx [0]", "store idx [0]"]


def test_a_local_that_is_set_once_is_seen_through() -> None:
    """As gradients keep indices: set in one arm, read in another one of the same condition."""
    body = """local kept: i32 %6: u1 = cmp_gt %2, %1
        if %6 { %7: i32 = sub %2, %3 set kept, %7 }
        %8: i32 = get kept
        if %6 { %9: f64 = load x[%8] }
        %10: f64 = load x[%8]"""
    assert compared(body)[0] == ["load x [0]"]


def test_one_comparison_of_a_position_serves_what_follows() -> None:
    """The same among as many, and an access of the array of that extent; not one among fewer."""
    body = """%6: i32 = load idx[%2] %7: i32 = shape y, 0 %8: i32 = within %6, %7, "" %9: i32 = within %6, %7, "again"
        %10: f64 = load y[%9] %11: i32 = within %6, %5, "" """
    assert compared(body)[0] == ["load idx [0]", "within 8 [0]", "within 11 [0]"]


LOOPS = {
    "a position": ('%6: i32 = add %5, %1 for %7: i32 in %1 .. %3 { %8: i32 = within %7, %6, "" }', ["within 0: 1"]),
    "the index itself": ("for %6: i32 in %1 .. %5 { %7: f64 = load y[%6] }", ["y 0: 1"]),
    "what does not change": ("for %6: i32 in %1 .. %5 { %7: f64 = load y[%2] }", ["y 0: 0"]),
    "twice the index, minus one": (
        "%6: i32 = const 1000 for %7: i32 in %1 .. %6 "
        "{ %8: i32 = add %7, %7 %9: i32 = sub %8, %3 %10: f64 = load y[%9] }",
        ["y 0: 2"],
    ),
}


@pytest.mark.parametrize(("body", "before"), LOOPS.values(), ids=LOOPS)
def test_a_loop_compares_before_it_runs(body: str, before: list[str]) -> None:
    assert compared(body) == ([], before)


def test_a_loop_compares_what_is_known_before_it() -> None:
    """Not the value that was kept from an arm of a branch, of which only the local is known there."""
    body = """local kept: i32 %6: u1 = cmp_gt %2, %1
        if %6 { %7: i32 = load idx[%2] set kept, %7 }
        %8: i32 = get kept
        if %6 { for %9: i32 in %1 .. %5 { %10: f64 = load y[%8] } }"""
    task = parsed(body).tasks[0]
    (loop,) = (s for s in walk_task(task) if isinstance(s, n.For))
    (check,) = index_checks(task, True).before(loop)
    kept = next(s.result for s in task.body if isinstance(s, n.Get))
    assert check.rest == Affine(0, ((kept, 1),))


STAYS = {
    "under a condition": "for %6: i32 in %1 .. %5 { %7: u1 = cmp_gt %6, %2 if %7 { %8: f64 = load y[%6] } }",
    "behind an exit": "for %6: i32 in %1 .. %5 { %7: u1 = cmp_gt %6, %2 if %7 { break 1 } %8: f64 = load y[%6] }",
    "an index that may wrap": "for %6: i32 in %1 .. %5 { %7: i32 = add %6, %5 %8: f64 = load y[%7] }",
    "an index made inside": "for %6: i32 in %1 .. %5 { %7: i32 = mul %6, %6 %8: f64 = load y[%7] }",
}


@pytest.mark.parametrize("body", STAYS.values(), ids=STAYS)
def test_what_a_loop_cannot_know_is_compared_in_it(body: str) -> None:
    assert compared(body) == (["load y [0]"], [])


def test_launches_decide_by_extents_and_arguments() -> None:
    """y[i] is inside for every i if y is as long as x; x[i + 1] under i < m - 1 if m is an extent or less."""
    task = parsed("%6: f64 = load y[%2]").tasks[0]
    (conditions,) = index_checks(task, True).launches.values()
    shape = {name: ("shape", name, 0) for name in "xy"}
    assert conditions == ((Affine(0, ((shape["x"], -1), (shape["y"], 1))),),)


def test_a_proof_combines_facts() -> None:
    facts = FactSet(lambda s: type_interval(i32), lambda s: ())
    i, j, size = (("arg", name) for name in ("i", "j", "n"))
    facts.learn(Affine(-1, ((i, -1), (j, 1))))
    mark = facts.mark()
    facts.learn(Affine(-1, ((j, -1), (size, 1))))
    goal = Affine(-2, ((i, -1), (size, 1)))
    assert facts.holds(goal)
    assert not facts.holds(Affine(-3, goal.terms))
    facts.forget(mark)
    assert not facts.holds(goal)


WRAPPED = {
    "the same form in 32 and in 64 bits": """%6: i32 = load idx[%2] %7: i32 = const 65536 %8: i32 = mul %6, %7
        %9: f64 = load y[%8] %10: i64 = cast %6 %11: i64 = const 65536 %12: i64 = mul %10, %11
        %13: f64 = load y[%12]""",
    "a condition on a product that was widened": """%6: i32 = load idx[%2] %7: i32 = const 65536 %8: i32 = mul %6, %7
        %9: i64 = cast %8 %10: i64 = const 0 %11: u1 = cmp_ge %9, %10 %12: i64 = shape y, 0 %13: u1 = cmp_lt %9, %12
        %14: u1 = logical_and %11, %13
        if %14 { %15: i64 = cast %6 %16: i64 = const 65536 %17: i64 = mul %15, %16 %18: f64 = load y[%17] }""",
    "an argument near the end of 64 bits": """%6: i64 = cast %2 %7: i64 = arg w %8: i64 = add %6, %7
        %9: f64 = load y[%8]""",
}


@pytest.mark.parametrize("name", WRAPPED)
def test_numbers_that_wrap_prove_nothing(name: str) -> None:
    kernel = parse_kernel(LOOP.format(body=WRAPPED[name]).replace("m: i32)", "m: i32, w: i64)"))
    task = kernel.tasks[0]
    found = index_checks(task, True)
    *_, last = (s for s in walk_task(task) if isinstance(s, n.Load))
    assert found.of(last) == {0} and (id(last), 0) not in found.launches


def test_what_ends_nothing_proves_nothing() -> None:
    """Where ends of the launch are put off, and after updates whose index is looked at when a sum is published."""
    task = parsed("%6: f64 = load y[%5] store y[%5], %6").tasks[0]
    for learns, axes in ((True, set()), (False, {0})):
        assert index_checks(task, True, learns).of(task.body[-1]) == axes
    task = parsed("%6: f64 = atomic add y[%5], %4 %7: f64 = load y[%5]").tasks[0]
    assert index_checks(task, hoist=False).of(task.body[-1]) == {0}
