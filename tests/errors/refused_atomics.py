"""Define kernels with atomics and random numbers whose gradients are refused."""

from __future__ import annotations

import numpy as np
import stackgrad as sg
from refusal_support import V, by_hand, case, field, taped

# ---- atomics -------------------------------------------------------------------------------------------------------


@case(sg.NotDifferentiable, r"what this atomic on 'count' returned, which is not kept", "'count'", cure="to a field")
def atomic_returns_a_place():
    x, y, count = field(3, "x", V), field(3, "y"), field((), "count", 0, sg.i32)

    @sg.kernel
    def run():
        for i in x:
            at = sg.atomic_add(count[None], 1)  # here
            y[at] = x[i] ** 2

    yield run.grad
    place = field(3, "place", 0, sg.i32)

    @sg.kernel
    def take_places():
        for i in x:
            place[i] = sg.atomic_add(count[None], 1)

    @sg.kernel
    def use_them():
        for i in x:
            y[place[i]] = x[i] ** 2

    count[None] = 0
    take_places()
    assert np.allclose(by_hand(use_them, y, x), 2 * V)


@case(sg.NotDifferentiable, r"the old value that this atomic on 'total' returns depends", "'total'", cure="loop serial")
def atomic_returns_a_sum():
    x, y, total = field(3, "x", V), field(3, "y"), field((), "total", 0.0)

    @sg.kernel
    def run():
        for i in x:
            y[i] = sg.atomic_add(total[None], x[i])  # here

    yield run.grad

    @sg.kernel
    def serial():
        for _ in range(1):
            for i in range(3):
                y[i] = total[None]
                total[None] = total[None] + x[i]

    assert by_hand(serial, y, x).tolist() == [2.0, 1.0, 0.0]


@case(
    sg.NotDifferentiable,
    r"'top' is written again after this atomic max \(line \d+\)",
    "'top'",
    cure="a field of its own",
)
def maximum_written_again():
    x, top = field(3, "x", V), field((), "top", 0.0)

    @sg.kernel
    def run():
        for i in x:
            sg.atomic_max(top[None], x[i])  # here
        for _ in range(1):
            top[None] = top[None] * 3.0

    yield run.grad
    own = field((), "own", 0.0)

    @sg.kernel
    def apart():
        for i in x:
            sg.atomic_max(own[None], x[i])
        for _ in range(1):
            top[None] = own[None] * 3.0

    assert by_hand(apart, top, x).tolist() == [0.0, 0.0, 3.0]


@case(
    sg.NotDifferentiable, r"'top' is read again after this atomic max \(line \d+\)", "'top'", cure="a later loop reads"
)
def maximum_read_again():
    x, y, top = field(3, "x", V), field(3, "y"), field((), "top", 0.0)

    @sg.kernel
    def run():
        for i in x:
            sg.atomic_max(top[None], x[i])  # here
            y[i] = top[None]

    yield run.grad

    @sg.kernel
    def apart():
        for i in x:
            sg.atomic_max(top[None], x[i])
        for i in x:
            y[i] = top[None]

    assert by_hand(apart, y, x).tolist() == [0.0, 0.0, 3.0]


@case(
    sg.NotDifferentiable,
    "gradient of an atomic exchange needs the values it overwrote in 'top'",
    "'top'",
    cure="serial",
)
def exchange():
    x, top = field(3, "x", V), field((), "top", 0.0)

    @sg.kernel
    def run():
        for i in x:
            sg.atomic_exchange(top[None], x[i])  # here

    yield run.grad

    @sg.kernel
    def serial():
        for _ in range(1):
            for i in range(3):
                top[None] = x[i]

    assert by_hand(serial, top, x).tolist() == [0.0, 0.0, 1.0]


@case(
    sg.NotDifferentiable,
    "gradient of an atomic mul needs the values it overwrote in 'product'",
    "'product'",
    cure="that the loop neither reads",
)
def product_of_what_is_read():
    x, y, product = field(3, "x", V), field(3, "y"), field((), "product", 1.0)

    @sg.kernel
    def run():
        for i in x:
            sg.atomic_mul(product[None], x[i])  # here
            y[i] = product[None]

    yield run.grad

    @sg.kernel
    def multiply():
        for i in x:
            sg.atomic_mul(product[None], x[i])

    @sg.kernel
    def use():
        for i in x:
            y[i] = product[None]

    product[None] = 1.0
    assert np.allclose(taped(y, x, multiply, use), 3.0 / V)


# ---- random numbers ------------------------------------------------------------------------------------------------


@case(
    sg.NotDifferentiable,
    r"an atomic mul on 'product' serially, where its random numbers",
    "'product'",
    cure="into a field",
)
def random_product():
    x, product, draws = field(3, "x", V), field((), "product", 1.0), sg.field(sg.f64, 3)

    @sg.kernel
    def run():
        for i in x:
            sg.atomic_mul(product[None], x[i] + sg.random())  # here

    yield lambda: taped(product, x, run)

    @sg.kernel
    def draw():
        for i in x:
            draws[i] = sg.random()

    @sg.kernel
    def multiply():
        for i in x:
            sg.atomic_mul(product[None], x[i] + draws[i])

    @sg.kernel
    def one():
        product[None] = 1.0

    found = taped(product, x, one, draw, multiply)
    factors = V + draws.to_numpy()
    assert np.allclose(found, np.prod(factors) / factors)


@case(sg.NotDifferentiable, r"forward mode runs .* atomic max on 'top' serially", "'top'", cure="into a field")
def random_maximum_in_forward_mode():
    x, top, draws = field(3, "x", V), field((), "top", 0.0), sg.field(sg.f64, 3)

    @sg.kernel
    def run():
        for i in x:
            sg.atomic_max(top[None], x[i] * (5.0 + sg.random()))  # here

    def forward(*kernels):
        with sg.ad.FwdMode(top, x, seed=[0.0, 0.0, 1.0]):
            for kernel in kernels:
                kernel()
        return top.dual[None]

    yield lambda: forward(run)

    @sg.kernel
    def draw():
        for i in x:
            draws[i] = sg.random()

    @sg.kernel
    def largest():
        for i in x:
            sg.atomic_max(top[None], x[i] * (5.0 + draws[i]))

    assert np.isclose(forward(draw, largest), 5.0 + draws[2])


@case(sg.NotDifferentiable, r"kernel run draws random numbers, and was not launched", "run", cure="launch the kernel")
def draws_of_no_launch():
    x, y = field(3, "x", V), field(3, "y")

    @sg.kernel
    def run():  # here
        for i in x:
            y[i] = x[i] * (1.0 + sg.random())

    yield run.grad
    found = by_hand(run, y, x)
    assert np.allclose(found, y.to_numpy() / V)
