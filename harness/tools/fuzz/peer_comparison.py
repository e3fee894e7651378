"""Compare the results of peers with those of the reference interpreter on one program.

Peers run the source text with their own optimization. The standard is that of executors which contract and approximate.
A program is judged in one launch, because a peer's file makes one launch. If only the gradient is wanted, the peer gets
the memory that the interpreter left, and does not launch the kernel itself, because compiling it would take as long
again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ....backends.base import Draws, Scalars
from ...testing.launch import GRAD
from ...testing.outcome import Arrays, OkOutcome, Outcome, attempt
from ..model import Program
from ..peers import Peer
from .lowerings import Lowerings, before_arrays
from .plan import FuzzPlan
from .reference_run import BoundedResult, judge, launch_bounded
from .result import JudgedComparison


def compare(
    program: Program, made: Lowerings, initial: Arrays, scalars: Scalars, plan: FuzzPlan, peers: Mapping[str, Peer]
) -> Iterator[JudgedComparison]:
    """Yield the verdicts on both directions, peer by peer; yield nothing if the interpreter raises a trap.

    Args:
        program: The program that peers run.
        made: The lowerings of the program.
        initial: Initial contents of its arrays.
        scalars: Arguments of the launch.
        plan: The plan of the case, which names the peers.
        peers: All peers by name.
    """
    forward = _standard(made, "plain", initial, scalars)
    if forward is None:
        return
    given, alone = program, plan.only is not None and plan.only[0] == "reverse"
    if alone:
        given = _after(program, forward.arrays)
    # Every peer works in a process of its own while the interpreter computes the standard.
    asked = [(name, peers[name].begin(given, alone)) for name in plan.peers]
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
    """Return the program whose initial contents are the arrays that a launch has left."""
    contents = tuple((name, tuple(np.ravel(arrays[name]).tolist())) for name, _ in program.inputs.arrays)
    return replace(program, inputs=replace(program.inputs, arrays=contents))


def _reverse(
    program: Program, made: Lowerings, initial: Arrays, after: Arrays, scalars: Scalars
) -> BoundedResult | None:
    """Return the adjoints, with error bounds, by which a peer's gradient is judged; None if it cannot be judged."""
    if not made.gradients or made.refusal is not None or made.lean.marking is not None:
        return None
    seeds = {name + GRAD: seed for name, seed in program.seeds().items()}
    found = gradient_by_hand(made, initial, {**after, **seeds}, scalars)
    if found is None:
        return None
    return replace(found, arrays={n: found.arrays[n] for n in seeds}, errors={n: found.errors[n] for n in seeds})


def gradient_by_hand(made: Lowerings, initial: Arrays, memory: Arrays, scalars: Scalars) -> BoundedResult | None:
    """Return the gradient as peers compute it, at the arrays that a launch left; None if it needs older contents.

    The result is None if the gradient needs earlier contents, because the kernel overwrites what it read, or if it
    traps.

    Args:
        made: The lowerings of the program.
        initial: Contents of the arrays before the launch of the kernel.
        memory: Contents after the launch, with cotangents.
        scalars: Arguments of the launch.
    """
    found = _standard(made, "lean", {**memory, **before_arrays(made.lean, initial)}, scalars)
    if found is None or not made.lean.before:
        return found
    other = _standard(made, "lean", {**memory, **before_arrays(made.lean, memory)}, scalars)
    same = other is not None and all(
        np.array_equal(found.arrays[n + GRAD], other.arrays[n + GRAD], equal_nan=True) for n in made.gradients
    )
    return found if same else None


def _standard(made: Lowerings, which: str, arrays: Arrays, scalars: Scalars) -> BoundedResult | None:
    """Return the result of a launch on the interpreter with its error bounds, or None if the launch traps.

    Args:
        made: The lowerings of the program.
        which: Name of the lowering to run, 'plain' or 'lean'.
        arrays: Initial contents of the arrays.
        scalars: Arguments of the launch.
    """
    found: list[BoundedResult] = []

    def launch() -> Arrays:
        found.append(launch_bounded(getattr(made, which).kernel, arrays, scalars, Draws()))
        return found[0].arrays

    return found[0] if isinstance(attempt(launch), OkOutcome) else None


def _judged(direction: str, name: str, reference: str, known: BoundedResult, outcome: Outcome) -> JudgedComparison:
    made = judge(known, name, outcome)
    return JudgedComparison(direction, name, reference, made.verdict, made.reason)
