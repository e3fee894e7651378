"""This module translates size expressions without sums over ranges to one Python function, which is fast to run.

The function takes a fraction of a microsecond for each argument, extent or element that it reads.

    depth = n * max(0, m - 2)   →   def sizes(arrays, scalars): return [min(a0 * max(0, a1 - 2), LARGEST), ..]

A conditional expression of Python evaluates no more than the size expression does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ir.build import normal_constant
from ..ir.types import SCALARS
from .evaluate import InexactSizes
from .expressions import INT64, OVER, SizeExpr, walk
from .sizes import KernelSizes

Finder = Callable[[Mapping[str, np.ndarray], Mapping[str, "int | float | bool"]], list[int]]
"""A function (arrays, scalars) -> sizes."""
MOST = 3000
"""Largest number of nodes for which a function is written."""


def host_function(sized: KernelSizes) -> Finder | None:
    """Return a Python function that computes all sizes of a kernel, or None if a sum over a range must be evaluated.

    The function raises InexactSizes if the expressions are not valid for the arguments.
    """
    expressions = sized.expressions
    if any(e.kind in OVER for x in expressions for e in walk(x)) or sum(x.size for x in expressions) > MOST:
        return None
    found = [*sized.depths, *sized.totals, *sized.rows]
    lines = ["def sizes(arrays, scalars):"]
    for x, most in sized.limits:
        lines.append(f"    if {_text(x)} > {most}: raise Inexact")
    # Adstacks of one loop share their expressions, so each is evaluated once.
    names = {x: f"v{k}" for k, x in enumerate(dict.fromkeys(found))}
    lines += [f"    {name} = {_saturated(x)}" for x, name in names.items()]
    lines.append(f"    return [{', '.join(names[x] for x in found)}]")
    space: dict[str, Any] = {
        "Inexact": InexactSizes,
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
    """Return the extent of an array along `axis`. Raise InexactSizes if it exceeds `most`."""
    extent: int = array.shape[axis]
    if extent > most:
        raise InexactSizes
    return extent


def _element(array: np.ndarray, *indices: int) -> int | float | bool:
    """Return the element of an array at `indices`. Raise InexactSizes if an index is outside of the array."""
    for index, extent in zip(indices, array.shape):
        if not 0 <= index < extent:
            raise InexactSizes
    found: int | float | bool = array.item(indices)
    return found


def _floordiv(x: int, y: int) -> int:
    """Return the quotient, rounded down. Raise InexactSizes if the divisor is 0."""
    if y == 0:
        raise InexactSizes
    return x // y


def _mod(x: int, y: int) -> int:
    """Return the remainder. Raise InexactSizes if the divisor is 0."""
    if y == 0:
        raise InexactSizes
    return x % y


def _saturated(x: SizeExpr) -> str:
    """Return Python code that computes an expression, clamped to the largest 64-bit integer."""
    return _text(x) if x.high <= INT64[1] else f"min({_text(x)}, {INT64[1]})"


def _text(x: SizeExpr) -> str:
    """Return Python code that computes a size expression."""
    return WORDS[x.kind](x, [_text(arg) for arg in x.args])


def _real(value: object) -> str:
    """Return Python code for a constant; a real may be infinite or NaN."""
    return f"float('{value!r}')" if isinstance(value, float) else repr(value)


def _sum(x: SizeExpr, args: list[str]) -> str:
    """Return Python code for a sum, given the code of its arguments."""
    constant, *factors = x.data
    terms = [f"{arg}*{factor}" if factor != 1 else arg for arg, factor in zip(args, factors)]
    return f"({' + '.join([*terms, *([repr(constant)] if constant else [])])})"


_SIGNS = {"cmp_lt": "<", "cmp_le": "<=", "cmp_eq": "==", "cmp_ne": "!="}

WORDS: dict[str, Callable[[SizeExpr, list[str]], str]] = {
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
"""The Python text of each kind of expression except those over a range."""
