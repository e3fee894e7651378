"""What peers make of a program, beside the interpreter: they run the source text, at their own optimisation.

The standard is that of executors which contract and approximate. A program is judged in one launch, as a peer's file
makes one.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ...backends.base import Draws, Scalars
from ..launch import GRAD
from ..model import Program
from ..outcome import Arrays, Ok, Outcome, attempt
from ..peers import Peer
from .lowerings import Lowerings, copies
from .plan import Plan
from .result import Judged
from .standard import Bounded, bounded, judge


def compare(
    program: Program, made: Lowerings, initial: Arrays, scalars: Scalars, plan: Plan, peers: Mapping[str, Peer]
) -> Iterator[Judged]:
    """Both directions, one peer after another. Nothing where the interpreter itself does not come to an end."""
    forward = _standard(made, "plain", initial, scalars)
    if forward is None:
        return
    reverse = None
    seeds = {name + GRAD: seed for name, seed in program.seeds().items()}
    if made.gradients and made.refusal is None and made.lean.marking is None:
        reverse = by_hand(made, initial, {**forward.arrays, **seeds}, scalars)
    asked = [(name, peers[name].begin(program)) for name in plan.peers]  # each works in a process of its own
    for name, finish in asked:
        answer = finish()
        if plan.wants("forward", name):
            yield _judged("forward", name, "plain", forward, answer.forward)
        if reverse is not None and plan.wants("reverse", name):
            known = Bounded({n: reverse.arrays[n] for n in seeds}, {n: reverse.errors[n] for n in seeds},
                            reverse.poisoned, reverse.trips, reverse.executed)  # fmt: skip
            yield _judged("reverse", name, "lean", known, answer.gradient)


def by_hand(made: Lowerings, initial: Arrays, memory: Arrays, scalars: Scalars) -> Bounded | None:
    """The gradient as peers are called: with what the kernel left in memory, and nothing kept from before. None if it
    needs that, as of a kernel that overwrites what it read, or does not come to an end.
    """
    found = _standard(made, "lean", {**memory, **copies(made.lean, initial)}, scalars)
    if found is None or not made.lean.before:
        return found
    other = _standard(made, "lean", {**memory, **copies(made.lean, memory)}, scalars)
    same = other is not None and all(
        np.array_equal(found.arrays[n + GRAD], other.arrays[n + GRAD], equal_nan=True) for n in made.gradients
    )
    return found if same else None


def _standard(made: Lowerings, which: str, arrays: Arrays, scalars: Scalars) -> Bounded | None:
    found: list[Bounded] = []

    def launch() -> Arrays:
        found.append(bounded(getattr(made, which).kernel, arrays, scalars, Draws()))
        return found[0].arrays

    return found[0] if isinstance(attempt(launch), Ok) else None


def _judged(direction: str, name: str, reference: str, known: Bounded, outcome: Outcome) -> Judged:
    made = judge(known, name, outcome)
    return Judged(direction, name, reference, made.verdict, made.reason)
