"""Marks of a case: gradients of which only a launch tells whether they are right, looked at after each launch.

Where marks find nothing, the gradient must be right, and is judged as any other; where they find iterations that meet,
it counts as refused. Every backend must find the same. Of several iterations that meet, and elements in which they do,
those are named that came first: which ones these are is left to a backend that runs iterations at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...backends.base import Backend, Draws, Scalars
from ...backends.launcher import Launcher
from ...compiler.driver import Lowered
from ...compiler.errors import NotDifferentiable
from ..executors import CHECKED
from ..outcome import Arrays, one_line

_NUMBERS = r"\(?-?\d+(?:, -?\d+)*,?\)?"
_NAMED = re.compile(rf"(?<=iteration ){_NUMBERS}|(?<=iterations ){_NUMBERS} and {_NUMBERS}|(?<=\w\[){_NUMBERS}(?=\])")
"""Which iterations, and which element, a message names."""


def overlap(lean: Lowered, backend: Backend, launches: Sequence[Arrays], scalars: Scalars) -> NotDifferentiable | None:
    """What marks of these launches say of a gradient, or None. launches: what arrays hold after each."""
    if lean.marking is None:
        return None
    launcher = Launcher(lean, backend, CHECKED)
    try:
        for number, memory in enumerate(launches):
            launcher.verify(memory, scalars, Draws(0, number))
    except NotDifferentiable as found:
        return found
    return None


def difference(name: str, found: Exception | None, expected: Exception | None) -> str:
    """What a backend finds otherwise than the reference, in one line; empty if nothing."""
    ours, theirs = (one_line(e) if e else "no iterations meet" for e in (found, expected))
    return "" if _NAMED.sub("", ours) == _NAMED.sub("", theirs) else f"{name}: {ours}; the reference: {theirs}"
