"""Every refusal of a gradient: a program that provokes it, what its message says, and the program that its cure makes.

A case is a generator: it yields what is refused, then runs what the cure says and asserts that this gradient is right.
The line that is meant carries the comment `# here`. A test reads the sources of reverse and forward mode and of tapes:
a refusal without a case here fails it.
"""
from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
import refusals_in_sources as sources
import stackgrad as sg

HERE = "test_refusals_of_gradients.py"
CASES = {}
SEEN: set[str] = set()


def case(kind, reason, *names, cure):
    """Register a program. reason: a regular expression; names: what the message must mention; cure: part of its cure."""

    def add(function):
        CASES[function.__name__] = (function, kind, reason, names, cure)
        return function

    return add


def field(shape, name, content=1.0, dtype=None):
    made = sg.field(dtype or sg.f64, shape, name=name, needs_grad=dtype is None)
    made.from_numpy(np.broadcast_to(np.array(content), made.shape).astype(made.dtype.dtype))
    return made


def by_hand(kernel, out, into):
    """The gradient of sum(out) by `into`, called by hand after a launch."""
    kernel()
    sg.ad.clear_all_gradients()
    out.grad.fill(1.0)
    kernel.grad()
    return into.grad.to_numpy()


def taped(out, into, *launches):
    with sg.ad.Tape(out, seed=np.ones(out.shape)):
        for launch in launches:
            launch()
    return into.grad.to_numpy()


def taped_sum(out, *launches):
    """The gradient of the sum of what the launches leave in `out` by what it held before."""
    loss = field((), "loss", 0.0)

    @sg.kernel
    def total():
        for i in out:
            loss[None] += out[i]

    return taped(loss, out, *launches, total)


V = np.array([0.5, 1.0, 2.0])


# ---- state that the kernel overwrites -----------------------------------------------------------------------------


@case(sg.NotDifferentiable, r"needs the value of 'x' read here.*overwrite later \(line \d+\)", "'x'", cure="sg.ad.Tape")
def value_overwritten():
    x = field(3, "x", V)

    @sg.kernel
    def run():
        for i in x:
            x[i] = sg.exp(x[i])  # here

    yield run.grad
    assert np.allclose(taped_sum(x, run), np.exp(V))
    x.from_numpy(V)
    y = field(3, "y")

    @sg.kernel
    def elsewhere():
        for i in x:
            y[i] = sg.exp(x[i])

    assert np.allclose(by_hand(elsewhere, y, x), np.exp(V))


@case(sg.NotDifferentiable, r"needs the value of 'n' read here.*overwrite later \(line \d+\)", "'n'", cure="sg.ad.Tape")
def bound_overwritten():
    x, y, n = field(3, "x", V), field(3, "y"), field(3, "n", [0, 1, 2], sg.i32)

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for _ in range(n[i]):  # here
                v = v * 3.0
            y[i] = v
            n[i] = 0

    yield run.grad
    assert taped(y, x, run).tolist() == [1.0, 3.0, 9.0]


# ---- iterations that depend on one another ------------------------------------------------------------------------


@case(sg.NotDifferentiable, r"iteration i.*'x'.*i \+ -1 .*\(line \d+\).*not independent", "'x'", cure="make the loop serial")
def chain():
    x = field(4, "x", 0.5)

    @sg.kernel
    def run():
        for i in range(3):
            x[i + 1] = sg.sin(x[i])  # here

    yield run.grad

    @sg.kernel
    def serial():
        for _ in range(1):
            for i in range(3):
                x[i + 1] = sg.sin(x[i])

    x.fill(0.5)
    v = [0.5, np.sin(0.5), np.sin(np.sin(0.5))]
    wanted = 1 + np.cos(v[0]) * (1 + np.cos(v[1]) * (1 + np.cos(v[2])))
    assert np.isclose(taped_sum(x, serial)[0], wanted)
    y = field(4, "y")

    @sg.kernel
    def elsewhere():
        for i in range(3):
            y[i + 1] = sg.sin(x[i])

    x.from_numpy(np.array([*V, 0.0]))
    assert np.allclose(by_hand(elsewhere, y, x), [*np.cos(V), 0.0])


# ---- atomics ------------------------------------------------------------------------------------------------------


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


@case(sg.NotDifferentiable, r"'top' is written again after this atomic max \(line \d+\)", "'top'", cure="a field of its own")
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


@case(sg.NotDifferentiable, r"'top' is read again after this atomic max \(line \d+\)", "'top'", cure="a later loop reads")
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


