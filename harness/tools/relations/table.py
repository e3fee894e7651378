"""This module contains the table of all relations: the function that checks each relation, by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..fuzz.result import JudgedComparison
from . import launches, loops, order, out_of_bounds, seeds, widths
from .chain import LaunchChain, RelationExecutor

Relation = Callable[[LaunchChain, RelationExecutor, int, bool], Iterator[JudgedComparison]]
"""A function that checks a chain of one kernel on an executor.

The number selects the part that is changed. The last argument is True to compare values too, and not only gradients.
The function yields nothing if the relation does not apply.
"""

TABLE: Mapping[str, Relation] = {
    "linear": seeds.check,
    "loop-split": loops.check,
    "permuted": order.check,
    "widened": widths.check,
    "kernel-split": launches.check,
    "stray": out_of_bounds.check,
}
"""Every relation by name."""
