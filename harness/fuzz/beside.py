"""What peers make of a program, beside the interpreter: they run the source text, at their own optimisation.

The standard is that of executors which contract and approximate. A program is judged in one launch, as a peer's file
makes one. Where the gradient alone is wanted, the peer gets what the interpreter left in memory, and does not launch
the kernel itself: it would compile for as long again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

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
    given, alone = program, plan.only is not None and plan.only[0] == "reverse"
    if alone:
        given = _after(program, forward.arrays)
    asked = [(name, peers[name].begin(given, alone)) for name in plan.peers]  # each works in a process of its own
    try:
        reverse = _reverse(program, made, initial, forward.arrays, scalars)
    finally:
        answers = [(name, finish()) for name, finish in asked]
    for name, answer in answers:
        if plan.wants("forward", name):
            yield _judged("forward", name, "plain", forward, answer.forward)
        if reverse is not None and plan.wants("reverse", name):
            yield _judged("reverse", name, "lean", reverse, answer.gradient)


def _after(program: Program, arrays: Arrays) -> Program:
    """The same with what a launch leaves as its initial content."""
    contents = tuple((name, tuple(np.ravel(arrays[name]).tolist())) for name, _ in program.inputs.arrays)
    return replace(program, inputs=replace(program.inputs, arrays=contents))


def _reverse(program: Program, made: Lowerings, initial: Arrays, after: Arrays, scalars: Scalars) -> Bounded | None:
    """What the gradient of a peer is judged by: adjoints of the initial content."""
    if not made.gradients or made.refusal is not None or made.lean.marking is not None:
        return None
    seeds = {name + GRAD: seed for name, seed in program.seeds().items()}
    found = by_hand(made, initial, {**after, **seeds}, scalars)
    if found is None:
        return None
    return replace(found, arrays={n: found.arrays[n] for n in seeds}, errors={n: found.errors[n] for n in seeds})


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
