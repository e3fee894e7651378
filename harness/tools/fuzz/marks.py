"""Check that marking kernels, which refuse gradients with conflicts at a launch, agree on every backend.

If marks find nothing, the gradient must be right and is judged as any other. If marks find iterations that touch the
same element, the gradient counts as refused. Every backend must find the same. The message names the first iterations
and elements; a backend that runs iterations at once may choose which these are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ....backends.base import Backend, Draws, Scalars
from ....backends.launching.launcher import Launcher
from ....compiler.driver import Lowering
from ....compiler.errors import NotDifferentiable
from ...testing.executors import CHECKED
from ...testing.outcome import Arrays, one_line

_NUMBERS = r"\(?-?\d+(?:, -?\d+)*,?\)?"
_NAMED = re.compile(rf"(?<=iteration ){_NUMBERS}|(?<=iterations ){_NUMBERS} and {_NUMBERS}|(?<=\w\[){_NUMBERS}(?=\])")
"""The iterations and the element that a message names."""


def marking_refusal(
    lean: Lowering, backend: Backend, launches: Sequence[Arrays], scalars: Scalars
) -> NotDifferentiable | None:
    """Return the marking kernel's refusal of the first launch that it refuses, or None if it refuses none.

    Args:
        lean: The lowering of the gradient.
        backend: The backend that runs the marking kernel.
        launches: Contents of the arrays after each launch.
        scalars: Arguments of the launches.
    """
    if lean.marking is None:
        return None
    launcher = Launcher(lean, backend, CHECKED)
    try:
        for number, memory in enumerate(launches):
            launcher.verify(memory, scalars, Draws(0, number))
    except NotDifferentiable as found:
        return found
    return None


def refusal_difference(name: str, found: Exception | None, expected: Exception | None) -> str:
    """Return one line on how a backend's refusal differs from the reference's, or "" if it does not.

    Args:
        name: Name of the backend.
        found: The refusal of the backend, or None.
        expected: The refusal of the reference, or None.
    """
    ours, theirs = (one_line(e) if e else "no iterations meet" for e in (found, expected))
    return "" if _NAMED.sub("", ours) == _NAMED.sub("", theirs) else f"{name}: {ours}; the reference: {theirs}"
