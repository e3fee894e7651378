"""Names of what the compiler adds to a kernel for an array, and what messages call it.

x  →  $x.marks0  →  x
"""

from __future__ import annotations


def added(array: str, purpose: str) -> str:
    """The parameter that the compiler adds for an array. No user's name has a `$`."""
    return f"${array.lstrip('$')}.{purpose}"


def shown(name: str) -> str:
    """What a message calls an array: the one that the compiler added it for; a user's own name as it is."""
    return name[1:].rpartition(".")[0] or name[1:] if name.startswith("$") else name
