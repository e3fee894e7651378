"""This module lists the allowed strings and numbers in stored plans, verdicts and results of campaign units."""

from __future__ import annotations

from ....compiler.ad.policies import POLICIES
from ..model.dialects import DIALECTS
from ..plain_data import TEXT, AllowedWords, FieldKey, NumberLimits, Schema, matching, one_of
from ..relations import RELATIONS

BACKEND = matching("the name of an executor", "[a-z][a-z0-9-]*")
"""Name of an executor, looked up in the table of backends when it is to run."""
PEER = one_of(sorted(DIALECTS.keys() - {"stackgrad"}))
DIRECTION = matching("a direction", "[a-z]+")
COMPARED = matching("the name of what was compared", r"[A-Za-z][A-Za-z0-9 _.-]*|")
"""Names of executors, relations and exceptions of the harness."""

WORDS: dict[FieldKey, AllowedWords] = {
    ("FuzzPlan", "backends"): BACKEND,
    ("FuzzPlan", "peers"): PEER,
    ("FuzzPlan", "policy"): one_of(("", *POLICIES)),
    ("FuzzPlan", "of_arrays"): one_of(("", *POLICIES)),
    ("FuzzPlan", "only"): COMPARED,
    ("FuzzPlan", "relations"): one_of(RELATIONS),
    ("FuzzPlan", "relate_on"): one_of(("reference", "backends", "both")),
    ("StoredPlan", "failed"): COMPARED,
    ("JudgedComparison", "direction"): DIRECTION,
    ("JudgedComparison", "executor"): COMPARED,
    ("JudgedComparison", "reference"): COMPARED,
    ("JudgedComparison", "reason"): TEXT,
}
LIMITS: dict[FieldKey, NumberLimits] = {
    ("FuzzPlan", "launches"): NumberLimits(1, 8),
    ("FuzzPlan", "effort"): NumberLimits(0, 3),
    ("FuzzPlan", "lanes"): NumberLimits(1, 64),
    ("FuzzPlan", "threads"): NumberLimits(1, 64),
    ("FuzzPlan", "stacks"): NumberLimits(0, 1 << 30),
    ("FuzzPlan", "part"): NumberLimits(0, 1 << 16),
}

SCHEMA = Schema(WORDS, LIMITS)
