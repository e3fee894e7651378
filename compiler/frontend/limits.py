"""How large a kernel may grow: what is unrolled, or has a variable of its own for each entry, takes time to compile.

A kernel of the size that is refused would compile for minutes, or not at all; each refusal says what runs as a loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sized
from itertools import islice
from typing import Any

from .diagnostics import Problem, mistyped

ENTRIES = 1024
"""Of a vector or matrix: each is a variable of the machine."""

ITEMS = 10_000
"""Of what is unrolled at compile time: a static loop, a comprehension, a sequence."""

STATEMENTS = 100_000
"""Of a kernel, before it is optimised."""


def check_entries(shape: tuple[int, ...]) -> None:
    """Raises KernelTypeError for a vector or matrix that is too large."""
    count = math.prod(shape)
    if count > ENTRIES:
        extents = "×".join(map(str, shape))
        raise mistyped(
            f"a {'vector' if len(shape) == 1 else 'matrix'} of {extents} entries is too large: each entry"
            f" is a variable of its own, and a kernel takes at most {ENTRIES} of them together",
            "keep it in a field, and loop over its elements",
        )


def check_items(found: Any) -> None:
    """Raises KernelTypeError for more than can be unrolled."""
    if isinstance(found, Sized) and len(found) > ITEMS:
        raise _too_many(len(found))


def taken(values: Iterable[Any]) -> list[Any]:
    """What a static loop runs over. Raises KernelTypeError for more than can be unrolled, TypeError for no items."""
    check_items(values)
    found = list(islice(iter(values), ITEMS + 1))
    check_items(found)
    return found


def check_count(count: int) -> None:
    """The same, of a number of items that do not exist yet."""
    if count > ITEMS:
        raise _too_many(count)


def _too_many(count: int) -> Problem:
    return mistyped(
        f"{count} items are too many to unroll: a kernel takes at most {ITEMS} at one place",
        "write `for i in range(n)`, a loop that runs at launch, and keep numbers in a field",
    )


def check_size(statements: int) -> None:
    """Raises KernelTypeError if the kernel has grown too large where something is unrolled."""
    if statements > STATEMENTS:
        raise mistyped(
            f"the kernel has grown to {STATEMENTS} statements, and unrolls more here",
            "write `for i in range(n)`, a loop that runs at launch",
        )
