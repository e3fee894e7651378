"""Fill the table of shapes: the import of this module adds all rows in the order of the page."""

# ruff: noqa: F401, I001 - the order of the page
from __future__ import annotations

import loop_shapes_while
import loop_shapes_exits
import loop_shapes_bounds
import loop_shapes_indices
import loop_shapes_nests
import value_shapes_locals
import value_shapes_decisions
import value_shapes_counters
import value_shapes_functions
import value_shapes_vectors
import memory_shapes_state
import memory_shapes_serial
import memory_shapes_dependences
import memory_shapes_atomics
