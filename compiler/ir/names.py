"""This module names the array parameters that the compiler adds to a kernel, such as `$x.marks0` for an array `x`.

    x  →  $x.marks0  →  x

The first arrow is `added_name`, the second is `shown_name`.
"""

from __future__ import annotations


def added_name(array: str, purpose: str) -> str:
    """Return the name of the parameter that the compiler adds for an array, such as `$x.marks0`."""
    return f"${array.lstrip('$')}.{purpose}"


def shown_name(name: str) -> str:
    """Return the name that messages show for an array: an added parameter is shown as the user's array."""
    return name[1:].rpartition(".")[0] or name[1:] if name.startswith("$") else name
