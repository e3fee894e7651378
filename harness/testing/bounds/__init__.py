"""This package computes running error bounds; two executors agree if rounding can explain their difference.

`run_bounded` executes a kernel on the reference with an error beside each value; `judge` compares results within these
errors. docs/error_bounds.md describes the model.
"""

from __future__ import annotations

from .histogram import histogram
from .interpret import BoundedResult, run_bounded
from .judge import DECIDABLE, ArrayVerdict, judge, overall, undecided
from .machine import BoundedKernel

__all__ = [
    "DECIDABLE",
    "BoundedResult",
    "BoundedKernel",
    "ArrayVerdict",
    "histogram",
    "judge",
    "overall",
    "run_bounded",
    "undecided",
]