@case(sg.NotDifferentiable, "gradient of an atomic exchange needs the values it overwrote in 'top'", "'top'", cure="serial")
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


@case(sg.NotDifferentiable, "gradient of an atomic mul needs the values it overwrote in 'product'", "'product'",
      cure="that the loop neither reads")  # fmt: skip
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


# ---- adjoints and tangents used by the kernel itself --------------------------------------------------------------


@case(sg.NotDifferentiable, r"'x.grad' is used in a kernel that is differentiated with respect to 'x'", "'x.grad'",
      cure="a field without gradient")  # fmt: skip
def adjoint_in_the_kernel():
    x, y = field(3, "x", V), field(3, "y")

    @sg.kernel
    def run():
        for i in x:
            y[i] = x[i] * x.grad[i]  # here

    yield run.grad
    copy = field(3, "copy", [1, 2, 3], sg.i32)

    @sg.kernel
    def apart():
        for i in x:
            y[i] = x[i] * copy[i]

    assert by_hand(apart, y, x).tolist() == [1.0, 2.0, 3.0]


# ---- random numbers -----------------------------------------------------------------------------------------------


@case(sg.NotDifferentiable, r"an atomic mul on 'product' serially, where its random numbers", "'product'", cure="into a field")
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


# ---- arrays without gradient ------------------------------------------------------------------------------------------


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


@case(sg.NotDifferentiable, r"missing gradient: a of kernel square has none", "square", cure="give the array as 'a.grad'")
def array_without_its_adjoint():
    square, a, y = sg.kernel_from_text(TEXT), V.copy(), field(3, "y")
    yield lambda: square.grad(a=a, y=y)
    grad = np.zeros(3)
    y.grad.fill(1.0)
    square.grad({"a": a, "a.grad": grad, "y": y})
    assert grad.tolist() == (2 * V).tolist()


@case(sg.NotDifferentiable, r"no array of kernel 'flat' has a gradient", "flat", cure="needs_grad=True")
def text_without_gradients():
    from stackgrad.compiler.driver import prepare_reverse
    from stackgrad.compiler.ir.parser import parse_kernel as parse

    text = TEXT.replace(" grad", "").replace("square", "flat")
    yield lambda: prepare_reverse(parse(text))
    assert prepare_reverse(parse(TEXT)).kernel.name == "square.grad"


@case(sg.Unsupported, r"a launch on a stream is not differentiated", "qd_stream", cure="leave out `qd_stream`")
def launch_on_a_stream():
    x, y, stream = field(3, "x", V), field(3, "y"), sg.create_stream()

    @sg.kernel
    def run():
        for i in x:
            y[i] = x[i] * 2.0

    yield lambda: run.grad(qd_stream=stream)  # here
    assert by_hand(run, y, x).tolist() == [2.0, 2.0, 2.0]


# ---- tapes ----------------------------------------------------------------------------------------------------------------


def square_and_total():
    x, y, loss = field(3, "x", V), field(3, "y"), field((), "loss", 0.0)

    @sg.kernel
    def square():
        for i in x:
            y[i] = x[i] ** 2

    @sg.kernel
    def total():
        for i in y:
            loss[None] += y[i]

    @sg.kernel
    def shift():
        for i in x:
            x[i] = x[i] + 1.0

    return x, y, loss, square, total, shift


@case(sg.TapeError, r"over its budget: kernel shift .* overwrites what the gradient of kernel square .* reads; saving"
      r" field 'x' takes 24 bytes, 0 of 8", "'x'", "shift", cure="budget_bytes=")  # fmt: skip
def over_budget():
    x, _, loss, square, total, shift = square_and_total()

    def run(**options):
        x.from_numpy(V)
        with sg.ad.Tape(loss, **options):
            square()
            total()
            shift()  # here

    yield lambda: run(budget_bytes=8)
    run(budget_bytes=24)
    assert x.grad.to_numpy().tolist() == (2 * V).tolist()


@case(sg.TapeError, r"kernel half .* raised inside the tape", "half", cure="let the exception leave")
def a_launch_that_raised():
    sg.init(arch=sg.reference, default_fp=sg.f64, debug=True)
    x, y, loss, square, total, _ = square_and_total()

    @sg.kernel
    def half():
        for i in x:
            y[i + 1] = x[i]

    def run():
        with sg.ad.Tape(loss):  # here
            with pytest.raises(sg.OutOfBounds):
                half()
            total()

    yield run
    with pytest.raises(sg.OutOfBounds), sg.ad.Tape(loss):
        half()
    assert taped(loss, x, square, total).tolist() == (2 * V).tolist()


