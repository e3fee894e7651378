"""This package contains the catalogue of small kernels on which mistakes of the compiler show, with data for tests.

`entry.py` says what an entry holds and has the questions that tests ask. The other modules hold the kernels by topic.
"""

from __future__ import annotations

from . import atomics, control_flow, local_arrays, locals_and_values, memory
from .entry import CONTENT, ENTRIES, Arrays, Entry, differentiable, fields, with_rule, witness, witnessed

__all__ = ["CONTENT", "ENTRIES", "Arrays", "Entry", "differentiable", "fields", "with_rule", "witness", "witnessed"]
TOPICS = (locals_and_values, control_flow, memory, atomics, local_arrays)
"""The modules that enter kernels."""
