"""Derivatives of whole programs: reverse mode (`Tape`), forward mode (`FwdMode`), both together, and functions
that step aside.

    with sg.ad.Tape(loss): ...                    x.grad of every field
    with sg.ad.FwdMode(loss, x, seed=v): ...      loss.dual = J v
    sg.ad.hvp(loss, x, run, v)                    H v, forward over reverse; also jvp, vjp, jacobian, hessian
    sg.ad.grad_check(loss, [x], run)              the gradient against finite differences
"""

from __future__ import annotations

from .check import grad_check
from .custom import grad_for, grad_replaced, no_grad
from .forward import FwdMode
from .gradients import SNodeGradType, clear_all_gradients
from .numeric import GradCheckError, GradReport, Mismatch
from .reads import LostGradientWarning
from .second import hessian, hvp, jacobian, jvp, vjp
from .tape import DEFAULT_BUDGET, Tape
from .validation import ValidationError, ValidationWarning

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