@case(sg.TapeError, "this tape was entered before", cure="make a new Tape")
def entered_twice():
    x, _, loss, square, total, _ = square_and_total()
    tape = sg.ad.Tape(loss)
    with tape:
        square()
        total()

    def run():
        with tape:  # here
            pass

    yield run
    tape.replay()
    assert x.grad.to_numpy().tolist() == (2 * V).tolist()


@case(sg.TapeError, "a tape cannot be entered while another one runs backward", cure="kernel.grad()")
def tape_inside_a_gradient_function():
    x, y, loss, square, total, _ = square_and_total()

    def whole():
        @sg.ad.grad_replaced
        def step():
            square()

        return step

    step = whole()

    @sg.ad.grad_for(step)
    def gradient():
        with sg.ad.Tape(y, seed=np.ones(3)):  # here
            square()

    yield lambda: taped(loss, x, step, total)
    step = whole()
    sg.ad.grad_for(step)(lambda: square.grad())
    assert taped(loss, x, step, total).tolist() == (2 * V).tolist()


@case(sg.TapeError, "a tape inside a tape with clear_gradients=False", cure="clear_gradients=True")
def tape_inside_one_that_accumulates():
    x, _, loss, square, total, _ = square_and_total()

    def run(clear):
        with sg.ad.Tape(loss, clear_gradients=clear):
            square()
            with sg.ad.Tape(field((), "inner")):  # here
                pass
            total()

    yield lambda: run(False)
    run(True)
    assert x.grad.to_numpy().tolist() == (2 * V).tolist()


@case(sg.TapeError, "the tape did not keep its state", cure="retain=True")
def again_without_state():
    x, _, loss, square, total, _ = square_and_total()

    def run(**options):
        with sg.ad.Tape(loss, **options) as tape:
            square()
            total()
        tape.grad()  # here

    yield run
    run(retain=True)
    assert x.grad.to_numpy().tolist() == (2 * V).tolist()


@case(sg.TapeError, "field 'x' was written since the tape's block ended", "'x'", cure="tape.replay()")
def again_after_a_write():
    x, _, loss, square, total, _ = square_and_total()
    with sg.ad.Tape(loss, retain=True) as tape:
        square()
        total()
    x.fill(3.0)
    yield tape.grad
    tape.replay()
    assert x.grad.to_numpy().tolist() == [6.0, 6.0, 6.0]


@case(sg.TapeError, r"tape.replay\(\) before the tape's block has ended", cure="after the `with` block")
def replayed_too_early():
    x, _, loss, square, total, _ = square_and_total()
    tape = sg.ad.Tape(loss)

    def run():
        with tape:
            square()
            total()
            tape.replay()  # here

    yield run
    assert taped(loss, x, square, total).tolist() == (2 * V).tolist()


@case(sg.TapeError, "a tape with another one inside cannot be replayed", cure="new tapes")
def replayed_with_another_inside():
    _, _, loss, square, total, _ = square_and_total()
    with sg.ad.Tape(loss) as tape:
        square()
        with sg.ad.Tape(field((), "inner")):
            pass
        total()
    yield tape.replay


@case(sg.TapeError, "the tape has several losses", cure="a tape with seeds for each")
def one_seed_for_several_losses():
    _, y, loss, square, total, _ = square_and_total()
    with sg.ad.Tape([loss, y], seed=[1.0, np.ones(3)], retain=True) as tape:
        square()
        total()
    yield lambda: tape.grad(seed=1.0)


@case(sg.TapeError, r"the tape is from before the last sg.init\(\) or sg.reset\(\)", cure="make a new one")
def replayed_after_init():
    _, _, loss, square, total, _ = square_and_total()
    with sg.ad.Tape(loss) as tape:
        square()
        total()
    sg.init(arch=sg.reference, default_fp=sg.f64)
    yield tape.replay


@case(sg.TapeError, r"sg.init\(\) or sg.reset\(\) was called inside the tape", cure="call it before")
def init_inside():
    loss = field((), "loss")

    def run():
        with sg.ad.Tape(loss):  # here
            sg.init(arch=sg.reference, default_fp=sg.f64)

    yield run


@case(sg.TapeError, "the host writes field 'y', which has a gradient, inside a tape with grad_check", "'y'",
      cure="before the tape")  # fmt: skip
