"""This module limits how large a kernel may grow, because unrolled code and separate variables take time to compile.

A kernel of a refused size would compile for minutes, or not at all. Each refusal says how to write the code as a loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sized
from itertools import islice
from typing import Any

from .diagnostics import ProblemError, type_problem

ENTRIES = 1024
"""This limit bounds the number of entries of a vector or matrix, because each entry is a variable of the machine."""

ITEMS = 10_000
"""This limit bounds the number of items that are unrolled: of a static loop, a comprehension, or a sequence."""

STATEMENTS = 100_000
"""This limit bounds the number of statements of a kernel before it is optimized."""


def check_entries(shape: tuple[int, ...]) -> None:
    """Raise ProblemError if a vector or matrix of this shape is too large."""
    count = math.prod(shape)
    if count > ENTRIES:
        extents = "×".join(map(str, shape))
        raise type_problem(
            f"a {'vector' if len(shape) == 1 else 'matrix'} of {extents} entries is too large: each entry"
            f" is a variable of its own, and a kernel takes at most {ENTRIES} of them together",
            "keep it in a field, and loop over its elements",
        )


def check_items(found: Any) -> None:
    """Raise ProblemError if an object has more items than can be unrolled."""
    if isinstance(found, Sized) and len(found) > ITEMS:
        raise _too_many(len(found))


def static_items(values: Iterable[Any]) -> list[Any]:
    """Return the items of an iterable, over which a loop is to be unrolled, as a list.

    Raises:
        ProblemError: there are more items than can be unrolled.
        TypeError: the object has no items.
    """
    check_items(values)
    found = list(islice(iter(values), ITEMS + 1))
    check_items(found)
    return found


def check_count(count: int) -> None:
    """Raise ProblemError if `count` exceeds ITEMS, the limit for unrolling."""
    if count > ITEMS:
        raise _too_many(count)


def _too_many(count: int) -> ProblemError:
    return type_problem(
        f"{count} items are too many to unroll: a kernel takes at most {ITEMS} at one place",
        "write `for i in range(n)`, a loop that runs at launch, and keep numbers in a field",
    )


def check_size(statements: int) -> None:
    """Raise ProblemError if `statements` exceeds STATEMENTS, beyond which a kernel may unroll no further code."""
    if statements > STATEMENTS:
        raise type_problem(
            f"the kernel has grown to {STATEMENTS} statements, and unrolls more here",
            "write `for i in range(n)`, a loop that runs at launch",
        )
