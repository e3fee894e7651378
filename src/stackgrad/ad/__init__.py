"""This package takes derivatives of whole programs by reverse mode (`Tape`), forward mode (`FwdMode`), or both.

    with sg.ad.Tape(loss): ...                    x.grad of every field
    with sg.ad.FwdMode(loss, x, seed=v): ...      loss.dual = J v
    sg.ad.hvp(loss, x, run, v)                    H v, forward over reverse; also jvp, vjp, jacobian, hessian
    sg.ad.grad_check(loss, [x], run)              the gradient against finite differences

Launches of a function decorated with `no_grad` take no part in gradients; a function decorated with `grad_replaced` has
a gradient of its own.
"""

from __future__ import annotations

from ..autodiff.check import grad_check
from ..autodiff.custom import grad_for, grad_replaced, no_grad
from ..autodiff.forward import FwdMode
from ..autodiff.functional import hessian, hvp, jacobian, jvp, vjp
from ..autodiff.gradients import SNodeGradType, clear_all_gradients
from ..autodiff.host_reads import LostGradientWarning
from ..autodiff.numeric import GradCheckError, GradReport, Mismatch
from ..autodiff.tape import DEFAULT_BUDGET, Tape
from ..autodiff.validation import ValidationError, ValidationWarning

__all__ = [
    "DEFAULT_BUDGET",
    "FwdMode",
    "GradCheckError",
    "GradReport",
    "LostGradientWarning",
    "Mismatch",
    "SNodeGradType",
    "Tape",
    "ValidationError",
    "ValidationWarning",
    "clear_all_gradients",
    "grad_check",
    "grad_for",
    "grad_replaced",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "no_grad",
    "vjp",
]
