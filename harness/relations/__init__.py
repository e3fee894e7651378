"""Relations: checks that one executor alone must pass, since two launches of it are bound to each other.

No relation knows a right result. Each changes what is launched (seeds, loops, order, types, number of launches) in a
way of which it is known what it does to the results, so what is wrong in every executor alike can be seen too.
"""

from __future__ import annotations

RELATIONS = ("linear", "loop-split", "permuted", "widened", "kernel-split", "stray")
"""Their names, which are those of comparisons; `table` has a row for each."""
