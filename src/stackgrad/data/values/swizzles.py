"""Translate swizzle names such as `v.x`, `v.xy` and `v.rgb` to indices of vector entries."""

from __future__ import annotations

ALPHABETS = ("xyzw", "rgba", "stpq", "uvw")
"""Letters that stand for the entries 0, 1, 2, ...; a name takes all its letters from one of these texts."""


def swizzle(name: str, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the indices of the vector entries that a swizzle name selects, or None if the name is no swizzle."""
    if len(shape) != 1 or not 0 < len(name) <= 4:
        return None
    for letters in ALPHABETS:
        if all(letter in letters for letter in name):
            places = tuple(letters.index(letter) for letter in name)
            return places if max(places) < shape[0] else None
    return None
