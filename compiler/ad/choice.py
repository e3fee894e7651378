"""Which of the required values are saved.

The cheapest choice is a minimum cut. Each value v has two nodes: `wanted` (it is read by the reverse sweep, or by a
recomputation) and `again` (it is recomputed).

    source -> wanted(v)     v is required                    never cut
    wanted(v) -> again(v)   price of saving v
    again(v) -> sink        cost of recomputing v; never cut if it cannot be
    again(v) -> wanted(u)   v is computed from u             never cut

On the source's side of the cut lie what is wanted and what is recomputed; what is wanted and not recomputed is saved.
So several values computed from one that was lost are had by saving that one, a bit is saved rather than a number, and
a long chain of expensive operations is not repeated.
"""

from __future__ import annotations

from ..ir.nodes import Value
from .min_cut import NEVER, Network
from .sources import Sources

LARGE = 6000
"""Values beyond which the cut is not looked for: its time grows faster than that of all other passes."""


def choose(sources: Sources, required: set[Value]) -> list[Value]:
    """The values to save, in order of definition."""
    saved = choose_in_order(sources, required)
    if not sources.policy.weigh:
        return saved
    involved = _involved(sources, required)
    if len(involved) > LARGE or _cannot_be_cheaper(sources, required, saved, involved):
        return saved
    chosen = _cheapest(sources, required, involved)
    return [v for v in sources.structure.made if v in chosen]


def choose_in_order(sources: Sources, required: set[Value]) -> list[Value]:
    """Each required value that is not available by then, given what is saved before it."""
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


def _involved(sources: Sources, required: set[Value]) -> list[Value]:
    """Required values and what they are computed from, without what costs nothing."""
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


def _cannot_be_cheaper(sources: Sources, required: set[Value], saved: list[Value], involved: list[Value]) -> bool:
    """Whether only what must be saved is saved, and recomputing the rest costs less than saving anything."""
    if any(v not in required or sources.is_recomputable(v) for v in saved):
        return False
    rest = [v for v in involved if v not in saved]
    return sum(map(sources.cost, rest)) <= min(map(sources.price, rest), default=0)


def _cheapest(sources: Sources, required: set[Value], involved: list[Value]) -> set[Value]:
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
