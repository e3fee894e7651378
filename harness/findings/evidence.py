"""How the right gradient of a finding is known: everything here that computes one must agree on it.

The reference interpreter and the CPU run the gradient that our compiler makes; dual numbers and JAX know nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from ...backends.base import Draws, Scalars, Sizes
from ...compiler.errors import StackgradError
from ...reference.launch import run
from ...reference.traps import TRAPS
from ..fuzz.beside import by_hand
from ..fuzz.derivatives import UNIT, compare
from ..fuzz.lowerings import Lowerings
from ..fuzz.plan import Plan
from ..fuzz.standard import FUEL, Bounded
from ..launch import GRAD
from ..model import Program, load
from ..model import nodes as m
from ..model.walk import walk_program
from ..outcome import Arrays
from ..rounding import nudged

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
        if made.refusal or made.lean.marking is not None or not seeds:
            return None
        found = _gradient(made, initial, seeds, scalars)
        judged = list(compare(made, initial, scalars, seeds, plan))
        if found is None or (_has_extremes(program) and not _is_steady(found, made, initial, seeds, scalars)):
            return None
    except (StackgradError, *TRAPS):
        return None
    if found.poisoned or any(j.verdict in ("disagree", "poisoned", "undecided") for j in judged):
        return None
    right = {name.removesuffix(GRAD): np.asarray(found.arrays[name]) for name in seeds}
    judges = tuple(j.executor for j in judged if j.verdict == "ok")
    return Evidence(right, judges) if all(map(_finite, right.values())) else None


def _gradient(made: Lowerings, initial: Arrays, seeds: Arrays, scalars: Scalars) -> Bounded | None:
    after = {name: array.copy() for name, array in initial.items()}
    run(made.plain.kernel, after, scalars, Sizes(), Draws(), fuel=FUEL)
    return by_hand(made, initial, {**after, **seeds}, scalars)


def _has_extremes(program: Program) -> bool:
    """Whether two values that tie, or one at zero, could matter."""
    nodes = list(walk_program(program))
    called = any(isinstance(n, m.Call) and n.function in ("min", "max", "abs") for n in nodes)
    return called or any(isinstance(n, m.AtomicCall) and n.op in ("min", "max") for n in nodes)


def _is_steady(found: Bounded, made: Lowerings, initial: Arrays, seeds: Arrays, scalars: Scalars) -> bool:
    """Whether the gradient stays what it is when the initial content moves by a few roundings. At a tie it does not:
    what it is there is convention.
    """
    for way, side in product(("tie", "other tie"), (1.0, -1.0)):
        beside = _gradient(made, nudged(initial, UNIT, way, side), seeds, scalars)
        if beside is None or not all(np.allclose(beside.arrays[n], found.arrays[n], 1e-6, 1e-9) for n in seeds):
            return False
    return True


def _finite(array: np.ndarray) -> bool:
    return bool(np.isfinite(array).all())
