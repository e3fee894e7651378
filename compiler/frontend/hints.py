"""Hints: functions by which a program tells a compiler of the dialect how to run a loop.

Invariant: a hint changes no result. What it promises of a number is asserted in debug mode; what it promises of the
loop, or asks of caches, is not needed here, as nothing is assumed that was not proved.
"""

from __future__ import annotations

import ast

from ..ir.nodes import Assert, Value
from ..ir.types import promote
from .arguments import arguments, positional
from .calls import LOWERINGS
from .context import Tracer, unpoisoned
from .diagnostics import mistyped, syntax
from .operands import Operand, Static, describe
from .protocols import is_any_field
from .views import is_view


@LOWERINGS.row("loop_unique")
def _loop_unique(t: Tracer, node: ast.Call) -> Operand:
    """`loop_unique(val, covers)`: val, of which the program says that no two iterations have the same."""
    val, _ = arguments(t, node, "loop_unique", "val", "covers=")
    t.type_of(val)
    return val


@LOWERINGS.row("assume_in_range")
def _assume_in_range(t: Tracer, node: ast.Call) -> Operand:
    """`assume_in_range(val, base, low, high)`: val, asserted to be in base + low .. base + high in debug mode."""
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
    def lower(t: Tracer, node: ast.Call) -> Operand:
        if node.keywords:
            raise syntax(f"`{name}` takes arrays alone", f"write `sg.{name}(x, y)`", node.keywords[0].value)
        for operand in map(unpoisoned, positional(t, node.args)):
            if not isinstance(operand, Static) or not (is_any_field(operand.value) or is_view(operand)):
                raise mistyped(f"`{name}` takes arrays, not {describe(operand)}", f"write `sg.{name}(x, y)`")
        return Static(None)

    LOWERINGS[name] = lower


for _name in ("block_local", "cache_read_only"):
    _of_arrays(_name)
