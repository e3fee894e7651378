"""Sizes that need no range, as one Python function: a fraction of a microsecond for a number, a shape, an element.

    depth = n * max(0, m - 2)   →   def sizes(arrays, scalars): return [min(a0 * max(0, a1 - 2), LARGEST), ..]

Python's conditional expressions look at no more than the size expression does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ir.build import normal_constant
from ..ir.types import SCALARS
from .evaluate import Inexact
from .expressions import INT64, OVER, Expr, walk
from .sizes import Sized

Finder = Callable[[Mapping[str, np.ndarray], Mapping[str, "int | float | bool"]], list[int]]
MOST = 3000
"""Nodes after which text is no longer the way to say it."""


def host_function(sized: Sized) -> Finder | None:
    """The function that gives depths, totals and rows, or raises Inexact; None if a range must be looked at."""
    expressions = sized.expressions
    if any(e.kind in OVER for x in expressions for e in walk(x)) or sum(x.size for x in expressions) > MOST:
        return None
    found = [*sized.depths, *sized.totals, *sized.rows]
    lines = ["def sizes(arrays, scalars):"]
    for x, most in sized.limits:
        lines.append(f"    if {_text(x)} > {most}: raise Inexact")
    names = {x: f"v{k}" for k, x in enumerate(dict.fromkeys(found))}  # stacks of one loop share theirs
    lines += [f"    {name} = {_saturated(x)}" for x, name in names.items()]
    lines.append(f"    return [{', '.join(names[x] for x in found)}]")
    space: dict[str, Any] = {
        "Inexact": Inexact,
        "shape": _shape,
        "element": _element,
        "floordiv": _floordiv,
        "mod": _mod,
        "normal": normal_constant,
        "types": SCALARS,
    }
    exec("\n".join(lines), space)
    made: Finder = space["sizes"]
    return made


def _shape(array: np.ndarray, axis: int, most: int) -> int:
    extent: int = array.shape[axis]
    if extent > most:
        raise Inexact
    return extent


def _element(array: np.ndarray, *indices: int) -> int | float | bool:
    for index, extent in zip(indices, array.shape):
        if not 0 <= index < extent:
            raise Inexact
    found: int | float | bool = array.item(indices)
    return found


def _floordiv(x: int, y: int) -> int:
    if y == 0:
        raise Inexact
    return x // y


def _mod(x: int, y: int) -> int:
    if y == 0:
        raise Inexact
    return x % y


def _saturated(x: Expr) -> str:
    return _text(x) if x.high <= INT64[1] else f"min({_text(x)}, {INT64[1]})"


def _text(x: Expr) -> str:
    return WORDS[x.kind](x, [_text(arg) for arg in x.args])


def _real(value: object) -> str:
    return f"float('{value!r}')" if isinstance(value, float) else repr(value)


def _sum(x: Expr, args: list[str]) -> str:
    constant, *factors = x.data
    terms = [f"{arg}*{factor}" if factor != 1 else arg for arg, factor in zip(args, factors)]
    return f"({' + '.join([*terms, *([repr(constant)] if constant else [])])})"


_SIGNS = {"cmp_lt": "<", "cmp_le": "<=", "cmp_eq": "==", "cmp_ne": "!="}

WORDS: dict[str, Callable[[Expr, list[str]], str]] = {
    "const": lambda x, _: _real(x.data[0]),
    "arg": lambda x, _: f"normal(scalars[{x.data[0]!r}], types[{str(x.data[1])!r}])",
    "shape": lambda x, _: f"shape(arrays[{x.data[0]!r}], {x.data[1]}, {x.high})",
    "read": lambda x, args: f"element(arrays[{x.data[0]!r}]{''.join(', ' + arg for arg in args)})",
    "sum": _sum,
    "product": lambda x, args: f"({' * '.join(args)})",
    "floordiv": lambda x, args: f"floordiv({args[0]}, {args[1]})",
    "mod": lambda x, args: f"mod({args[0]}, {args[1]})",
    "max": lambda x, args: f"max({', '.join(args)})",
    "min": lambda x, args: f"min({', '.join(args)})",
    "when": lambda x, args: f"({args[1]} if {args[0]} else {args[2]})",
    "positive": lambda x, args: f"({args[0]} > 0)",
    "zero": lambda x, args: f"({args[0]} == 0)",
    "compare": lambda x, args: f"({args[0]} {_SIGNS[str(x.data[0])]} {args[1]})",
    "not": lambda x, args: f"(not {args[0]})",
    "and": lambda x, args: f"({' and '.join(args)})",
    "or": lambda x, args: f"({' or '.join(args)})",
}
"""How each kind reads in Python; there are no ranges."""
