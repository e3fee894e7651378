"""This module lists the allowed words and numbers of stored plans, verdicts and results of campaign units."""

from __future__ import annotations

from ....compiler.ad.policies import POLICIES
from ..model.dialects import DIALECTS
from ..plain_data import TEXT, Key, Limits, Schema, Words, matching, one_of
from ..relations import RELATIONS

BACKEND = matching("the name of an executor", "[a-z][a-z0-9-]*")
"""Name of an executor, looked up in the table of backends when it is to run."""
PEER = one_of(sorted(DIALECTS.keys() - {"stackgrad"}))
DIRECTION = matching("a direction", "[a-z]+")
COMPARED = matching("the name of what was compared", r"[A-Za-z][A-Za-z0-9 _.-]*|")
"""Names of executors, relations and exceptions of the harness."""

WORDS: dict[Key, Words] = {
    ("Plan", "backends"): BACKEND,
    ("Plan", "peers"): PEER,
    ("Plan", "policy"): one_of(("", *POLICIES)),
    ("Plan", "of_arrays"): one_of(("", *POLICIES)),
    ("Plan", "only"): COMPARED,
    ("Plan", "relations"): one_of(RELATIONS),
    ("Plan", "relate_on"): one_of(("reference", "backends", "both")),
    ("Stored", "failed"): COMPARED,
    ("Judged", "direction"): DIRECTION,
    ("Judged", "executor"): COMPARED,
    ("Judged", "reference"): COMPARED,
    ("Judged", "reason"): TEXT,
}
LIMITS: dict[Key, Limits] = {
    ("Plan", "launches"): Limits(1, 8),
    ("Plan", "effort"): Limits(0, 3),
    ("Plan", "lanes"): Limits(1, 64),
    ("Plan", "threads"): Limits(1, 64),
    ("Plan", "stacks"): Limits(0, 1 << 30),
    ("Plan", "part"): Limits(0, 1 << 16),
}

SCHEMA = Schema(WORDS, LIMITS)
