"""Replace several arrays of a drawn program by views of one larger array."""

from __future__ import annotations

import math
from dataclasses import replace

from ..model import nodes as m
from ..model.walk import fields_used
from .draw import Chooser
from .values_of import indexed_fields

BASE = "B0"
FILLERS = (0.5, 0.75, -0.25, 1.0)
"""Contents of the elements between the views."""

GAPS = (0, 1, 2, 3)
"""Numbers of elements that may lie between views.

An index behind the end of a view is an error, although its array mostly has an element there.
"""


def with_views(draw: Chooser, program: m.Program) -> m.Program:
    """Return the program with up to three of its arrays of one type replaced by views of one array.

    The views have any order, with gaps between them.
    """
    # Functions read arrays by name, so their arrays cannot become arguments of the kernel.
    fixed = {name for f in program.kernel.functions for name in fields_used(f.body)}
    able = [f for f in program.fields if len(f.shape) == 1 and f.name in indexed_fields(program) - fixed]
    if not able:
        return program
    first = draw.choice(able)
    alike = [f for f in able if (f.dtype, f.element, f.grad) == (first.dtype, first.element, first.grad)]
    chosen = [first, *(f for f in alike if f is not first and draw.boolean(0.8))][:3]
    if draw.boolean():
        chosen.reverse()
    return _joined(draw, program, chosen)


def _joined(draw: Chooser, program: m.Program, chosen: list[m.Field]) -> m.Program:
    """Return the program with the chosen arrays replaced by views of one new array, with random gaps between them."""
    gaps = [draw.choice(GAPS) for _ in range(len(chosen) + 1)]
    views, end = [], gaps[0]
    for field, gap in zip(chosen, gaps[1:]):
        views.append(m.View(field.name, end, field.shape[0]))
        end += field.shape[0] + gap
    like = chosen[0]
    base = m.Field(BASE, like.dtype, (end,), like.grad, like.element, draw.boolean(0.75), views=tuple(views))
    names = [f.name for f in chosen]
    inputs = program.inputs
    pairs = (_content(base, names, gaps, content) for content in (inputs.arrays, inputs.seeds))
    arrays, seeds = pairs
    fields = (*(f for f in program.fields if f.name not in names), base)
    return replace(program, fields=fields, inputs=replace(inputs, arrays=arrays, seeds=seeds))


def _content(
    base: m.Field, names: list[str], gaps: list[int], pairs: tuple[tuple[str, m.Content], ...]
) -> tuple[tuple[str, m.Content], ...]:
    """Return (name, contents) pairs, in which the contents of the arrays `names` are appended to those of `base`.

    Gaps between the views hold fillers.

    Args:
        base: The array that the views are parts of.
        names: Names of the former arrays in the order of their views.
        gaps: Numbers of elements before, between and after the views.
        pairs: Contents by name.
    """
    known, width = dict(pairs), math.prod(base.element)
    if names[0] not in known:
        return pairs
    made: list[bool | int | float] = []
    for name, gap in zip((None, *names), gaps):
        made += known[name] if name else ()
        made += [_filler(base, k) for k in range(gap * width)]
    return (*((n, c) for n, c in pairs if n not in names), (base.name, tuple(made)))


def _filler(base: m.Field, k: int) -> bool | int | float:
    return FILLERS[k % len(FILLERS)] if base.dtype.is_real else not base.dtype.is_bool and k % 3
