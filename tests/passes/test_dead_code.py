"""Dead code: what is removed, what must stay, and that kernels mean the same afterwards."""

from __future__ import annotations

import time

import pytest
from ir_test_support.goldens import check, check_meaning, check_unchanged, serial
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.kernels import Kernel, Param, Task
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.compiler.ir.statement import Value
from stackgrad.compiler.ir.types import ArrayType, f32, i32
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.passes.dead_code import remove_dead_code

USE = "store m[%0], %0; store a[%0], %1; store flags[%0], %2; "
"""Everything of the head of the task is used."""


def clean(kernel: Kernel) -> Kernel:
    """Without the temporaries of the frame, which no test here is about."""
    return remove_dead_code(kernel, keep_temps=("$t", "$u"))


def removes(text: str, rest: str = "") -> None:
    check(clean, USE + text, USE + rest)


def keeps(text: str) -> None:
    check_unchanged(clean, USE + text)


# ---- what goes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "%9: f32 = sin %1",
        "%9: f32 = load a[%0]; %10: f32 = sin %9",
        "%9: i32 = floordiv %0, %0",
        "local v: f32",
        "local v: f32; set v, %1",
        "local v: f32; %9: f32 = get v",
        "local v: f32; %9: f32 = get v; %10: f32 = sin %9; set v, %10",
        "local_array w: f32[4]; set_element w[%0], %1; %9: f32 = get_element w[%0]",
        "if %2 { }",
        "if %2 { %9: f32 = sin %1 } else { %10: f32 = cos %1 }",
        "scope { }",
        "scope { if %2 { break 1 } }",
        "for %9: i32 in %0 .. %0 trips %10: i32 { }",
        "for %9: i32 in %0 .. %0 { if %2 { continue 1 } break 1 }",
        "for %9: i32 in %0 .. %0 { for %10: i32 in %0 .. %0 { continue 2 } }",
        "local go: u1; while { %9: u1 = get go } test %9 until go { set go, %2 }",
        "adstack_alloca s: f32 adjoint; for %9: i32 in %0 .. %0 { adstack_push s, %1 } adstack_pop s",
        "adstack_alloca s: f32 adjoint; adstack_push s, %1; %9: f32 = adstack_load_top s; adstack_acc_adj s, %9; "
        "adstack_pop s",
        # a loop that carries a value to itself alone
        "local v: f32; for %9: i32 in %0 .. %0 { %10: f32 = get v; %11: f32 = sin %10; set v, %11 }",
    ],
)
def test_vanishes(text: str) -> None:
    removes(text)


def test_overwritten_set() -> None:
    removes(
        "local v: f32; set v, %1; %9: f32 = sin %1; set v, %9; %10: f32 = get v; store a[%0], %10",
        "local v: f32; %9: f32 = sin %1; set v, %9; %10: f32 = get v; store a[%0], %10",
    )


def test_set_before_both_arms_overwrite() -> None:
    arms = "if %2 { %8: f32 = cos %1; set v, %8 } else { %9: f32 = sin %1; set v, %9 } "
    arms += "%10: f32 = get v; store a[%0], %10"
    removes(f"local v: f32; set v, %1; {arms}", f"local v: f32; {arms}")


def test_set_that_only_a_dead_value_reads() -> None:
    """Removing the get makes the set dead, which makes the load dead."""
    removes("local v: f32; %9: f32 = load b[%0]; set v, %9; %10: f32 = get v; %11: f32 = sin %10")


def test_set_at_the_end_of_a_body_that_starts_with_another() -> None:
    loop = "local v: f32; for %9: i32 in %0 .. %0 {{ set v, %1; %10: f32 = get v; store a[%9], %10; {}}}"
    removes(loop.format("%11: f32 = sin %10; set v, %11; "), loop.format(""))


def test_set_before_break_that_nothing_reads_behind() -> None:
    loop = (
        "local v: f32; set v, %1; for %9: i32 in %0 .. %0 {{ %10: f32 = get v; store a[%9], %10; if %2 {{ "
        "store m[%9], %9; {}break 1 }} }}"
    )
    removes(loop.format("%11: f32 = sin %10; set v, %11; "), loop.format(""))


