"""How the right gradient of a finding is known: everything here that computes one must agree on it.

The reference interpreter and the CPU run the gradient that our compiler makes; dual numbers and JAX know nothing of it.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...backends.base import Draws, Sizes
from ...compiler.errors import StackgradError
from ...reference.launch import run
from ...reference.traps import TRAPS
from ..fuzz.derivatives import compare
from ..fuzz.lowerings import Lowerings
from ..fuzz.plan import Plan
from ..fuzz.standard import FUEL, bounded
from ..launch import GRAD
from ..model import Program, load
from ..outcome import Arrays

ORACLES = Plan(backends=(), oracle=True, tangents=False)
DUAL = Plan(backends=(), oracle=False, tangents=False)
JUDGES = ("dual", "jax")


@dataclass(frozen=True)
class Evidence:
    """right: adjoints of the initial content, by the name of the array. judges: who agrees, beside the interpreter."""

    right: Arrays
    judges: tuple[str, ...]

    @property
    def suffices(self) -> bool:
        """Whether a judge that knows nothing of our compiler agrees."""
        return bool(self.judges)


def is_certain(program: Program) -> bool:
    """Whether dual numbers confirm the gradient of a program: what a reducer asks at every step, so that it does not
    end at a tie or a kink, where there is no gradient to be wrong about.
    """
    return evidence(program, DUAL) is not None


def evidence(program: Program, plan: Plan = ORACLES) -> Evidence | None:
    """The right gradient; None if there is none, or if anybody disagrees with it or cannot tell."""
    try:
        kernel, initial, scalars = load(program)
        made = Lowerings(kernel)
        seeds = {name + GRAD: seed for name, seed in program.seeds().items() if name in made.gradients}
        if made.refusal or made.lean.before or made.lean.marking is not None or not seeds:
            return None
        after = {name: array.copy() for name, array in initial.items()}
        run(made.plain.kernel, after, scalars, Sizes(), Draws(), fuel=FUEL)
        found = bounded(made.lean.kernel, {**after, **seeds}, scalars, Draws())
        judged = list(compare(made, initial, scalars, seeds, plan))
    except (StackgradError, *TRAPS):
        return None
    if found.poisoned or any(j.verdict in ("disagree", "poisoned", "undecided") for j in judged):
        return None
    right = {name.removesuffix(GRAD): np.asarray(found.arrays[name]) for name in seeds}
    judges = tuple(j.executor for j in judged if j.verdict == "ok")
    return Evidence(right, judges) if all(map(_finite, right.values())) else None


def _finite(array: np.ndarray) -> bool:
    return bool(np.isfinite(array).all())

