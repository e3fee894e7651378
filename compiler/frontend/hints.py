"""This module lowers hints: functions that tell a compiler how to run a loop and that change no result.

Invariant: a hint changes no result. A promise about the range of a number is asserted in debug mode. A promise about a
loop, or a wish about caches, is ignored, because this compiler assumes nothing that it has not proved.
"""

from __future__ import annotations

import ast

from ..ir.nodes import Assert
from ..ir.statement import Value
from ..ir.types import promote
from .arguments import arguments, positional
from .calls import LOWERINGS
from .context import Tracer, require_value
from .diagnostics import syntax_problem, type_problem
from .operands import Operand, Static, describe
from .protocols import is_any_field
from .views import is_view


@LOWERINGS.row("loop_unique")
def _loop_unique(t: Tracer, node: ast.Call) -> Operand:
    """Return `val` of `loop_unique(val, covers)`, which the program claims to be different in every iteration."""
    val, _ = arguments(t, node, "loop_unique", "val", "covers=")
    t.type_of(val)
    return val


@LOWERINGS.row("assume_in_range")
def _assume_in_range(t: Tracer, node: ast.Call) -> Operand:
    """Lower `assume_in_range(val, base, low, high)` to the operand `val`; debug builds assert the range.

    In debug mode, `val` is asserted to be in base + low .. base + high.
    """
    val, base, low, high = arguments(t, node, "assume_in_range", "val", "base", "low", "high")
    if t.options.debug:
        _assert_range(t, t.value(val), t.value(base), t.value(low), t.value(high), ast.unparse(node))
    return val


def _assert_range(t: Tracer, val: Value, base: Value, low: Value, high: Value, text: str) -> None:
    dtype = promote(promote(val.type, base.type), promote(low.type, high.type))
    op = t.builder.op
    val, base, low, high = (t.value(x, dtype) for x in (val, base, low, high))
    above = op("cmp_ge", val, op("add", base, low))
    below = op("cmp_lt", val, op("add", base, high))
    message = f"`{text}` is not in its range: correct the range, or remove the promise"
    t.builder.emit(Assert(op("logical_and", above, below), message, loc=t.builder.loc))


def _of_arrays(name: str) -> None:
    """Register the lowering of a hint whose arguments are arrays, such as `block_local`; it emits no code."""

    def lower(t: Tracer, node: ast.Call) -> Operand:
        if node.keywords:
            raise syntax_problem(f"`{name}` takes arrays alone", f"write `sg.{name}(x, y)`", node.keywords[0].value)
        for operand in map(require_value, positional(t, node.args)):
            if not isinstance(operand, Static) or not (is_any_field(operand.value) or is_view(operand)):
                raise type_problem(f"`{name}` takes arrays, not {describe(operand)}", f"write `sg.{name}(x, y)`")
        return Static(None)

    LOWERINGS[name] = lower


for _name in ("block_local", "cache_read_only"):
    _of_arrays(_name)
