"""Families: what was found in peers, told apart by the peer, the way it failed and the traits of the reduced program.

Invariant: a family is represented by its smallest program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from ..fuzz.reduce import sign_of_judged, size
from ..fuzz.statistics import Finding
from ..model import Program
from ..model import nodes as m
from ..model.source import definitions
from ..model.walk import walk_program
from ..peers import DIED, HUNG, OVERFLOW
from .traits import TRAITS, traits

LINES = 10
"""A kernel of more lines is not made small enough to be shown to anybody."""


Foretell = Callable[[frozenset[str]], bool]


@dataclass(frozen=True)
class Signature:
    """direction: 'forward' or 'reverse'. way: 'value' for wrong numbers, else the kind of the end."""

    peer: str
    direction: str
    way: str
    traits: frozenset[str]

    @property
    def is_wrong_gradient(self) -> bool:
        """Whether the peer gave numbers, and wrong ones."""
        return self.direction == "reverse" and self.way == "value"

    @property
    def title(self) -> str:
        """One line."""
        order = list(TRAITS)
        named = sorted(self.traits, key=lambda t: (order.index(t) if t in order else len(order), t))
        return f"{self.peer}: {_said(self)}: {', '.join(named) or 'no trait'}"


def _said(signature: Signature) -> str:
    numbers = "a wrong gradient" if signature.direction == "reverse" else "wrong values"
    ends = {"value": numbers, DIED: "the process dies", HUNG: "no answer", OVERFLOW: "no room for what is saved"}
    return ends.get(signature.way, f"ends with {signature.way}")


def signature_of(finding: Finding) -> Signature | None:
    """What a finding in a peer is told from others by; None if it does not fail."""
    sign = sign_of_judged(finding.judged)
    if len(sign) != 3:
        return None
    direction, peer, way = sign
    return Signature(peer, direction, way, traits(finding.program))


def lines_of(program: Program) -> int:
    """Lines of the functions and the kernel, decorators not counted."""
    text = definitions(program).splitlines()
    return len([line for line in text if line.strip() and not line.startswith("@")])


@lru_cache(2048)
def calls_of(program: Program) -> frozenset[str]:
    """The functions that a program calls."""
    return frozenset(n.function for n in walk_program(program) if isinstance(n, m.Call))


@dataclass
class Family:
    """A signature, its smallest finding, and how many were reduced to it. calls: functions called by each of these."""

    signature: Signature
    finding: Finding
    count: int = 1
    calls: set[frozenset[str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.calls.add(calls_of(self.finding.program))

    def add(self, finding: Finding) -> bool:
        """Count one more; whether it is the smallest now."""
        self.count += 1
        self.calls.add(calls_of(finding.program))
        smaller = size(finding.program) < size(self.finding.program)
        if smaller:
            self.finding = finding
        return smaller


@dataclass
class Families:
    """All families of a run, in the order in which they were met."""

    known: dict[Signature, Family] = field(default_factory=dict)

    def add(self, finding: Finding) -> Family | None:
        """Enter a reduced finding; its family if it is the first or the smallest of it."""
        signature = signature_of(finding)
        if signature is None:
            return None
        family = self.known.get(signature)
        if family is None:
            self.known[signature] = Family(signature, finding)
            return self.known[signature]
        return family if family.add(finding) else None

    def covers(self, peer: str, program: Program, foretell: Foretell = lambda _: True) -> bool:
        """Whether a program has all traits of a known wrong gradient of the peer, and calls all that one of its
        findings calls, so that it would show nothing new if it failed. foretell: whether these traits say that it will.
        """
        found, called = traits(program), calls_of(program)
        return any(
            s.peer == peer
            and s.is_wrong_gradient
            and s.traits <= found
            and any(c <= called for c in family.calls)
            and foretell(s.traits)
            for s, family in self.known.items()
        )

    @property
    def wrong_gradients(self) -> list[Family]:
        """Those of wrong numbers."""
        return [f for s, f in self.known.items() if s.is_wrong_gradient]
