"""Names of entries of a vector: `v.x`, `v.xy`, `v.rgb`."""

from __future__ import annotations

ALPHABETS = ("xyzw", "rgba", "stpq", "uvw")
"""Letters that stand for the entries 0, 1, 2, ...; a name mixes no two rows."""


def swizzle(name: str, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The entries that a name means in a vector of this shape; None if it means none."""
    if len(shape) != 1 or not 0 < len(name) <= 4:
        return None
    for letters in ALPHABETS:
        if all(letter in letters for letter in name):
            places = tuple(letters.index(letter) for letter in name)
            return places if max(places) < shape[0] else None
    return None
