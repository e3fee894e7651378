"""Fills the table: importing this module adds all rows, in the order of the page."""
from __future__ import annotations

import loop_shapes_bounds  # noqa: F401
import loop_shapes_control  # noqa: F401
import loop_shapes_nests  # noqa: F401
import value_shapes_locals  # noqa: F401
import memory_shapes_atomics  # noqa: F401
import memory_shapes_state  # noqa: F401
import value_shapes_vectors  # noqa: F401
