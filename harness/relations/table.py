"""The relations by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..fuzz.result import Judged
from . import launches, loops, order, seeds, stray, widths
from .chain import Chain, On

Relation = Callable[[Chain, On, int, bool], Iterator[Judged]]
"""Checks a chain of one kernel on an executor. The number draws among what there is to change; the last argument says
whether to compare values too, not only gradients. Yields nothing where the relation has nothing to say.
"""

TABLE: Mapping[str, Relation] = {
    "linear": seeds.check,
    "loop-split": loops.check,
    "permuted": order.check,
    "widened": widths.check,
    "kernel-split": launches.check,
    "stray": stray.check,
}
"""Every relation by name."""
