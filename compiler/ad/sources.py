"""This module finds how the reverse sweep can get a value without saving it, and at which cost.

    free        constants, arguments, shapes; the index of an enclosing loop, which the reversed loop has again
    kept        values defined outside serial loops: a register that outlives the forward sweep
    recomputed  an operation, a load not at risk, an induction variable, or a read of a local that finds the same
                value again, computed from its inputs

Costs and prices are counted in additions.
"""

from __future__ import annotations

from collections.abc import Collection

from ..ir import nodes as n
from ..ir.ops import OPS
from ..ir.roles import CONSTANTS
from ..ir.statement import Value
from ..ir.types import Scalar
from ..ir.walk import operands
from .induction_variables import find_counters
from .policies import Policy
from .repeatable_reads import LocalAccesses, PathPlace
from .structure import BlockPath, Structure

RECOMPUTED = (n.Op, n.Cast, n.BitCast, n.Within)
"""Statements whose results follow from their operands."""
FREE = CONSTANTS
"""Statements whose results can be had again at no cost."""
LOAD = 4
"""Cost of a load, in additions."""
PUSH, BYTE = 16, 4
"""Price of saving a value, in additions: PUSH for a push with its pop, and BYTE for each byte of the value."""


class ValueSources:
    """Represent the ways to get each value of one task in the reverse sweep without saving it.

    Attributes:
        structure: The structure of the task.
        at_risk: Results of loads whose memory may be overwritten after the load.
        policy: The choices that a plan may make.
        elements: The reads and writes of locals, as `LocalAccesses`.
        repeated: Results of reads of locals that the reverse sweep may repeat, because they are assumed to find the
            same value there.
        counters: The induction variables of the task.
    """

    def __init__(self, structure: Structure, at_risk: set[Value], policy: Policy) -> None:
        self.structure = structure
        self.at_risk = at_risk
        self.policy = policy
        self.elements = LocalAccesses(structure)
        self.repeated: set[Value] = set()
        self.counters = find_counters(structure) if policy.recompute else {}

    def is_free(self, value: Value) -> bool:
        """Return True if the reverse sweep can use the value without saving or computing it, such as a constant."""
        return isinstance(self.structure.made.get(value), FREE) or self.structure.is_index(value)

    def is_kept(self, value: Value) -> bool:
        """Return True if the value is defined outside of serial loops, so that a register can keep it."""
        return self.structure.depth(self.structure.homes[value]) == 0

    def is_recomputable(self, value: Value) -> bool:
        """Return True if the value can be computed again from its inputs."""
        stmt = self.structure.made[value]
        safe_load = isinstance(stmt, n.Load) and value not in self.at_risk
        again = isinstance(stmt, RECOMPUTED) or safe_load or value in self.elements.lasting or value in self.counters
        return value in self.repeated or self.policy.recompute and again

    def inputs(self, value: Value) -> tuple[Value, ...]:
        """Return the values from which a value is computed again."""
        counter = self.counters.get(value)
        return counter.inputs(self.structure) if counter else operands(self.structure.made[value])

    # -- costs, in additions --------------------------------------------------------------------------------------

    def cost(self, value: Value) -> int:
        """Return the cost of recomputing a value once for each execution of its block, in additions."""
        stmt = self.structure.made[value]
        own = OPS[stmt.op].cost if isinstance(stmt, n.Op) else LOAD if isinstance(stmt, n.Load) else 1
        return own * self._weight(value)

    def price(self, value: Value) -> int:
        """Return the price of saving a value on an adstack, in units of one addition."""
        return price(value.type) * self._weight(value)

    def _weight(self, value: Value) -> int:
        """Return the assumed number of executions of the block that defines the value."""
        return weight(self.structure, self.structure.homes[value])

    def price_of_restoring(self, places: Collection[PathPlace]) -> int:
        """Return the price of saving the elements that the given writes to local arrays overwrite, in additions."""
        return sum(self._price_of_element(path, position) for path, position in places)

    def _price_of_element(self, path: BlockPath, position: int) -> int:
        """Return the price of saving the element that one write to a local array overwrites."""
        stmt = self.structure.blocks[path][position]
        assert isinstance(stmt, n.SetElement)
        return price(stmt.value.type) * weight(self.structure, path)


def price(dtype: Scalar) -> int:
    """Return the price of one push and pop of a value of this type, in additions."""
    return int(PUSH + BYTE * (0.25 if dtype.is_bool else dtype.bits / 8))


def weight(structure: Structure, path: BlockPath) -> int:
    """Return the assumed number of executions of a block, which is 8^d for d <= 6 loops around it."""
    return 1 << 3 * min(structure.depth(path), 6)