def test_unreachable_statements() -> None:
    removes(
        "scope { if %2 { break 1; store a[%0], %1 } store m[%0], %0 }", "scope { if %2 { break 1 } store m[%0], %0 }"
    )


def test_unused_trip_counts() -> None:
    loop = "for %9: i32 in %0 .. %0{} {{ store m[%9], %9 }} while {{ }} test %2{} {{ store m[%0], %0 }}"
    removes(loop.format(" trips %10: i32", " trips %11: i32"), loop.format("", ""))


def test_empty_arm_stays_empty() -> None:
    removes("if %2 { %9: f32 = sin %1 } else { store m[%0], %0 }", "if %2 { } else { store m[%0], %0 }")


def test_primals_without_adjoints() -> None:
    stack = (
        "adstack_alloca s: f32 adjoint; adstack_push s, %1; %9: f32 = adstack_load_top s; store a[%0], %9; {}"
        "adstack_pop s"
    )
    removes(stack.format("adstack_acc_adj s, %1; "), stack.format(""))


# ---- what stays ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "%9: f32 = random",
        "%9: f32 = atomic add a[%0], %1",
        'assert %2, "m"',
        'print "{}" %1',
        "if %2 { return }",
        "store a.grad[%0], %1",
        # the flag ends the loop
        "local go: u1; for %9: i32 in %0 .. %0 until go { store m[%9], %9; set go, %2 }",
        # the trip count of an empty loop
        "for %9: i32 in %0 .. %0 trips %10: i32 { if %2 { break 1 } } store m[%0], %10",
        # read in the next iteration
        "local v: f32; for %9: i32 in %0 .. %0 { %10: f32 = get v; store a[%9], %10; set v, %1 }",
        # read in the condition
        "local go: u1; set go, %2; while { %9: u1 = get go } test %9 { set go, %2; store m[%0], %0 }",
        # read behind the loop, and the loop may not run
        "local v: f32; set v, %1; for %9: i32 in %0 .. %0 { %10: f32 = sin %1; set v, %10 } "
        "%11: f32 = get v; store a[%0], %11",
        # read behind the frame that the jump leaves, not where the block goes on
        "local v: f32; scope { if %2 { set v, %1; break 1 } %9: f32 = sin %1; set v, %9 } "
        "%10: f32 = get v; store a[%0], %10",
        # the same over two frames, with a loop whose own successor overwrites
        "local v: f32; scope { for %9: i32 in %0 .. %0 { set v, %1; if %2 { break 2 } } "
        "%10: f32 = sin %1; set v, %10 } %11: f32 = get v; store a[%0], %11",
        # read after continue, in the next iteration
        "local v: f32; for %9: i32 in %0 .. %0 { %10: f32 = get v; store a[%9], %10; if %2 { set v, %1; continue 1 } "
        "%11: f32 = sin %1; set v, %11 }",
        # one arm alone overwrites
        "local v: f32; set v, %1; if %2 { %9: f32 = sin %1; set v, %9 } %10: f32 = get v; store a[%0], %10",
        # both ends of a stack
        "adstack_alloca s: f32 adjoint; adstack_push s, %1; adstack_acc_adj s, %1; %9: f32 = adstack_load_top_adj s; "
        "adstack_pop s; store a[%0], %9",
    ],
)
def test_stays(text: str) -> None:
    keeps(text)


def test_a_local_declared_in_a_loop_is_zero_in_each_iteration() -> None:
    """The set at the end of the body reaches no get: the declaration stands between."""
    loop = "for %9: i32 in %0 .. %0 {{ local v: f32; %10: f32 = get v; store a[%9], %10; {}}}"
    removes(loop.format("set v, %1; "), loop.format(""))


# ---- temporaries, tasks -------------------------------------------------------------------------------------

