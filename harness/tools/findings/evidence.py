"""This module finds the right gradient of a finding's program, on which compiler, dual numbers and JAX must agree.

The reference and the CPU backend run the gradient that the compiler makes; dual numbers and JAX share nothing with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....backends.base import Draws, Scalars, Sizes
from ....compiler.errors import StackgradError
from ....reference.launch import run
from ....reference.traps import TRAPS
from ...testing.launch import GRAD
from ...testing.outcome import Arrays
from ...testing.rounding import perturb_in_all_ways
from ..fuzz.derivatives import UNIT, compare
from ..fuzz.lowerings import Lowerings
from ..fuzz.peer_comparison import gradient_by_hand
from ..fuzz.plan import FuzzPlan
from ..fuzz.reference_run import FUEL, BoundedResult
from ..model import Program, load
from ..model import nodes as m
from ..model.walk import walk_program

ORACLES = FuzzPlan(backends=(), oracle=True, tangents=False)
DUAL = FuzzPlan(backends=(), oracle=False, tangents=False)
JUDGES = ("dual", "jax")


@dataclass(frozen=True)
class Evidence:
    """Represent the correct gradient of a program, with the names of the judges that confirm it.

    Attributes:
        right: adjoints of the initial contents, by the name of the array.
        judges: the executors that agree with the interpreter.
    """

    right: Arrays
    judges: tuple[str, ...]

    @property
    def suffices(self) -> bool:
        """Return True if at least one judge that shares nothing with the compiler confirms the gradient."""
        return bool(self.judges)


def is_certain(program: Program) -> bool:
    """Return True if dual numbers confirm the gradient of a program.

    A reducer asks this at every step, so that it does not end at a tie or a kink, where no gradient is wrong.
    """
    return evidence(program, DUAL) is not None


def evidence(program: Program, plan: FuzzPlan = ORACLES) -> Evidence | None:
    """Return the right gradient of a program; None if there is none, or if a judge disagrees or cannot decide."""
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


def _gradient(made: Lowerings, initial: Arrays, seeds: Arrays, scalars: Scalars) -> BoundedResult | None:
    after = {name: array.copy() for name, array in initial.items()}
    run(made.plain.kernel, after, scalars, Sizes(), Draws(), fuel=FUEL)
    return gradient_by_hand(made, initial, {**after, **seeds}, scalars)


def _has_extremes(program: Program) -> bool:
    """Return True if a program contains a minimum, maximum or absolute value, whose gradient is ambiguous at ties."""
    nodes = list(walk_program(program))
    called = any(isinstance(n, m.Call) and n.function in ("min", "max", "abs") for n in nodes)
    return called or any(isinstance(n, m.AtomicCall) and n.op in ("min", "max") for n in nodes)


def _is_steady(found: BoundedResult, made: Lowerings, initial: Arrays, seeds: Arrays, scalars: Scalars) -> bool:
    """Return True if the gradient stays the same when the initial contents move by a few roundings.

    At a tie it changes, because the gradient at a tie is a convention.
    """
    for arrays in perturb_in_all_ways(initial, UNIT):
        beside = _gradient(made, arrays, seeds, scalars)
        if beside is None or not all(np.allclose(beside.arrays[n], found.arrays[n], 1e-6, 1e-9) for n in seeds):
            return False
    return True


def _finite(array: np.ndarray) -> bool:
    return bool(np.isfinite(array).all())
