"""This module groups findings in peers into families, by peer, kind of failure and traits of the program.

Invariant: a family is represented by its smallest program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from ..fuzz.reduce import program_size, sign_of_judged
from ..fuzz.statistics import Finding
from ..model import Program
from ..model import nodes as m
from ..model.source import definitions
from ..model.walk import walk_program
from ..peers import DIED, HUNG, OVERFLOW
from .traits import TRAITS, traits

LINES = 10
"""Number of lines above which a reduced kernel is too long to show."""


Foretell = Callable[[frozenset[str]], bool]


@dataclass(frozen=True)
class FamilySignature:
    """Represent the properties that findings of one family share: peer, direction, kind of failure, traits.

    Attributes:
        peer: the name of the peer.
        direction: 'forward' or 'reverse'.
        way: 'value' for wrong numbers, else the kind of the trap.
        traits: the traits of the reduced program.
    """

    peer: str
    direction: str
    way: str
    traits: frozenset[str]

    @property
    def is_wrong_gradient(self) -> bool:
        """Return True if the peer returned a gradient, and it is wrong."""
        return self.direction == "reverse" and self.way == "value"

    @property
    def title(self) -> str:
        """Return the peer, direction, kind of failure and traits of the family as one line of text."""
        order = list(TRAITS)
        named = sorted(self.traits, key=lambda t: (order.index(t) if t in order else len(order), t))
        return f"{self.peer}: {_said(self)}: {', '.join(named) or 'no trait'}"


def _said(signature: FamilySignature) -> str:
    numbers = "a wrong gradient" if signature.direction == "reverse" else "wrong values"
    ends = {"value": numbers, DIED: "the process dies", HUNG: "no answer", OVERFLOW: "no room for what is saved"}
    return ends.get(signature.way, f"ends with {signature.way}")


def signature_of(finding: Finding) -> FamilySignature | None:
    """Return the family signature of a finding in a peer, or None if no comparison of the finding failed."""
    sign = sign_of_judged(finding.judged)
    if len(sign) != 3:
        return None
    direction, peer, way = sign
    return FamilySignature(peer, direction, way, traits(finding.program))


def lines_of(program: Program) -> int:
    """Return the number of lines of the functions and the kernel, without decorators."""
    text = definitions(program).splitlines()
    return len([line for line in text if line.strip() and not line.startswith("@")])


@lru_cache(2048)
def calls_of(program: Program) -> frozenset[str]:
    """Return the functions that a program calls."""
    return frozenset(n.function for n in walk_program(program) if isinstance(n, m.Call))


@dataclass
class Family:
    """Represent the findings that share one signature, by the smallest of these findings.

    Attributes:
        signature: the properties that all findings of the family share.
        finding: the finding with the smallest program.
        count: the number of findings that were reduced to this signature.
        calls: the set of called functions of each finding.
    """

    signature: FamilySignature
    finding: Finding
    count: int = 1
    calls: set[frozenset[str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.calls.add(calls_of(self.finding.program))

    def add(self, finding: Finding) -> bool:
        """Count one more finding of the family, and return True if its program is now the family's smallest."""
        self.count += 1
        self.calls.add(calls_of(finding.program))
        smaller = program_size(finding.program) < program_size(self.finding.program)
        if smaller:
            self.finding = finding
        return smaller


@dataclass
class Families:
    """Represent all families of findings of a run, in the order in which they were found."""

    known: dict[FamilySignature, Family] = field(default_factory=dict)

    def add(self, finding: Finding) -> Family | None:
        """Add a reduced finding to its family; return the family if the finding is its new smallest one, else None."""
        signature = signature_of(finding)
        if signature is None:
            return None
        family = self.known.get(signature)
        if family is None:
            self.known[signature] = Family(signature, finding)
            return self.known[signature]
        return family if family.add(finding) else None

    def covers(self, peer: str, program: Program, foretell: Foretell = lambda _: True) -> bool:
        """Return True if a failure of this program would belong to a known family of wrong gradients.

        This holds if the program has all traits of a known wrong gradient of the peer, and calls all functions that one
        of its findings calls.

        Args:
            peer: the name of the peer.
            program: the program that might fail.
            foretell: returns True if programs with these traits are expected to fail.
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
        """Return the families of wrong gradients."""
        return [f for s, f in self.known.items() if s.is_wrong_gradient]
