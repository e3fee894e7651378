"""Define functions whose custom gradient is missing or set twice."""

from __future__ import annotations

import stackgrad as sg
from refusal_support import case, plain, square_and_total, taped


@case(sg.TapeError, "plain is not decorated with sg.ad.grad_replaced", "plain", cure="decorate it")
def gradient_of_an_undecorated_function():
    yield lambda: sg.ad.grad_for(plain)  # here
    assert sg.ad.grad_for(sg.ad.grad_replaced(plain))(plain) is plain


@case(sg.TapeError, "plain has a gradient already", "plain", cure="keep one of")
def second_gradient():
    replaced = sg.ad.grad_replaced(plain)
    sg.ad.grad_for(replaced)(plain)
    yield lambda: sg.ad.grad_for(replaced)  # here


@case(sg.TapeError, "plain is grad_replaced, but has no gradient", "plain", cure="@sg.ad.grad_for(plain)")
def replaced_by_nothing():
    yield sg.ad.grad_replaced(plain).grad


@case(
    sg.TapeError, "grad_replaced decorates Python functions, and square is a kernel", "square", cure="that calls square"
)
def decorated_kernel():
    x, _, loss, square, total, _ = square_and_total()
    yield lambda: sg.ad.grad_replaced(square)  # here

    @sg.ad.grad_replaced
    def calls():
        square()

    @sg.ad.grad_for(calls)
    def gradient():
        square.grad()

    assert taped(loss, x, calls, total).tolist() == [1.0, 2.0, 4.0]


@case(
    sg.NotDifferentiable,
    "kernel square is decorated with no_grad, so its gradient is empty",
    "square",
    cure="without the decorator",
)
def gradient_of_a_constant_kernel():
    x, _, loss, square, total, _ = square_and_total()
    constant = sg.ad.no_grad(square)
    yield constant.lowered_grad

    constant.grad()
    assert square.lowered_grad() and taped(loss, x, square, constant, total).tolist() == [0.0, 0.0, 0.0]


@case(sg.TapeError, "grad_replaced decorates functions, not int", cure="above a `def`")
def decorated_number():
    yield lambda: sg.ad.grad_replaced(3)  # here