def host_writes_while_checked():
    x, y, loss, square, total, _ = square_and_total()

    def run():
        with sg.ad.Tape(loss, grad_check=[x]):
            square()
            y[0] = 1.0  # here
            total()

    yield run
    with sg.ad.Tape(loss, grad_check=[x]):
        square()
        total()
    assert x.grad.to_numpy().tolist() == (2 * V).tolist()


@case(sg.ad.ValidationError, "field 'y' was written behind the tape's back: element \\[1\\]", "'y'", "square",
      cure="by a kernel")  # fmt: skip
def written_unseen():
    x, y, loss, square, total, _ = square_and_total()
    view = y.to_numpy(copy=False)

    def run(write):
        with sg.ad.Tape(loss, validation=True):
            square()
            write()
            total()  # here

    yield lambda: run(lambda: view.__setitem__(1, 9.0))
    run(lambda: y.__setitem__(1, 9.0))
    assert x.grad.to_numpy().tolist() == [1.0, 0.0, 4.0]


# ---- functions with a gradient of their own -------------------------------------------------------------------------------


def plain():
    """A function with no decorator."""


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


@case(sg.TapeError, "no_grad decorates Python functions, and square is a kernel", "square", cure="that calls square")
def decorated_kernel():
    x, _, loss, square, total, _ = square_and_total()
    yield lambda: sg.ad.no_grad(square)  # here

    @sg.ad.no_grad
    def calls():
        square()

    assert taped(loss, x, calls, total).tolist() == [0.0, 0.0, 0.0]


@case(sg.TapeError, "grad_replaced decorates functions, not int", cure="above a `def`")
def decorated_number():
    yield lambda: sg.ad.grad_replaced(3)  # here


# ---- losses, seeds and parameters -----------------------------------------------------------------------------------------


MISUSES = {
    "a tape needs a loss, and the list is empty": (lambda x, n: sg.ad.Tape([]), "needs_grad=True"),
    "a tape needs a loss, not None": (lambda x, n: sg.ad.Tape(None), "needs_grad=True"),
    "a loss is given twice": (lambda x, n: sg.ad.Tape([x, x]), "weights"),
    "weights does not fit 2 losses": (lambda x, n: sg.ad.Tape([x, n], weights=[1.0]), "one of weights"),
    r"the loss field 'x' has shape \(3,\), not one element": (lambda x, n: sg.ad.Tape(x), "seed="),
    "the weight 'heavy' of a loss is no number": (
        lambda x, n: sg.ad.Tape([x], weights=["heavy"], seed=[V]), "give a float"),
    "the seed of field 'x' is no array of numbers": (lambda x, n: sg.ad.Tape(x, seed="one"), "of shape (3,)"),
    r"the seed of field 'x' has shape \(2,\), not \(3,\)": (lambda x, n: sg.ad.Tape(x, seed=[1, 2]), "of shape (3,)"),
    "the loss field 'n' is of i32, which has no gradient": (lambda x, n: sg.ad.Tape(n), "sg.f64"),
    "the loss field 'flat' has no gradient": (lambda x, n: sg.ad.Tape(sg.field(sg.f64, (), name="flat")), "needs_grad"),
    "the loss is a NumPy array": (lambda x, n: sg.ad.Tape(np.ones(1)), "sg.ndarray"),
    "the loss is a field, not dict": (lambda x, n: sg.ad.Tape({}), "needs_grad=True"),
    "float cannot be checked": (lambda x, n: sg.ad.grad_check(x, 1.0, plain), "field"),
    "field 'n' has no gradient to check": (lambda x, n: sg.ad.grad_check(x, n, plain, seed=V), "needs_grad=True"),
    "forward mode needs a parameter, and the list is empty": (lambda x, n: sg.ad.FwdMode(x, []), "give a field"),
    "the parameter is a field, not float": (lambda x, n: sg.ad.FwdMode(x, 1.0), "give a field"),
    "the parameter field 'n' is of i32, which has no tangent": (lambda x, n: sg.ad.FwdMode(x, n), "sg.f64"),
    "a loss is given twice, in forward mode": (lambda x, n: sg.ad.FwdMode([x, x], x), "give each once"),
    "field 'x' has 3 elements, so the direction must be given": (lambda x, n: sg.ad.FwdMode(x, x), "give seed="),
    r"the seed of field 'x' has shape \(2,\)": (lambda x, n: sg.ad.FwdMode(x, x, seed=[1, 2]), "n directions"),
    "the seed of field 'x' is no array of numbers, in forward mode": (
        lambda x, n: sg.ad.FwdMode(x, x, seed="one"), "give an array"),
    "seed does not fit 2 parameters": (
        lambda x, n: sg.ad.FwdMode(x, [x, field(2, "y")], seed=[V]), "one seed for each"),
    "a seed is given for what is no parameter": (
        lambda x, n: sg.ad.FwdMode(x, [x, n], seed={field(1, "y"): [1.0]}), "the parameters alone"),
    "the seeds have 2 directions, one direction": (
        lambda x, n: sg.ad.FwdMode(x, [x, field(1, "y")], seed=[np.ones((2, 3)), [1.0]]), "the same number"),
    "n is no loss of this mode|field 'n' is no loss": (
        lambda x, n: sg.ad.FwdMode(x, x, seed=V).jacobian(n), "one of its losses"),
}  # fmt: skip
"""Reason, the call, and part of the cure."""


