"""This module names the parameters that the compiler adds to a kernel for an array, and shows them in messages.

    x  →  $x.marks0  →  x

The first arrow is `added_name`, the second is `shown_name`.
"""

from __future__ import annotations


def added_name(array: str, purpose: str) -> str:
    """Return the name of the parameter that the compiler adds for an array; no user's name contains a `$`."""
    return f"${array.lstrip('$')}.{purpose}"


def shown_name(name: str) -> str:
    """Return the name of an array in messages: for an added parameter that of the user's array, else its own."""
    return name[1:].rpartition(".")[0] or name[1:] if name.startswith("$") else name
