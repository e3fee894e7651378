"""A gradient launched once more, when the numbers that decide its trip counts have changed: sizes of adstacks are kept
between launches, and must be found anew for a state that has not been seen.

What both launches compute need not be the gradient of anything. They must be what the reference computes.
"""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...backends.base import Draws, Scalars
from ...backends.launcher import Launcher
from ...compiler.driver import Lowered
from ...reference.backend import ReferenceBackend
from ...reference.traps import TRAPS
from ..executors import CHECKED
from ..outcome import Arrays, attempt
from .result import Judged
from .standard import bounded, judge


def compare(
    lean: Lowered, memory: Arrays, scalars: Scalars, seeds: Arrays, reference: ReferenceBackend
) -> Iterator[Judged]:
    """Launch on a state, then on one with more trips. Nothing if the second is the first, traps or has no gradient."""
    if lean.counting is None or lean.marking is not None:
        return
    first = {**memory, **seeds}
    second = {name: _more(name, array, lean) for name, array in first.items()}
    if all(np.array_equal(first[name], second[name], equal_nan=True) for name in first):
        return
    try:
        known = bounded(lean.kernel, second, scalars, Draws(), precise=True)
    except TRAPS:
        return
    launcher = Launcher(lean, reference, CHECKED)
    versions = len(launcher.versioned)

    def relaunched() -> Arrays:
        launcher.run({name: a.copy() for name, a in first.items()}, scalars, Draws(), (1,) * versions)
        last = {name: a.copy() for name, a in second.items()}
        launcher.run(last, scalars, Draws(), (2,) * versions)
        return last

    made = judge(known, "again", attempt(relaunched))
    yield Judged("reverse", "again", "lean", made.verdict, made.reason)


def _more(name: str, array: np.ndarray, lean: Lowered) -> np.ndarray:
    """Integers that the kernel reads, each the greatest of its array; those of a permutation change places."""
    if array.dtype.kind not in "iu" or array.size < 2 or name in lean.writes:
        return array
    if len(np.unique(array)) == array.size:
        return np.roll(array, 1)
    return np.full_like(array, array.max())
