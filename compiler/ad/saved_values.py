"""This module chooses which of the values that the reverse sweep requires are saved on adstacks.

The cheapest choice is a minimum cut. Each value v has two nodes: `wanted` (the reverse sweep or a recomputation reads
v) and `again` (v is recomputed).

    source -> wanted(v)     v is required                    never cut
    wanted(v) -> again(v)   price of saving v
    again(v) -> sink        cost of recomputing v; never cut if v cannot be recomputed
    again(v) -> wanted(u)   v is computed from u             never cut

The source's side of the cut holds the values that are wanted and the values that are recomputed. A value that is wanted
and not recomputed is saved. So if several values are computed from one value that was lost, that value is saved; one
bit is saved rather than a number; and a long chain of expensive operations is not repeated.
"""

from __future__ import annotations

from ..ir.statement import Value
from .min_cut import NEVER, Network
from .sources import ValueSources

LARGE = 6000
"""Largest number of values for which the cut is computed: its time grows faster than that of all other passes."""


def choose(sources: ValueSources, required: set[Value]) -> list[Value]:
    """Return the values to save at the least estimated cost, in order of definition.

    Args:
        sources: The ways in which the values of a task can be had without being saved.
        required: The values that the reverse sweep reads.
    """
    saved = choose_in_order(sources, required)
    if not sources.policy.weigh:
        return saved
    involved = _involved(sources, required)
    if len(involved) > LARGE or _cannot_be_cheaper(sources, required, saved, involved):
        return saved
    chosen = _cheapest(sources, required, involved)
    return [v for v in sources.structure.made if v in chosen]


def choose_in_order(sources: ValueSources, required: set[Value]) -> list[Value]:
    """Return the required values that cannot be recomputed from values before them, in order of definition."""
    available: set[Value] = set(sources.structure.task.indices)
    saved = []
    for value in sources.structure.made:
        again = sources.is_recomputable(value) and all(
            v in available or sources.is_free(v) for v in sources.inputs(value)
        )
        if again or sources.is_free(value) or sources.is_kept(value):
            available.add(value)
        elif value in required:
            saved.append(value)
            available.add(value)
    return saved


def _involved(sources: ValueSources, required: set[Value]) -> list[Value]:
    """Return the required values and their inputs, transitively, without free and kept values."""
    found: dict[Value, None] = {}
    pending = list(required)
    while pending:
        value = pending.pop()
        known = value in found or value not in sources.structure.made
        if known or sources.is_free(value) or sources.is_kept(value):
            continue
        found[value] = None
        if sources.is_recomputable(value):
            pending += sources.inputs(value)
    return list(found)


def _cannot_be_cheaper(sources: ValueSources, required: set[Value], saved: list[Value], involved: list[Value]) -> bool:
    """Return True if no choice of a minimum cut can cost less than saving the values in `saved`.

    This is so if all values in `saved` must be saved, and recomputing all others costs less than saving any of them.
    """
    if any(v not in required or sources.is_recomputable(v) for v in saved):
        return False
    rest = [v for v in involved if v not in saved]
    return sum(map(sources.cost, rest)) <= min(map(sources.price, rest), default=0)


def _cheapest(sources: ValueSources, required: set[Value], involved: list[Value]) -> set[Value]:
    """Return the set of values to save that a minimum cut chooses."""
    # Node 0 is the source, node 1 the sink. The node `again` of a value follows its node `wanted`.
    wanted = {v: 2 + 2 * k for k, v in enumerate(involved)}
    network = Network(2 + 2 * len(involved))
    for value, node in wanted.items():
        again = sources.is_recomputable(value)
        if value in required:
            network.add(0, node, NEVER)
        network.add(node, node + 1, sources.price(value))
        network.add(node + 1, 1, sources.cost(value) if again else NEVER)
        for source in sources.inputs(value) if again else ():
            if source in wanted:
                network.add(node + 1, wanted[source], NEVER)
    side = network.source_side(0, 1)
    return {v for v, node in wanted.items() if node in side and node + 1 not in side}
