"""How a value may be had in the reverse sweep without being saved, and what that costs.

free        constants, arguments, shapes; the index of an enclosing loop, which the reversed loop has again
kept        defined outside serial loops: a register that outlives the forward sweep
recomputed  an operation, a load not at risk, a counter, or a read of a local that finds the same again, from its
            inputs
"""

from __future__ import annotations

from collections.abc import Collection

from ..ir import nodes as n
from ..ir.nodes import Value
from ..ir.ops import OPS
from ..ir.types import Scalar
from ..ir.walk import operands
from .counters import find_counters
from .elements import Elements, Place
from .policies import Policy
from .structure import Path, Structure

RECOMPUTED = (n.Op, n.Cast, n.BitCast)
FREE = (n.Const, n.Arg, n.Shape)
LOAD = 4
"""Cost of a load, in additions."""
PUSH, BYTE = 16, 4
"""Price of saving a value, in additions: of a push and a pop, and of each byte of it."""


class Sources:
    """Lookups over one task.

    at_risk: results of loads whose memory may be overwritten after them. repeated: reads of locals that are taken to
    find the same at each of their readers, see `elements`.
    """

    def __init__(self, structure: Structure, at_risk: set[Value], policy: Policy) -> None:
        self.structure = structure
        self.at_risk = at_risk
        self.policy = policy
        self.elements = Elements(structure)
        self.repeated: set[Value] = set()
        self.counters = find_counters(structure) if policy.recompute else {}

    def is_free(self, value: Value) -> bool:
        return isinstance(self.structure.made.get(value), FREE) or self.structure.is_index(value)

    def is_kept(self, value: Value) -> bool:
        return self.structure.depth(self.structure.homes[value]) == 0

    def is_recomputable(self, value: Value) -> bool:
        """Whether it can be made again from its inputs."""
        stmt = self.structure.made[value]
        safe_load = isinstance(stmt, n.Load) and value not in self.at_risk
        again = isinstance(stmt, RECOMPUTED) or safe_load or value in self.elements.lasting or value in self.counters
        return value in self.repeated or self.policy.recompute and again

    def inputs(self, value: Value) -> tuple[Value, ...]:
        """What it is made again from."""
        counter = self.counters.get(value)
        return counter.inputs(self.structure) if counter else operands(self.structure.made[value])

    # -- costs, in additions --------------------------------------------------------------------------------------

    def cost(self, value: Value) -> int:
        """Of making it again, once for each execution of its block."""
        stmt = self.structure.made[value]
        own = OPS[stmt.op].cost if isinstance(stmt, n.Op) else LOAD if isinstance(stmt, n.Load) else 1
        return own * self._weight(value)

    def price(self, value: Value) -> int:
        """Of saving it."""
        return price(value.type) * self._weight(value)

    def _weight(self, value: Value) -> int:
        return weight(self.structure, self.structure.homes[value])

    def price_of_restoring(self, places: Collection[Place]) -> int:
        """Of saving what each of these writes to local arrays replaces."""
        return sum(self._price_of_element(path, position) for path, position in places)

    def _price_of_element(self, path: Path, position: int) -> int:
        stmt = self.structure.blocks[path][position]
        assert isinstance(stmt, n.SetElement)
        return price(stmt.value.type) * weight(self.structure, path)


def price(dtype: Scalar) -> int:
    """Of one push and pop."""
    return int(PUSH + BYTE * (0.25 if dtype.is_bool else dtype.bits / 8))


def weight(structure: Structure, path: Path) -> int:
    """How often a block is taken to run: loops eight times."""
    return 1 << 3 * min(structure.depth(path), 6)
