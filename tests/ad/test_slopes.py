"""Test whether an operand or the slope computed from it is saved, and that both give the same gradient."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.ad.policies import set_default
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.nodes import For, Op, StackAlloca, StackPush
from stackgrad.compiler.ir.walk import walk, walk_kernel

_spec = importlib.util.spec_from_file_location("hostile_support", Path(__file__).with_name("hostile_support.py"))
assert _spec and _spec.loader
support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)
ints, real = support.ints, support.real


@pytest.fixture(autouse=True)
def _double():
    support.setup()


def lowered(kernel, policy: str) -> Kernel:
    """Assert that the gradient is right on the reference and on the CPU. Return the grad kernel."""
    source, arrays = support.contents(kernel)
    support.judge_ir(source, arrays, {}, ways=((policy, "reference"), (policy, "cpu")))
    return prepare_reverse(source, policy).kernel


def pushed(grad: Kernel) -> list[str]:
    """Return, for each push, the operation that computes the pushed value, or "" if no operation does."""
    made = {s.result: s.op for s in walk_kernel(grad) if isinstance(s, Op)}
    return sorted(made.get(s.value, "") for s in walk_kernel(grad) if isinstance(s, StackPush))


def in_reversed_loops(grad: Kernel) -> set[str]:
    """Return the operations in descending loops, those of the reverse sweep."""
    loops = [s for s in walk_kernel(grad) if isinstance(s, For) and s.descending]
    return {s.op for loop in loops for s in walk(loop.body) if isinstance(s, Op)}


def recurrence(step):
    """Return a kernel that computes v = step(v) n[i] times, with n = 0, 1, 2 and 5 and different v."""
    x, y, n = real(0.3, 0.7, 1.9, 0.2), real(0.0, 0.0, 0.0, 0.0), ints(5, 0, 1, 2)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for _ in range(n[i]):
                v = step(v)
            y[i] = v

    return run


@sg.func
def sine(v):
    return sg.sin(v) * 0.95 + 0.01


@sg.func
def cosine(v):
    return sg.cos(v) * 0.95 + 0.01


@sg.func
def power(v):
    return v**1.3 * 0.5 + 0.2


@sg.func
def twice(v):
    return sg.sin(v) * v


@sg.func
def four(v):
    return sg.sin(v) + sg.cos(v) * 0.5 + sg.sin(v * 0.3) + sg.cos(v * 0.7) * 0.1


@pytest.mark.parametrize("step, operation", [(sine, "cos"), (cosine, "neg"), (power, "mul")])
def test_the_slope_is_saved_where_nothing_else_is_read(step, operation):
    grad = lowered(recurrence(step), "lean")
    assert pushed(grad) == [operation]
    assert in_reversed_loops(grad) <= {"mul", "add"}, "the derivative is made again"
    operand = lowered(recurrence(step), "operands")
    assert pushed(operand) == [""]
    assert not in_reversed_loops(operand) <= {"mul", "add"}


@pytest.mark.parametrize("step", [twice, four])
def test_an_operand_is_saved_that_serves_several(step):
    """sin(v) * v reads v too; four slopes of one value are dearer than the value."""
    grad = lowered(recurrence(step), "lean")
    assert pushed(grad) == [""]
    assert "cos" in in_reversed_loops(grad)


def test_what_can_be_read_again_is_not_saved():
    x, y = real(0.3, 0.7, 1.9, 0.2), real(0.0)

    @sg.kernel
    def run():
        for _ in range(1):
            s = 0.0
            for j in range(4):
                s += sg.sin(x[j])
            y[0] = s

    assert pushed(lowered(run, "lean")) == []


def test_a_slope_has_the_name_of_its_operand():
    """In reports of overflows, and of what is saved."""
    grad = lowered(recurrence(sine), "lean")
    assert [s.variable for s in walk_kernel(grad) if isinstance(s, StackAlloca)] == ["v"]


def gradient(step, policy: str, dtype) -> np.ndarray:
    """Return the gradient of the sum of all results of `recurrence(step)`, on the reference."""
    sg.init(arch=sg.reference, default_fp=dtype)
    x, y = sg.field(dtype, shape=5, needs_grad=True), sg.field(dtype, shape=5, needs_grad=True)

    @sg.kernel
    def run(n: sg.i32):
        for i in x:
            v = x[i]
            for _ in range(n + i):
                v = step(v)
            y[i] = v

    x.from_numpy(np.linspace(0.1, 1.7, 5))
    y.grad.fill(1.5)
    before = set_default(policy)
    try:
        run.grad(2)
    finally:
        set_default(before)
    return x.grad.to_numpy()


@pytest.mark.parametrize("dtype", [sg.f32, sg.f64])
@pytest.mark.parametrize("step", [sine, cosine, power, twice, four])
def test_the_same_bits_as_from_operands(step, dtype):
    """g · slope is what the rule computes, wherever the slope comes from."""
    np.testing.assert_array_equal(gradient(step, "lean", dtype), gradient(step, "operands", dtype))
