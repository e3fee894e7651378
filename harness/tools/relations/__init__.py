"""This package defines relations: equations that the results of two launches on one executor must satisfy.

No relation knows a right result. Each changes a launch (seeds, loops, order, types, number of launches) in a way whose
effect on the results is known. So relations can also show a mistake that every executor makes alike.
"""

from __future__ import annotations

STRAY = "stray"
"""Name of the relation that moves an index outside."""
RELATIONS = ("linear", "loop-split", "permuted", "widened", "kernel-split", STRAY)
"""Names of the relations, which are also names of comparisons; `table` has a row for each."""
