"""Judge gradients by dual numbers, by JAX on a sample and where dual numbers disagree, and by forward mode on a sample.

All judges work in double precision, on the widened kernel. With t a random direction of the initial contents and c the
cotangents of the final contents, <c, J t> of the plain kernel must equal <J^T c, t> of the lean gradient. Dual numbers
and JAX share no derivative rule with the compiler. Forward mode shares the rules with the gradient, so its comparison
judges forward mode more than the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec

import numpy as np

from ....backends.base import Draws, Scalars
from ....compiler.ad.tangent import DUAL
from ....compiler.errors import NotDifferentiable
from ....compiler.errors import Unsupported as UnsupportedError
from ....compiler.ir.cached import cached_property
from ....reference.traps import TRAPS
from ...testing.launch import GRAD
from ...testing.outcome import Arrays, OkOutcome, Outcome, TrapOutcome, attempt
from ...testing.rounding import (
    DECIDABLE,
    SAFETY,
    perturb_by_rounding,
    perturb_in_all_ways,
    random_signs,
    seeded_generator,
)
from .lowerings import Lowerings, before_arrays
from .plan import FuzzPlan
from .reference_run import BoundedResult, judge, launch_bounded
from .result import JudgedComparison

UNIT = 2.0**-53
KINK = 0.1
"""The share of a disagreement that a jump of the gradient near a point must explain; at a tie JAX returns halves."""
JUDGES = frozenset({"dual", "jax", "tangent"})
NOT_FINITE = "the state holds NaN or infinity, where derivatives are conventions"


def compare(
    made: Lowerings,
    initial: Arrays,
    scalars: Scalars,
    seeds: Arrays,
    plan: FuzzPlan,
    states: Sequence[BoundedResult] = (),
) -> Iterator[JudgedComparison]:
    """Yield the verdicts of dual numbers, JAX and forward mode on the gradient of policy lean.

    Args:
        made: The lowerings of the kernel.
        initial: Initial contents of its arrays.
        scalars: Arguments of the launch.
        seeds: Cotangents by the name of the adjoint array.
        plan: The plan of the case.
        states: The state after each launch in double precision, with distances from the exact result, if known.
    """
    pulled = _LeanGradient(made, _wide(initial), scalars, _wide(seeds), plan.launches, states)
    disagrees = False
    if plan.wants("reverse", "dual"):
        found = _asked("dual", pulled, _LeanGradient.against_dual)
        disagrees = found.verdict == "disagree"
        yield found
    if plan.wants("reverse", "jax") and (plan.oracle or disagrees) and find_spec("jax"):
        yield _asked("jax", pulled, _LeanGradient.against_jax)
    if plan.wants("reverse", "tangent") and plan.tangents:
        yield _asked("tangent", pulled, _LeanGradient.against_tangent)


def _asked(name: str, pulled: _LeanGradient, ask: Callable[[_LeanGradient], JudgedComparison]) -> JudgedComparison:
    """Return a judge's verdict on a gradient; if it is "disagree", judge again with a kernel compiled in f64.

    The compiler folds constants in the kernel's own precision, and a kernel that is widened afterwards contains their
    roundings, which the judges do not have. Where a judge disagrees, the kernel is therefore widened first and compiled
    again.
    """
    try:
        found = ask(pulled)
        if found.verdict != "disagree" or pulled.made.is_wide:
            return found
        return ask(replace(pulled, made=Lowerings(pulled.made.wide_kernel), states=()))
    except UnsupportedError as error:
        return JudgedComparison("reverse", name, "lean", "unsupported", str(error).splitlines()[0])
    except NotDifferentiable as error:
        return JudgedComparison("reverse", name, "lean", "refused", str(error).splitlines()[0])
    except TRAPS as error:
        # The launch itself ended well, in its own precision.
        return JudgedComparison(
            "reverse", name, "lean", "undecided", f"in double precision: {str(error).splitlines()[0]}"
        )


def _wide(arrays: Arrays) -> dict[str, np.ndarray]:
    return {name: a.astype(np.float64) if a.dtype.kind == "f" else a for name, a in arrays.items()}


def _is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _lengths(name: str, shape: tuple[int, ...]) -> np.ndarray:
    return seeded_generator("length", name).uniform(0.5, 1.5, shape)


@dataclass
class _LeanGradient:
    """Represent the gradient by policy lean of one launch, or of successive launches, in double precision."""

    made: Lowerings
    initial: Arrays
    scalars: Scalars
    seeds: Arrays
    launches: int
    states: Sequence[BoundedResult] = ()

    @cached_property
    def gradient(self) -> BoundedResult:
        """Return the adjoints of the initial contents with their errors."""
        return self._from(self.initial)

    def _from(self, initial: Arrays) -> BoundedResult:
        states = list(self.states) if initial is self.initial else []
        found: list[tuple[Arrays, Arrays]] = [(initial, {}), *((s.arrays, s.errors) for s in states)]
        for launch in range(len(states), self.launches):
            states.append(
                launch_bounded(self.made.wide_plain, found[-1][0], self.scalars, Draws(0, launch), found[-1][1])
            )
            found.append((states[-1].arrays, states[-1].errors))
        adjoints: Arrays = self.seeds
        errors: dict[str, np.ndarray] = {}
        for launch in reversed(range(self.launches)):
            state, before = states[launch], found[launch]
            memory = {**state.arrays, **adjoints, **before_arrays(self.made.lean, before[0])}
            known = {**state.errors, **errors, **(before_arrays(self.made.lean, before[1]) if before[1] else {})}
            pulled = launch_bounded(self.made.wide_lean, memory, self.scalars, Draws(0, launch), known)
            adjoints = {name: pulled.arrays[name] for name in self.seeds}
            errors = {name: pulled.errors[name] for name in self.seeds}
        finite = all(_is_finite(a) for state in states for a in state.arrays.values())
        # Derivatives at NaN or infinity are conventions, so they are not judged.
        return pulled if finite or pulled.poisoned else replace(pulled, poisoned=NOT_FINITE)

    def _gradient_at(self, initial: Arrays) -> Arrays:
        return self._from(initial).arrays

    @property
    def names(self) -> list[str]:
        """Return the names of the arrays that have a gradient."""
        return [name.removesuffix(GRAD) for name in self.seeds]

    def against_dual(self) -> JudgedComparison:
        """Compare the gradient with a directional derivative by dual numbers, along one random direction."""
        known, tangents = self.gradient, self._direction()
        left, right = self._along(self.initial, tangents), self._terms(known.arrays, tangents)
        found = self._decide("dual", left, right, known)
        if found.verdict != "disagree":
            return found
        # Dual numbers round too; this is measured only where it could explain the disagreement.
        others = [self._along(perturb_by_rounding(self.initial, UNIT, k), tangents) for k in range(2)]
        return self._decide("dual", left, right, known, max(abs(float(o.sum() - left.sum())) for o in others))

    def against_tangent(self) -> JudgedComparison:
        """Compare the gradient with a directional derivative by the tangent kernel, along one random direction."""
        known, tangents = self.gradient, self._direction()
        state: Arrays = {**self.initial, **{name + DUAL: tangent for name, tangent in tangents.items()}}
        errors: Arrays | None = None
        for launch in range(self.launches):
            found = launch_bounded(self.made.wide_tangent, state, self.scalars, Draws(0, launch), errors)
            if found.poisoned:
                return JudgedComparison("reverse", "tangent", "lean", "poisoned", found.poisoned)
            state, errors = found.arrays, found.errors
        left = np.concatenate([np.ravel(self.seeds[n + GRAD] * state[n + DUAL]) for n in self.names])
        moves = sum(float(np.sum(np.abs(self.seeds[n + GRAD]) * (errors or {})[n + DUAL])) for n in self.names)
        return self._decide("tangent", left, self._terms(known.arrays, tangents), known, moves)

    def _direction(self) -> dict[str, np.ndarray]:
        """Return a random direction with components of different sizes, so that swapped adjoints are noticed.

        An adjoint at the wrong element would not show if both elements moved alike.
        """
        return {
            n: _lengths(n, self.initial[n].shape) * random_signs(seeded_generator("tangent", n), self.initial[n].shape)
            for n in self.names
        }

    def _terms(self, gradient: Arrays, tangents: Arrays) -> np.ndarray:
        """Return the products of adjoints and tangents whose sum is <gradient, t>."""
        return np.concatenate([np.ravel(gradient[n + GRAD] * tangents[n]) for n in self.names])

    def _along(self, initial: Arrays, tangents: Arrays) -> np.ndarray:
        """Return the products of cotangents c and tangents J t (by dual numbers) whose sum is <c, J t>."""
        from ...testing.oracles import dual

        state, pushed = dict(initial), dict(tangents)
        for launch in range(self.launches):
            state, pushed = dual.jvp(self.made.wide_plain, state, self.scalars, pushed, Draws(0, launch))
        return np.concatenate([np.ravel(self.seeds[n + GRAD] * pushed[n]) for n in self.names])

    def _decide(
        self, judge: str, left: np.ndarray, right: np.ndarray, known: BoundedResult, moves: float = 0.0
    ) -> JudgedComparison:
        """Return the verdict on the identity <c, J t> = <gradient, t>, from the terms of both sides.

        Args:
            judge: Name of the judge.
            left: Terms of <c, J t>.
            right: Terms of <gradient, t>.
            known: The gradient with its errors.
            moves: Effect of roundings on the left side.
        """
        if known.poisoned:
            return JudgedComparison("reverse", judge, "lean", "poisoned", known.poisoned)
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            return JudgedComparison("reverse", judge, "lean", "undecided", "NaN or infinity along the direction")
        with np.errstate(over="ignore"):
            size = float(np.abs(left).sum() + np.abs(right).sum())
        error = sum(float(np.sum(known.errors[n + GRAD])) for n in self.names)
        bound = 2.0 * error + SAFETY * (UNIT * size + moves)
        gap = abs(float(left.sum()) - float(right.sum()))
        # The negated comparison is also true if the bound is NaN.
        if not bound <= DECIDABLE * max(size, 1e-300):
            return JudgedComparison("reverse", judge, "lean", "undecided", f"bound {bound:.1e} of {size:.1e}")
        text = f"<c, J t> = {left.sum():.12g}, <gradient, t> = {right.sum():.12g}, bound {bound:.1e}"
        return JudgedComparison(
            "reverse", judge, "lean", "ok" if gap <= bound else "disagree", "" if gap <= bound else text
        )

    def against_jax(self) -> JudgedComparison:
        """Compare every element of the gradient with JAX."""
        outcome = attempt(self._jax)
        if isinstance(outcome, TrapOutcome):
            return JudgedComparison("reverse", "jax", "lean", "disagree", f"ended with {outcome}")
        made = judge(self.gradient, "jax", outcome)
        if made.verdict == "disagree" and self._at_kink(outcome):
            return JudgedComparison(
                "reverse", "jax", "lean", "poisoned", "at a kink, where JAX has conventions of its own"
            )
        return JudgedComparison("reverse", "jax", "lean", made.verdict, made.reason)

    def _jax(self) -> Arrays:
        from ...testing.oracles import jax_oracle

        kernel, states = self.made.wide_plain, [self.initial]
        for launch in range(self.launches - 1):
            states.append(jax_oracle.run(kernel, states[-1], self.scalars, Draws(0, launch)))
        adjoints: Mapping[str, np.ndarray] = {n: self.seeds[n + GRAD] for n in self.names}
        for launch in reversed(range(self.launches)):
            adjoints = jax_oracle.vjp(kernel, states[launch], self.scalars, adjoints, draws=Draws(0, launch))
        return {n + GRAD: a for n, a in adjoints.items()}

    def _at_kink(self, other: Outcome) -> bool:
        """Return True if a change of the initial contents by a few roundings makes the gradient jump.

        The jump must be at least KINK times the difference between the two gradients.
        """
        assert isinstance(other, OkOutcome)
        for arrays in perturb_in_all_ways(self.initial, UNIT):
            beside = attempt(partial(self._gradient_at, arrays))
            if not isinstance(beside, OkOutcome) or any(
                self._jumps(n, beside.arrays, other.arrays) for n in self.seeds
            ):
                return True
        return False

    def _jumps(self, name: str, beside: Arrays, other: Arrays) -> bool:
        """Return True if an adjoint changes near the inputs by more than KINK times its difference from JAX's.

        Args:
            name: Name of the adjoint array.
            beside: Adjoints near the point.
            other: Adjoints that JAX returns.
        """
        here = self.gradient.arrays[name]
        with np.errstate(all="ignore"):
            jump, gap = np.abs(beside[name] - here), np.abs(other[name] - here)
        # The negated comparison is also true if a jump is NaN.
        return not float(jump.max(initial=0.0)) <= KINK * float(gap.max(initial=0.0))
