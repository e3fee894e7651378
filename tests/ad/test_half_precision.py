"""Test that adjoints of f16 arrays are summed in f32, on every executor, so that no small terms are lost.

All terms are powers of two, so that sums in f32 are exact. In f16 a sum stops growing when a term is half an ulp: that
of 10,000 terms of 2^-6 at 32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.base import Draws
from stackgrad.compiler.ad.policies import POLICIES
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import adjoint_type, f16, f32, f64, i32
from stackgrad.harness.testing import executors
from stackgrad.harness.testing.launch import with_gradient
from stackgrad.harness.tools.fuzz.features import wrong_types

COUNT = 10_000
TERM = 2.0**-6
EXECUTORS = ("reference", "classic", "cpu", "cpu-masked", "vulkan", "cuda-emulated", "metal-emulated")

PARALLEL = """kernel parallel(w: f16[1] grad, loss: f32[0] grad) {{
  bounds {{ %0: i32 = const 0 %1: i32 = const {count} }} parallel %2: i32 in %0 .. %1 {{
    %3: i32 = const 0
    %4: f16 = load w[%3]
    %5: f16 = const {term}
    %6: f16 = mul %4, %5
    %7: f32 = cast %6
    %8: f32 = atomic add loss[], %7
  }}
}}"""
"""Into the adjoint array, from all iterations."""

SERIAL = """kernel serial(w: f16[1] grad, loss: f32[0] grad) {{
  serial {{
    %0: i32 = const 0
    %1: i32 = const {count}
    local s: f32
    %3: f16 = load w[%0]
    for %4: i32 in %0 .. %1 {{
      %5: f16 = const {term}
      %6: f16 = mul %3, %5
      %7: f32 = cast %6
      %8: f32 = get s
      %9: f32 = add %8, %7
      set s, %9
    }}
    %10: f32 = get s
    store loss[], %10
  }}
}}"""
"""Into the adjoint of a value."""

LOCAL = """kernel variable(w: f16[1] grad, loss: f32[0] grad) {{
  serial {{
    %0: i32 = const 0
    %1: i32 = const {count}
    %2: i32 = const 1
    local s: f32
    local v: f16
    local_array a: f16[2]
    %3: f16 = load w[%0]
    set v, %3
    for %4: i32 in %0 .. %1 {{
      %5: f16 = get v
      set_element a[%2], %5
      %6: f16 = get_element a[%2]
      %7: f16 = const {term}
      %8: f16 = mul %6, %7
      %9: f32 = cast %8
      %10: f32 = get s
      %11: f32 = add %10, %9
      set s, %11
      set v, %6
    }}
    %12: f32 = get s
    store loss[], %12
  }}
}}"""
"""Into the adjoints of a variable and of an element of an array of its own."""

TEMPORARY = """kernel temporary(w: f16[1] grad, loss: f32[0] grad) {{
  temp $t: f16
  serial {{
    %0: i32 = const 0
    %1: f16 = load w[%0]
    store $t[], %1
  }}
  bounds {{ %10: i32 = const 0 %11: i32 = const {count} }} parallel %12: i32 in %10 .. %11 {{
    %13: f16 = load $t[]
    %14: f16 = const {term}
    %15: f16 = mul %13, %14
    %16: f32 = cast %15
    %17: f32 = atomic add loss[], %16
  }}
}}"""
"""Into the adjoint of what crosses from task to task."""

KERNELS = {"array": PARALLEL, "value": SERIAL, "variable": LOCAL, "temporary": TEMPORARY}


def kernel_of(text: str, count: int = COUNT) -> Kernel:
    return parse_kernel(text.format(count=count, term=TERM))


def pulled_back(kernel: Kernel, executor: executors.LaunchExecutor) -> float:
    """Return the gradient of the loss with respect to w."""
    arrays = {"w": np.ones(1, np.float16), "loss": np.zeros((), np.float32)}
    after = executor.forward(kernel, arrays, {}, Draws())
    seeds = {"w": np.zeros(1, np.float32), "loss": np.ones((), np.float32)}
    found = executor.gradient(kernel, arrays, after, {}, Draws(), seeds)["w"]
    assert found.dtype == np.float32
    return float(found[0])


def executor_named(name: str) -> executors.LaunchExecutor:
    if name in ("reference", "classic"):
        return executors.reference_executor(lowering="classic" if name == "classic" else "lean")
    found, absent = executors.present_backends([name])
    if not found:
        pytest.skip(absent[name])
    return found[0]


@pytest.mark.rotating
@pytest.mark.parametrize("place", KERNELS)
@pytest.mark.parametrize("name", EXECUTORS)
def test_a_sum_of_many_shares_is_exact(name: str, place: str) -> None:
    assert pulled_back(kernel_of(KERNELS[place]), executor_named(name)) == COUNT * TERM


@pytest.mark.parametrize("place", KERNELS)
def test_no_policy_keeps_an_adjoint_in_half_precision(place: str) -> None:
    kernel = kernel_of(KERNELS[place], 200)
    for policy in POLICIES:
        gradient = prepare_reverse(kernel, policy, check=True).kernel
        assert wrong_types(kernel, gradient) == ""
        assert pulled_back(kernel, executors.reference_executor(lowering=policy)) == 200 * TERM


def test_types_of_adjoints() -> None:
    assert [adjoint_type(t) for t in (f16, f32, f64, i32)] == [f32, f32, f64, i32]
    kernel = kernel_of(TEMPORARY)
    types = prepare_reverse(kernel).kernel.array_types()
    names = (*with_gradient(kernel), "$t")
    assert {name: types[f"{name}.grad"].dtype for name in names} == dict.fromkeys(names, f32)
    assert types["w"].dtype == f16


EXTREME = """kernel extreme(w: f16[1] grad, top: f16[0] grad) {
  bounds { %0: i32 = const 0 %1: i32 = shape w, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f16 = load w[%2]
    %4: f16 = atomic max top[], %3
  }
}"""


@pytest.mark.parametrize("name", EXECUTORS)
def test_an_extreme_hands_out_an_adjoint_that_half_precision_cannot_hold(name: str) -> None:
    kernel, executor = parse_kernel(EXTREME), executor_named(name)
    arrays = {"w": np.array([1, 3, 2], np.float16), "top": np.zeros((), np.float16)}
    after = executor.forward(kernel, arrays, {}, Draws())
    seeds = {"w": np.zeros(3, np.float32), "top": np.array(100_000.125, np.float32)}
    assert executor.gradient(kernel, arrays, after, {}, Draws(), seeds)["w"].tolist() == [0, 100_000.125, 0]


# ---- what programs see ------------------------------------------------------------------------------------------


@pytest.fixture(params=["reference", "cpu", "vulkan"])
def arch(request: pytest.FixtureRequest) -> Any:
    from stackgrad.backends import registry

    if not registry.get(request.param).probe().available:
        pytest.skip(f"no {request.param}")
    sg.init(arch=request.param)
    yield request.param
    sg.reset()


def test_gradients_of_fields_hold_single_precision(arch: str) -> None:
    x = sg.field(sg.f16, 2, needs_grad=True, needs_dual=True)
    v = sg.Vector.field(3, sg.f16, shape=2, needs_grad=True)
    pair = sg.types.struct(a=sg.f16, b=sg.types.vector(2, sg.f16), c=sg.f64)
    s = pair.field(shape=2, needs_grad=True)
    a = sg.ndarray(sg.f16, 2, needs_grad=True)
    assert (x.grad.dtype, x.dual.dtype, v.grad.dtype, a.grad.dtype) == (sg.f32, sg.f16, sg.f32, sg.f32)
    assert (s.grad.a.dtype, s.grad.b.dtype, s.grad.c.dtype) == (sg.f32, sg.f32, sg.f64)
    x.grad[0] = 100_000.125
    v.grad[1] = [1.0, 2.0, 100_000.125]
    assert x.grad[0] == 100_000.125 and x.grad.to_numpy().dtype == np.float32
    assert v.grad.to_numpy()[1].tolist() == [1.0, 2.0, 100_000.125]


def test_tapes_kernels_and_arguments(arch: str) -> None:
    """A tape over several launches adds in f32; a kernel reads `x.grad` as f32, and steps in f16."""
    x, loss = sg.field(sg.f16, 2, needs_grad=True), sg.field(sg.f16, (), needs_grad=True)

    @sg.kernel
    def many():
        for i in range(2048):
            loss[None] += x[i % 2] * sg.cast(0.015625, sg.f16)

    @sg.kernel
    def step(y: sg.types.ndarray(), rate: sg.f32):
        for i in x:
            y[i] = x.grad[i]
            x[i] -= rate * x.grad[i]

    with sg.ad.Tape(loss):
        for _ in range(8):
            many()
    assert x.grad.to_numpy().tolist() == [128.0, 128.0]
    y = np.zeros(2, np.float32)
    step(y, 0.5)
    assert y.tolist() == [128.0, 128.0] and x.to_numpy().tolist() == [-64.0, -64.0]


def test_vectors_structs_and_ndarrays(arch: str) -> None:
    pair = sg.types.struct(a=sg.f16, b=sg.types.vector(2, sg.f16))
    s, loss = pair.field(shape=1, needs_grad=True), sg.field(sg.f32, (), needs_grad=True)
    a = sg.ndarray(sg.f16, 1, needs_grad=True)

    @sg.kernel
    def many(a: sg.types.ndarray()):
        for _ in range(COUNT):
            loss[None] += (s[0].a + s[0].b[1] + a[0]) * sg.cast(0.015625, sg.f16)

    @sg.kernel
    def gradients(a: sg.types.ndarray(), out: sg.types.ndarray()):
        for _ in range(1):
            out[0], out[1], out[2] = s.grad[0].a, s.grad[0].b[1], a.grad[0]

    with sg.ad.Tape(loss):
        many(a)
    out = np.zeros(3, np.float32)
    gradients(a, out)
    assert out.tolist() == [COUNT * TERM] * 3
    assert (s.grad[0].a, s.grad[0].b[1], a.grad[0]) == (COUNT * TERM,) * 3


def test_second_derivatives(arch: str) -> None:
    """H v of sum x^2/64 is v/32 a term; the tangent of an adjoint is a sum like it, in f32."""
    x, loss = sg.field(sg.f16, 1, needs_grad=True), sg.field(sg.f32, (), needs_grad=True)
    x.fill(1.0)

    @sg.kernel
    def squares():
        for _ in range(COUNT):
            loss[None] += x[0] * x[0] * sg.cast(0.015625, sg.f16)

    (found,) = sg.ad.hvp(loss, [x], squares, [np.ones(1)])
    assert np.asarray(found).tolist() == [2 * COUNT * TERM] and x.grad[0] == 2 * COUNT * TERM


def test_a_kernel_of_text_takes_adjoints_in_single_precision(arch: str) -> None:
    kernel = sg.kernel_from_text(PARALLEL.format(count=COUNT, term=TERM))
    w, loss, grad = np.ones(1, np.float16), np.zeros((), np.float32), np.zeros(1, np.float32)
    given = {"w": w, "loss": loss, "loss.grad": np.ones((), np.float32)}
    kernel.grad({**given, "w.grad": grad})
    assert grad.tolist() == [COUNT * TERM]
    with pytest.raises(sg.StackgradError, match=r"w\.grad: f32\[1\] cannot take an array of float16"):
        kernel.grad({**given, "w.grad": np.zeros(1, np.float16)})


def test_forward_sums_stay_in_half_precision(arch: str) -> None:
    """A sum in the program's own text is what it says: each addition is rounded."""
    y = sg.field(sg.f16, ())

    @sg.kernel
    def total():
        for _ in range(1):
            for _ in range(COUNT):
                y[None] += sg.cast(0.015625, sg.f16)

    total()
    assert y[None] == 32.0