@pytest.mark.parametrize("reason", MISUSES)
def test_misuse(reason):
    sg.init(arch=sg.reference, default_fp=sg.f64)
    call, cure = MISUSES[reason]
    x, n = field(3, "x", V), field((), "n", 1, sg.i32)
    with pytest.raises(sg.TapeError, match=reason.removesuffix(", in forward mode")) as caught:
        call(x, n)
    text = str(caught.value)
    SEEN.add(text)
    first, second = text.splitlines()[0], text.splitlines()[1].strip()
    assert re.match(rf".*{HERE}:\d+:\d+: ", first) and "sg.ad." in second and "^" in text
    assert cure in text.split("cure:")[1]


@case(sg.TapeError, "forward mode is on already", cure="several parameters")
def forward_twice():
    x = field(3, "x", V)

    def run():
        with sg.ad.FwdMode(x, x, seed=V), sg.ad.FwdMode(x, x, seed=V):  # here
            pass

    yield run
    with sg.ad.FwdMode(x, x, seed=V):
        pass


@case(sg.TapeError, "this FwdMode was entered before", cure="a new one")
def forward_again():
    x = field(3, "x", V)
    mode = sg.ad.FwdMode(x, x, seed=V)

    def run():
        with mode:  # here
            pass

    run()
    yield run


@case(sg.TapeError, r"sg.init\(\) or sg.reset\(\) was called in forward mode", cure="call it before")
def init_in_forward_mode():
    x = field(3, "x", V)

    def run():
        with sg.ad.FwdMode(x, x, seed=V):  # here
            sg.init(arch=sg.reference, default_fp=sg.f64)

    yield run


# ---- all of them ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["reference", "cpu"])
@pytest.mark.parametrize("name", CASES)
def test_refusal(name, arch):
    function, kind, reason, names, cure = CASES[name]
    sg.init(arch=getattr(sg, arch), default_fp=sg.f64)
    program = function()
    refused = next(program)
    with pytest.raises(kind, match=f"(?s){reason}") as caught:
        refused()
    text = str(caught.value)
    SEEN.add(text)
    assert "cure:" in text and cure in text.split("cure:")[1], text
    assert all(one in text for one in names), text
    check_place(function, text)
    assert next(program, None) is None, "what the cure says is run to its end"


def check_place(function, text):
    """File, line and caret of the line that is meant."""
    lines, first = inspect.getsourcelines(function)
    meant = [first + k for k, line in enumerate(lines) if line.rstrip().endswith("# here")]
    assert len(meant) <= 1
    if meant:
        assert f"{HERE}:{meant[0]}:" in text, text
        assert "# here" in text and "^" in text, text


def test_each_refusal_has_a_case():
    """What the sources can say was said. Runs after the tests above, on their own worker's share of cases too."""
    for name, (function, *_) in CASES.items():
        sg.init(arch=sg.reference, default_fp=sg.f64)
        program = function()
        with pytest.raises(sg.StackgradError) as caught:
            next(program)()
        SEEN.add(str(caught.value))
        program.close()
        assert name
    for call, _ in MISUSES.values():
        sg.init(arch=sg.reference, default_fp=sg.f64)
        with pytest.raises(sg.TapeError) as caught:
            call(field(3, "x", V), field((), "n", 1, sg.i32))
        SEEN.add(str(caught.value))
    found = sources.refusals()
    assert len(found) > 40
    left = [r for r in found if r.text not in sources.ELSEWHERE and not any(r.is_in(text) for text in SEEN)]
    assert not left, "\n".join(map(str, left))
    gone = set(sources.ELSEWHERE) - {r.text for r in found}
    assert not gone, f"said to be tested elsewhere, but no longer there: {gone}"
