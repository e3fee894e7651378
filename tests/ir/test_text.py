"""Text form: printing and parsing are inverse, and renumbering gives equal programs equal texts."""

from __future__ import annotations

import re

import pytest
from ir_test_support.random_kernels import random_kernel
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel, parse_kernels
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.compiler.ir.statement import Value
from stackgrad.compiler.ir.types import f32, f64
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.ir.walk import renumber, results, walk_kernel

SEEDS = range(60)

EVERYTHING = """\
kernel everything(x: f32[2] grad, n: i32, e: f64) {
  temp $t: f64
  serial {
    %0: f64 = const -0.0
    store $t[], %0
    %1: f64 = const nan
    %2: f64 = const -inf
    %3: f64 = const 1e-300
    print "a \\"quoted\\" {} and {}" %1, %2
  }
  bounds {
    %4: i32 = const 0
    %5: i32 = shape x, 1
  } parallel %6: i32, %7: i32 in %4 .. %5, %4 .. %5 {
    local stop: u1
    local_array w: f32[3]
    adstack_alloca s: f32 capacity 4 adjoint of v
    adstack_alloca r: i32
    %8: f32 = load x[%6, %7]
    %17: i32 = const 0
    set_element w[%17], %8
    adstack_push s, %8
    for %9: i32 in %7 .. %17 step -2 descending until stop trips %10: i32 {
      %11: f32 = adstack_load_top s
      adstack_acc_adj s, %11
      %12: f32 = adstack_load_top_adj s
      %13: f32 = atomic add x.grad[%6, %7], %12
    }
    while {
      %14: u1 = get stop
    } test %14 until stop trips %15: i32 {
      %18: u1 = const false
      set stop, %18
    }
    %16: u1 = get stop
    if %16 {
      adstack_pop s
    } else {
      assert %16, "positive"
    }
  }
}
"""


def test_every_kind_of_statement_prints_as_it_reads() -> None:
    kernel = parse_kernel(EVERYTHING)
    assert print_kernel(kernel) == EVERYTHING
    verify(kernel, "adjoint")


@pytest.mark.rotating
@pytest.mark.parametrize("seed", SEEDS)
def test_parse_inverts_print(seed: int) -> None:
    kernel = random_kernel(seed)
    assert parse_kernel(print_kernel(kernel)) == kernel


@pytest.mark.rotating
@pytest.mark.parametrize("seed", SEEDS)
def test_renumber_is_stable_and_forgets_ids(seed: int) -> None:
    kernel = random_kernel(seed)
    normal = renumber(kernel)
    verify(normal, "tasks")
    assert renumber(normal) == normal
    assert print_kernel(renumber(_shifted(kernel))) == print_kernel(normal)
    ids = [v.id for task in normal.tasks for v in task.indices]
    ids += [v.id for stmt in walk_kernel(normal) for v in results(stmt)]
    assert sorted(ids) == list(range(len(ids)))


def _shifted(kernel: Kernel) -> Kernel:
    """The kernel with other ids, in the opposite order."""
    highest = max((v.id for stmt in walk_kernel(kernel) for v in results(stmt)), default=0)
    return parse_kernel(re.sub(r"%(\d+)", lambda m: f"%{2 * highest - int(m.group(1))}", print_kernel(kernel)))


def test_several_kernels_in_one_text() -> None:
    text = print_kernel(random_kernel(1)) + print_kernel(random_kernel(2))
    assert parse_kernels(text) == [random_kernel(1), random_kernel(2)]


def test_values_of_different_type_differ() -> None:
    assert Value(1, f32) != Value(1, f64)
