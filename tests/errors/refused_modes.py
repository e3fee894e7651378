"""Define errors for losses, seeds and parameters that do not fit, and for wrong uses of forward mode."""

from __future__ import annotations

import numpy as np
import stackgrad as sg
from refusal_support import V, case, field, plain

MISUSES = {
    "a tape needs a loss, and the list is empty": (lambda x, n: sg.ad.Tape([]), "needs_grad=True"),
    "a tape needs a loss, not None": (lambda x, n: sg.ad.Tape(None), "needs_grad=True"),
    "a loss is given twice": (lambda x, n: sg.ad.Tape([x, x]), "weights"),
    "weights does not fit 2 losses": (lambda x, n: sg.ad.Tape([x, n], weights=[1.0]), "one of weights"),
    r"the loss field 'x' has shape \(3,\), not one element": (lambda x, n: sg.ad.Tape(x), "seed="),
    "the weight 'heavy' of a loss is no number": (
        lambda x, n: sg.ad.Tape([x], weights=["heavy"], seed=[V]),
        "give a float",
    ),
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
        lambda x, n: sg.ad.FwdMode(x, x, seed="one"),
        "give an array",
    ),
    "seed does not fit 2 parameters": (
        lambda x, n: sg.ad.FwdMode(x, [x, field(2, "y")], seed=[V]),
        "one seed for each",
    ),
    "a seed is given for what is no parameter": (
        lambda x, n: sg.ad.FwdMode(x, [x, field(2, "y")], seed={field(1, "z"): [1.0]}),
        "the parameters alone",
    ),
    "the seeds have 2 directions, one direction": (
        lambda x, n: sg.ad.FwdMode(x, [x, field(1, "y")], seed=[np.ones((2, 3)), [1.0]]),
        "the same number",
    ),
    "the parameter field 'n' has no gradient": (lambda x, n: sg.ad.hvp(x, n, plain, V, seed=V), "needs_grad=True"),
    "n is no loss of this mode|field 'n' is no loss": (
        lambda x, n: sg.ad.FwdMode(x, x, seed=V).jacobian(n),
        "one of its losses",
    ),
}
"""Reason, the call, and part of the cure."""


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
