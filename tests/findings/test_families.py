"""Test families: by which properties findings are grouped."""

from __future__ import annotations

import pytest
from findings_support import V, X, Y, assign, loop, program, sine
from stackgrad.compiler.ir.types import f64
from stackgrad.harness.tools.findings.families import Families, lines_of, signature_of
from stackgrad.harness.tools.findings.traits import TRAITS, traits
from stackgrad.harness.tools.fuzz.plan import FuzzPlan
from stackgrad.harness.tools.fuzz.result import JudgedComparison
from stackgrad.harness.tools.fuzz.statistics import Finding
from stackgrad.harness.tools.model import Program
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.peers import DIED

W = m.Name("w")
J = m.Name("j")
POSITIVE = m.Compare((">",), (V, m.Number(0.0)))


def finding(found: Program, peer: str = "quadrants", reason: str = "x.grad[0]: 1 against 3, bound 1e-15") -> Finding:
    return Finding(found, FuzzPlan(peers=(peer,)), (JudgedComparison("reverse", peer, "lean", "disagree", reason),))


INVARIANT = program(assign(V, sine(X)), loop(m.Augment(Y, "+", m.Binary("*", V, X))))
SQUARED = program(assign(V, m.Binary("*", X, X)), loop(m.Augment(Y, "+", m.Binary("*", V, m.Number(2.0))), trips=5))
CARRIED = program(assign(V, X), loop(assign(V, sine(V))), assign(Y, V))

PLANTED: dict[str, m.Stmt | tuple[m.Stmt, ...]] = {
    "a value from before a loop": (assign(V, sine(X)), loop(m.Augment(Y, "+", V))),
    "a value carried by a loop": (assign(V, X), loop(m.Augment(V, "*", X)), assign(Y, V)),
    "a value of the iteration before": (
        assign(V, X),
        assign(W, X),
        loop(assign(V, sine(W)), assign(W, V)),
        assign(Y, W),
    ),
    "nested loops": loop(loop(m.Augment(Y, "+", X), index="l")),
    "a loop under a branch": m.If(m.Compare((">",), (X, m.Number(0.0))), (loop(m.Augment(Y, "+", X)),)),
    "loops side by side": (loop(m.Augment(Y, "+", X)), loop(m.Augment(Y, "+", X))),
    "a bound by an outer index": loop(m.For(("l",), m.Range(None, J), (m.Augment(Y, "+", X),))),
    "a bound read from memory": m.For(("j",), m.Range(None, m.Element("n", (m.Name("i"),))), (m.Augment(Y, "+", X),)),
    "a bound by a difference": m.For(
        ("j",), m.Range(None, m.Binary("-", m.Number(3), m.Name("i"))), (m.Augment(Y, "+", X),)
    ),
    "a loop that begins elsewhere": m.For(("j",), m.Range(m.Number(-1), m.Number(2)), (m.Augment(Y, "+", X),)),
    "a serial loop at the top": m.For(("j",), m.Range(None, m.Number(2)), (m.Augment(Y, "+", X),), serialize=True),
    "a branch in a loop": (assign(V, X), loop(m.If(POSITIVE, (assign(V, sine(V)),)))),
    "a branch that assigns": (assign(V, X), m.If(POSITIVE, (assign(V, sine(V)),))),
    "an entry at a dynamic index": (
        assign(V, m.Vector((X, X))),
        loop(m.Augment(Y, "+", m.Part(V, (m.Binary("%", J, m.Number(2)),)))),
    ),
    "a vector changed in a loop": (assign(V, m.Vector((X, X))), loop(assign(V, m.Binary("*", V, X)))),
    "an atomic min or max": m.Evaluate(m.AtomicCall("max", Y, X)),
    "an atomic product": m.Augment(Y, "*", X),
    "the value of an atomic": assign(V, m.AtomicCall("add", Y, X)),
    "an element stored and read": (assign(Y, sine(X)), assign(V, Y)),
    "a constant stored": assign(Y, m.Number(1.0)),
    "an unrolled loop": m.For(("j",), m.Unrolled(0, 3), (m.Augment(Y, "+", X),)),
    "an index in arithmetic": loop(m.Augment(Y, "+", m.Binary("*", X, m.Cast(J, f64)))),
}


@pytest.mark.parametrize("trait", TRAITS)
def test_each_trait_is_seen(trait: str) -> None:
    body = PLANTED[trait]
    assert trait in traits(program(*(body if isinstance(body, tuple) else (body,))))


@pytest.mark.parametrize("trait", TRAITS)
def test_no_trait_is_seen_everywhere(trait: str) -> None:
    assert trait not in traits(program(assign(Y, sine(X))))


def test_of_a_program_without_traits_the_operations_count() -> None:
    assert traits(program(assign(Y, sine(X)))) == {"the derivative of sin"}


def test_findings_with_the_same_traits_are_one_family() -> None:
    families = Families()
    assert families.add(finding(INVARIANT)) is not None
    assert families.add(finding(SQUARED)) is not None, "it is the smaller one"
    assert families.add(finding(INVARIANT)) is None
    (family,) = families.known.values()
    assert family.count == 3 and family.finding.program == SQUARED
    assert families.wrong_gradients == [family]


@pytest.mark.parametrize(
    "other",
    [finding(CARRIED), finding(INVARIANT, "taichi"), finding(INVARIANT, reason=f"ended with {DIED}: status -6")],
)
def test_other_traits_peers_and_ends_are_other_families(other: Finding) -> None:
    families = Families()
    families.add(finding(INVARIANT))
    families.add(other)
    assert len(families.known) == 2


def test_an_end_is_no_wrong_gradient() -> None:
    ended = signature_of(finding(INVARIANT, reason=f"ended with {DIED}: status -6"))
    assert ended is not None and ended.way == DIED and not ended.is_wrong_gradient
    assert "dies" in ended.title


def test_what_does_not_fail_has_no_signature() -> None:
    assert (
        signature_of(Finding(INVARIANT, FuzzPlan(), (JudgedComparison("reverse", "quadrants", "lean", "ok"),))) is None
    )


def test_a_family_covers_programs_with_all_its_traits_and_calls_and_more() -> None:
    families = Families()
    families.add(finding(INVARIANT))
    more = program(assign(V, sine(X)), loop(loop(m.Augment(Y, "+", m.Binary("*", V, X)), index="l")))
    assert families.covers("quadrants", more) and not families.covers("taichi", more)
    assert not families.covers("quadrants", CARRIED)
    assert not families.covers("quadrants", SQUARED), "it calls no sine"
    families.add(finding(SQUARED))
    assert families.covers("quadrants", SQUARED)


def test_lines_are_those_of_the_kernel() -> None:
    assert lines_of(INVARIANT) == 5