TEMPS = """\
kernel k(a: f32[0]) {
  temp $used: f32
  temp $stored: f32
  temp $own: f32
  serial {
    %0: f32 = load a[]
    store $used[], %0
    store $stored[], %0
    %1: f32 = atomic add $stored[], %0
    %2: f32 = load $own[]
    store $own[], %2
  }
  serial {
    %3: f32 = load $used[]
    store a[], %3
  }
}
"""


def test_temporaries_that_nothing_needs() -> None:
    made = remove_dead_code(parse_kernel(TEMPS))
    assert [t.name for t in made.temps] == ["$used"]
    assert "$stored" not in print_kernel(made) and "$own" not in print_kernel(made)
    assert len(made.tasks[0].body) == 2


def test_temporaries_that_are_kept() -> None:
    made = remove_dead_code(parse_kernel(TEMPS), keep_temps=("$stored", "$own"))
    assert made == parse_kernel(TEMPS)


def test_an_atomic_of_a_temporary_whose_result_is_used() -> None:
    text = "kernel k(a: f32[0]) { temp $t: f32 serial { %0: f32 = load a[] %1: f32 = atomic exchange $t[], %0 "
    kernel = parse_kernel(text + "store a[], %1 } }")
    assert remove_dead_code(kernel) is kernel


def test_tasks_stay_and_bounds_are_cleaned() -> None:
    kernel = parse_kernel("""
kernel k(a: f32[1]) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape a, 0
    %2: i32 = neg %1
  } parallel %3: i32 in %0 .. %1 {
    %4: f32 = load a[%3]
  }
}
""")
    made = remove_dead_code(kernel)
    assert len(made.tasks) == 1
    assert len(made.tasks[0].bounds) == 2 and not made.tasks[0].body


def test_locals_that_cross_tasks() -> None:
    kernel = parse_kernel("""
kernel k(a: f32[0]) {
  serial {
    local v: f32
    %0: f32 = load a[]
    set v, %0
  }
  serial {
    %1: f32 = get v
    store a[], %1
  }
}
""")
    verify(kernel, "source")
    assert remove_dead_code(kernel) is kernel


def test_equal_statements_are_told_apart_by_position() -> None:
    """The same node, a set of v, stands in three places; the first two are dead."""
    node = n.Set("v", Value(1, f32))
    store = n.Store("a", (Value(0, i32),), Value(20, f32))
    block = (n.Local("v", f32), node, node, n.If(Value(2, i32), (node,)), node, n.Get(Value(20, f32), "v"), store)
    made = remove_dead_code(Kernel("k", (Param("a", ArrayType(f32, 1)),), (Task(block),)))
    assert [type(s).__name__ for s in made.tasks[0].body] == ["Local", "Set", "Get", "Store"]


# ---- meaning and time ---------------------------------------------------------------------------------------


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(120))
def test_random_kernels_do_the_same(seed: int) -> None:
    check_meaning(remove_dead_code, seed)


def test_time_grows_with_size_not_with_its_square() -> None:
    """20,000 statements, in loops nested 8 deep, each read by the next; the last one is dead, so all are."""

    def nest(depth: int, first: int) -> str:
        lines = [f"%{first + i}: f32 = sin %{first + i - 1 if i else 1} set v, %{first + i}" for i in range(1200)]
        inner = nest(depth - 1, first + 1300) if depth else ""
        return f"for %{first + 1290}: i32 in %0 .. %0 {{ " + "; ".join(lines) + "; " + inner + "} "

    """A chain through one local is as bad: each set is dead once the get after it is."""
    chain = "local z: f32; " + "".join(
        f"%{i}: f32 = get z; %{i + 1}: f32 = sin %{i}; set z, %{i + 1}; " for i in range(50_000, 52_000, 2)
    )
    start = time.process_time()
    made = clean(serial(USE + chain + "set z, %1; %9: f32 = get z; store b[%0], %9"))
    assert time.process_time() - start < 2
    assert len(made.tasks[0].body) == 10

    kernel = serial("local v: f32; " + nest(7, 100) + "%9: f32 = get v; local w: f32; set w, %9; ")
    start = time.process_time()
    made = remove_dead_code(kernel)
    assert time.process_time() - start < 4
    assert not made.tasks[0].body
