"""POLICIES: how the reverse sweep comes by what it reads. All give one gradient; they differ in what they save."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Policy:
    """A lowering of reverse mode.

    recompute: operations and safe loads are executed again instead of being saved; weigh: where that is cheaper, else
    wherever it is possible. sink: values are pushed at the entry of the branch that holds their readers, else where
    they are defined. adjoint_stacks: active locals become adstacks whose slots hold primal and adjoint. arrays: of a
    local array that is overwritten, the elements read are saved, or those overwritten, or what is cheaper. slopes:
    derivatives are values of the forward sweep, which may be saved.
    """

    name: str
    recompute: bool = True
    weigh: bool = True
    sink: bool = True
    adjoint_stacks: bool = False
    arrays: Literal["cheaper", "read", "overwritten"] = "cheaper"
    slopes: bool = True


LOWERINGS = {
    "lean": Policy("lean"),
    "classic": Policy(
        "classic", recompute=False, weigh=False, sink=False, adjoint_stacks=True, arrays="read", slopes=False
    ),
}
"""The default, and its executable twin."""

POLICIES = LOWERINGS | {
    "lean-early": Policy("lean-early", sink=False),
    "greedy": Policy("greedy", weigh=False, arrays="read", slopes=False),
    "restoring": Policy("restoring", arrays="overwritten"),
    "operands": Policy("operands", slopes=False),
    "stored": Policy("stored", recompute=False, weigh=False, arrays="read", slopes=False),
    "stored-early": Policy("stored-early", recompute=False, weigh=False, sink=False, arrays="read", slopes=False),
}
"""Twins for tests: each leaves out one way of not saving a value."""

_default = ["lean"]


def policy_of(name: str) -> Policy:
    """The policy of this name; the default one for an empty name. Raises KeyError."""
    return POLICIES[name or _default[0]]


def set_default(name: str) -> str:
    """From here on, gradients that name no policy are made by this one. Gives the name of the one before. KeyError."""
    before = _default[0]
    _default[0] = POLICIES[name].name
    return before
