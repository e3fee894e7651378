"""This package emits mathematical functions of f32 and f64 as inlined code, for any number of lanes.

INLINED maps an operation's name to a function that writes its code: free of branches except for arguments far outside
the range that the code is made for, which libm computes lane by lane (guard.py). No lane's result depends on another
lane, and the code for one lane gives the same bits as the code for many. Arithmetic inside carries no fast-math flags.
docs/decisions/0004-inlined-functions.md states errors and times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .. import ir
from ..emit import ArithEmitter
from ..types import I1, const, like, suffix
from . import remainder, trigonometric
from .arcsine import acos, asin
from .arctangent import atan2
from .exponential import exp, tanh
from .guard import Inside, guard_range
from .logarithm import log
from .power import power


@dataclass(frozen=True)
class InlinedFunction:
    """Represent a math function that is emitted inline: its code, and the range of arguments that the code covers.

    The math library computes the function for arguments outside of this range.

    Attributes:
        write: write(e, *args) emits the code and returns the result.
        inside: Gives the condition that the code covers the arguments; None if it covers all arguments.
    """

    write: Callable[..., ir.LLVMValue]
    inside: Inside | None = None


INLINED: dict[str, InlinedFunction] = {
    "exp": InlinedFunction(exp),
    "log": InlinedFunction(log),
    "sin": InlinedFunction(trigonometric.sin, trigonometric.inside),
    "cos": InlinedFunction(trigonometric.cos, trigonometric.inside),
    "tan": InlinedFunction(trigonometric.tan, trigonometric.inside),
    "asin": InlinedFunction(asin),
    "acos": InlinedFunction(acos),
    "tanh": InlinedFunction(tanh),
    "atan2": InlinedFunction(atan2),
    "pow": InlinedFunction(power),
    "fmod": InlinedFunction(remainder.fmod, remainder.inside),
}


def emit_inlined(e: ArithEmitter, name: str, scalar: ir.LLVMFunction, args: Sequence[ir.LLVMValue]) -> ir.LLVMValue:
    """Emit the inlined code of a math function for scalar or vector operands and return the result.

    Args:
        e: Arithmetic to emit into.
        name: Name of the operation.
        scalar: The library's function of one scalar.
        args: Operands. Lanes that are not active get an arbitrary number.
    """
    row, t = INLINED[name], args[0].type
    lanes = e.active if isinstance(t, ir.VectorType) else None
    mask = [lanes or const(like(t, I1), True)] if row.inside else []

    def body(e: ArithEmitter, function: ir.LLVMFunction) -> None:
        operands = function.args[: len(args)]
        fast = row.write(e, *operands)
        if row.inside:
            fast = guard_range(e, name, scalar, row.inside, fast, operands, function.args[-1])
        e.b.ret(fast)

    params = [v.type for v in (*args, *mask)]
    function = e.m.helper(f"sg.{name}.{suffix(t)}", t, params, body, ("nounwind", "alwaysinline"))
    return e.b.call(function, [*args, *mask])
