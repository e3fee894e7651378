"""Define refused gradients of arrays without an adjoint, and of launches on streams."""

from __future__ import annotations

import numpy as np
import stackgrad as sg
from refusal_support import V, by_hand, case, field, taped_sum
from stackgrad.compiler.driver import prepare_reverse, prepare_tangent
from stackgrad.compiler.ir.parser import parse_kernel


@case(sg.NotDifferentiable, r"missing gradient: no array that kernel run uses has one", "run", cure="needs_grad=True")
def no_gradient_at_all():
    x, y = sg.field(sg.f64, 3), sg.field(sg.f64, 3)

    @sg.kernel
    def run():  # here
        for i in x:
            y[i] = x[i] * 2.0

    yield run.grad
    x, y = field(3, "x", V), field(3, "y")

    @sg.kernel
    def again():
        for i in x:
            y[i] = x[i] * 2.0

    assert by_hand(again, y, x).tolist() == [2.0, 2.0, 2.0]


TEXT = """kernel square(a: f64[1] grad, y: f64[1] grad) {
  bounds { %0: i32 = const 0  %1: i32 = shape a, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load a[%2]
    %4: f64 = mul %3, %3
    store y[%2], %4
  }
}"""


@case(
    sg.NotDifferentiable, r"missing gradient: a of kernel square has none", "square", cure="give the array as 'a.grad'"
)
def array_without_its_adjoint():
    square, a, y = sg.kernel_from_text(TEXT), V.copy(), field(3, "y")
    yield lambda: square.grad(a=a, y=y)
    grad = np.zeros(3)
    y.grad.fill(1.0)
    square.grad({"a": a, "a.grad": grad, "y": y})
    assert grad.tolist() == (2 * V).tolist()


@case(sg.NotDifferentiable, r"no array of kernel 'flat' has a gradient", "flat", cure="needs_grad=True")
def text_without_gradients():
    text = TEXT.replace(" grad", "").replace("square", "flat")
    yield lambda: prepare_reverse(parse_kernel(text))
    assert prepare_reverse(parse_kernel(TEXT)).kernel.name == "square.grad"


@case(sg.Unsupported, r"a launch on a stream is not differentiated", "qd_stream", cure="leave out `qd_stream`")
def launch_on_a_stream():
    x, y, stream = field(3, "x", V), field(3, "y"), sg.create_stream()

    @sg.kernel
    def run():
        for i in x:
            y[i] = x[i] * 2.0

    yield lambda: run.grad(qd_stream=stream)  # here
    assert by_hand(run, y, x).tolist() == [2.0, 2.0, 2.0]


@case(
    sg.ArgumentError,
    r"kernel run \(.*refused_arrays.py:\d+\): [ab] and [ab] are the same memory",
    "run",
    cure="an array of its own",
)
def two_names_of_one_buffer():
    x, a = field(3, "x", V), np.ones(3)

    @sg.kernel
    def run(a: sg.types.ndarray(), b: sg.types.ndarray()):
        for i in x:
            a[i] = 2.0
            x[i] = x[i] * b[i]

    yield lambda: run(a, a[:])
    assert taped_sum(x, lambda: run(a.copy(), a)).tolist() == [1.0, 1.0, 1.0]


TANGENT = """kernel twice(x: f64[1] grad, y: f64[1]) {
  bounds { %0: i32 = const 0  %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load NAME[%2]
    store y[%2], %3
  }
}"""


def tangent_of(text, **carriers):
    return prepare_tangent(parse_kernel(text), carriers).kernel


@case(
    sg.NotDifferentiable,
    "'x.dual' is used in a kernel that runs in forward mode, which computes it",
    "'x.dual'",
    cure="copy it to a field",
)
def tangent_in_the_kernel():
    text = TANGENT.replace("y: f64[1]", "y: f64[1], x.dual: f64[1]")
    yield lambda: tangent_of(text.replace("NAME", "x.dual"), x=True, y=True)
    copied = TANGENT.replace("y: f64[1]", "y: f64[1], copy: f64[1]").replace("NAME", "copy")
    assert {"x.dual", "y.dual"} <= set(tangent_of(copied, x=True, y=True).array_types())


@case(
    sg.NotDifferentiable,
    "'x.grad' is used in a kernel that runs in forward mode, and is none of its parameters",
    "'x.grad'",
    cure="make 'x.grad' a parameter",
)
def adjoint_that_is_no_parameter():
    text = TANGENT.replace("NAME", "x.grad")
    yield lambda: tangent_of(text, x=True, y=True)
    own = text.replace("y: f64[1]", "y: f64[1], x.grad: f64[1]")
    assert "y.dual" in tangent_of(own, y=True, **{"x.grad": True}).array_types()
