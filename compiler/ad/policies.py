"""This module lists the policies, which decide what the reverse sweep saves and what it recomputes.

All policies give the same gradient. They differ in what they save.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Policy:
    """Represent a named set of choices that a plan may make.

    Attributes:
        name: Name of the policy.
        recompute: True if operations and loads not at risk are executed again instead of being saved.
        weigh: True if values are recomputed where this is cheaper than saving; else wherever it is possible.
        sink: True if values are pushed at the entry of the branch that holds their readers; else where they are
            defined.
        adjoint_stacks: True if active locals become adstacks whose slots hold primal and adjoint.
        arrays: For a local array that is overwritten: save the elements that are read, those that are overwritten, or
        whichever is cheaper.
        slopes: True if derivatives are values of the forward sweep, which may be saved.
        segment: The number of trips after which a loop keeps its state, and makes the values between again; 0 to keep
            the values of all trips.
    """

    name: str
    recompute: bool = True
    weigh: bool = True
    sink: bool = True
    adjoint_stacks: bool = False
    arrays: Literal["cheaper", "read", "overwritten"] = "cheaper"
    slopes: bool = True
    segment: int = 0


LOWERINGS = {
    "lean": Policy("lean"),
    "classic": Policy(
        "classic", recompute=False, weigh=False, sink=False, adjoint_stacks=True, arrays="read", slopes=False
    ),
}
"""The default policy, and the classic lowering, which computes the same gradient in an independent way."""

POLICIES = LOWERINGS | {
    "lean-early": Policy("lean-early", sink=False),
    "greedy": Policy("greedy", weigh=False, arrays="read", slopes=False),
    "restoring": Policy("restoring", arrays="overwritten"),
    "operands": Policy("operands", slopes=False),
    "checkpoints": Policy("checkpoints", segment=3),
    "stored": Policy("stored", recompute=False, weigh=False, arrays="read", slopes=False),
    "stored-early": Policy("stored-early", recompute=False, weigh=False, sink=False, arrays="read", slopes=False),
}
"""All policies. Those beyond `LOWERINGS` serve tests: each leaves out one way of not saving a value."""

_default = ["lean"]


def policy_of(name: str) -> Policy:
    """Return the policy with this name; an empty name means the default policy.

    Raises:
        KeyError: There is no policy with this name.
    """
    return POLICIES[name or _default[0]]


def set_default(name: str) -> str:
    """Make the named policy the default for gradients that name no policy. Return the name of the default before.

    Raises:
        KeyError: There is no policy with this name.
    """
    before = _default[0]
    _default[0] = POLICIES[name].name
    return before
