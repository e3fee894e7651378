"""Compare two chains of launches that must have the same values and gradients on one executor, by a relation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....compiler.errors import NotDifferentiable, Unsupported
from ...testing.outcome import TrapOutcome, attempt, one_line
from ..fuzz.result import JudgedComparison
from .chain import LaunchChain, RelationExecutor
from .judging import RelationQuestion


@dataclass(frozen=True)
class ChainPair:
    """Represent two chains of launches whose results must be equal because of a relation.

    Attributes:
        relation: Name of the relation.
        chain: The original launches.
        other: The changed launches.
        lenient: Kinds of traps of the changed launches that are no disagreement.
    """

    relation: str
    chain: LaunchChain
    other: LaunchChain
    lenient: frozenset[str] = frozenset()

    def compare(
        self, on: RelationExecutor, forward: bool, there: RelationExecutor | None = None, bits: bool = False
    ) -> Iterator[JudgedComparison]:
        """Yield the verdicts on the equality of the gradients of both chains and, if `forward`, of their values.

        Args:
            on: The executor of the original chain.
            forward: True to compare values too.
            there: The executor of the changed chain; None for the same.
            bits: True if values must be equal to the last bit.
        """
        if forward:
            yield self._values(on, there or on, bits)
        if self.chain.seeds:
            yield self._gradients(on, there or on)

    def _values(self, on: RelationExecutor, there: RelationExecutor, bits: bool) -> JudgedComparison:
        question = RelationQuestion("forward", self.relation, on.name)
        left, right = attempt(lambda: self.chain.forward(on)), attempt(lambda: self.other.forward(there))
        if isinstance(right, TrapOutcome) and right.kind in self.lenient:
            return question.answer("undecided", f"changed, it ends with {right}")
        return question.compare(left, right, (lambda: self.chain.bounds[-1], lambda: self.other.bounds[-1]), bits)

    def _gradients(self, on: RelationExecutor, there: RelationExecutor) -> JudgedComparison:
        question = RelationQuestion("reverse", self.relation, on.name)
        chain, other = self.chain, self.other
        ended = attempt(lambda: other.states[-1])
        if isinstance(ended, TrapOutcome) and ended.kind in self.lenient:
            return question.answer("undecided", f"changed, it ends with {ended}")
        refusal = other.refusal()
        if refusal is not None:
            known = isinstance(refusal, NotDifferentiable | Unsupported)
            return question.answer("refused" if known else "disagree", f"changed: {one_line(refusal)}")
        left = attempt(lambda: chain.gradient(on, chain.seeds))
        right = attempt(lambda: other.gradient(there, other.seeds))
        measured = (lambda: chain.gradient_bounds(chain.seeds), lambda: other.gradient_bounds(other.seeds))
        return question.compare(left, right, measured)
