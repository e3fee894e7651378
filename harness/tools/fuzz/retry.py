"""Run each undecided case a second time, in double precision and with fewer trips, so that it may be decided."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from ....compiler.ir.types import Scalar, f64
from ..model import Program
from ..model import nodes as m
from ..model.walk import walk_program
from .case import FuzzPanel, run_case
from .plan import FuzzPlan
from .result import CaseResult

OPEN = ("undecided", "poisoned")
"""Outcomes that a lack of digits causes."""
FEW = 2
"""Largest trip count and largest integer input of a case that runs again."""


def run_until_decided(program: Program, plan: FuzzPlan, panel: FuzzPanel) -> CaseResult:
    """Run a case and, if it is undecided, run it again in double precision; return the decisive result.

    Args:
        program: The program of the case.
        plan: The plan of the case; a second run uses a shorter plan.
        panel: The executors of the process.
    """
    first = run_case(program, plan, panel)
    if first.outcome not in OPEN:
        return first
    second = run_case(calm_program(program), second_plan(plan), panel)
    seconds = first.seconds + second.seconds
    if second.outcome in OPEN:
        return replace(first, seconds=seconds, retried=True)
    return replace(second, features=first.features, seconds=seconds, retried=True)


def second_plan(plan: FuzzPlan) -> FuzzPlan:
    """Return the plan of the second run of a case: all executors in both directions, but no other lowerings."""
    if plan.only is not None:
        return plan
    return replace(
        plan,
        launches=1,
        check=False,
        counts=False,
        classic=False,
        effort=0,
        twins=False,
        policy="",
        again=False,
        relations=(),
        positions=False,
    )


def calm_program(program: Program) -> Program:
    """Return the program in double precision, with trip counts and integer inputs limited to the constant FEW = 2.

    Programs that read the bits of a real keep their types.
    """
    bits = any(isinstance(node, m.BitCast) for node in walk_program(program))
    made: Program = _calm(program, not bits)
    return replace(made, inputs=_small(program, made.inputs))


def _calm(node: Any, widen: bool) -> Any:
    if isinstance(node, Scalar):
        return f64 if node.is_real and widen else node
    if isinstance(node, tuple):
        return tuple(_calm(item, widen) for item in node)
    if isinstance(node, m.Range) and isinstance(node.end, m.Number) and node.begin is None:
        node = replace(node, end=m.Number(min(int(node.end.value), FEW)))
    if not is_dataclass(node) or isinstance(node, m.Inputs | type):
        return node
    new = {f.name: _calm(getattr(node, f.name), widen) for f in fields(node)}
    return node if all(new[k] is getattr(node, k) for k in new) else replace(node, **new)


def _small(program: Program, inputs: m.Inputs) -> m.Inputs:
    """Return the inputs with every integer limited to the constant FEW = 2, except in arrays that are permutations.

    A permutation stays unchanged, because iterations that write where it points must not meet.
    """
    whole = {f.name for f in program.fields if f.dtype.is_int}
    whole |= {p.name for p in program.arguments if p.dtype and p.dtype.is_int}

    def less(name: str, value: Any) -> Any:
        return min(value, FEW) if name in whole else value

    def content(name: str, given: tuple[Any, ...]) -> tuple[Any, ...]:
        # This content is a permutation of 0 .. n - 1.
        return given if set(given) == set(range(len(given))) else tuple(less(name, v) for v in given)

    arrays = tuple((name, content(name, given)) for name, given in inputs.arrays)
    return replace(inputs, arrays=arrays, scalars=tuple((name, less(name, v)) for name, v in inputs.scalars))
