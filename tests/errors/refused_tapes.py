"""Define errors of tapes: contents beyond the memory budget, launches that raised, and wrong uses."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from refusal_support import V, case, field, square_and_total, taped


@case(
    sg.TapeError,
    r"over its budget: kernel shift .* overwrites what the gradient of kernel square .* reads; saving"
    r" field 'x' takes 24 bytes, 0 of 8",
    "'x'",
    "shift",
    cure="budget_bytes=",
)
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


@case(
    sg.TapeError,
    "the host writes field 'y', which has a gradient, inside a tape with grad_check",
    "'y'",
    cure="before the tape",
)
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


@case(
    sg.ad.ValidationError,
    "field 'y' was written behind the tape's back: element \\[1\\]",
    "'y'",
    "square",
    cure="by a kernel",
)
def written_unseen():
    x, y, loss, square, total, _ = square_and_total()
    memory = y.memory  # as foreign code may know it by its address: no view that y gave

    def run(write):
        with sg.ad.Tape(loss, validation=True):
            square()
            write()
            total()  # here

    yield lambda: run(lambda: memory.__setitem__(1, 9.0))
    run(lambda: y.__setitem__(1, 9.0))
    assert x.grad.to_numpy().tolist() == [1.0, 0.0, 4.0]


@case(sg.TapeError, "a tape with grad_check cannot be entered in forward mode", cure="check before")
def checked_in_forward_mode():
    x, _, loss, square, total, _ = square_and_total()

    def run(checked):
        with sg.ad.FwdMode(loss, x, seed=V), sg.ad.Tape(loss, grad_check=checked):  # here
            square()
            total()

    yield lambda: run([x])
    run(None)
    assert x.grad.to_numpy().tolist() == (2 * V).tolist()


@case(
    sg.TapeError, "recorded its launches outside of this forward mode, without tangents", cure="enter the tape inside"
)
def gradient_of_a_tape_in_another_mode():
    x, _, loss, square, total, _ = square_and_total()

    def record():
        with sg.ad.Tape(loss, retain=True) as tape:
            square()
            total()
        return tape

    def run(tape):
        with sg.ad.FwdMode(x.grad, x, seed=[1.0, 0.0, 0.0]):
            (tape or record()).grad()  # here

    tape = record()
    yield lambda: run(tape)
    run(None)
    assert x.grad.dual.to_numpy().tolist() == [2.0, 0.0, 0.0]


@case(sg.TapeError, "sg.ad.hvp inside a tape: it makes a mode of its own", cure="call it outside")
def second_derivatives_inside():
    x, _, loss, square, total, _ = square_and_total()

    def program():
        square()
        total()

    def run():
        with sg.ad.Tape(loss):
            sg.ad.hvp(loss, x, program, V)  # here

    yield run
    assert sg.ad.hvp(loss, x, program, V).tolist() == (2 * V).tolist()
