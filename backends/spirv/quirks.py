"""Quirks: what drivers get wrong, or may, so that shaders for them go around it."""

from __future__ import annotations

from dataclasses import dataclass

NESTING, MOST_NESTING = 48, 72
"""How deep shaders for a driver with `shallow` nest where they can help it; and how deep it follows for sure."""

NVIDIA = 0x10DE
"""Its number among vendors."""


@dataclass(frozen=True)
class Quirks:
    """loop_limit: all loops of a shader are left after some number of trips in all, and no one is told.
    known_zeros, known_factors, known_trips: what is known of an operand, or of the trips of a loop, leads to wrong
    results, see hiding.py. flushes: subnormal numbers of f32 may be taken for zeros, see subnormals.py. shallow:
    conditions that nest deeper than a table of the driver (80 in lavapipe, of which a shader of ours takes some for
    itself) are left out without a word.
    """

    loop_limit: bool = False
    known_zeros: bool = False
    known_factors: bool = False
    known_trips: bool = False
    flushes: bool = False
    shallow: bool = False


def quirks_of(name: str, vendor: int, modes: tuple[tuple[str, int], ...]) -> Quirks:
    """Those of a device of this name. modes: float controls that it has."""
    if "llvmpipe" in name:
        return Quirks(loop_limit=True, known_zeros=True, shallow=True)
    nvidia = vendor == NVIDIA
    return Quirks(known_factors=nvidia, known_trips=nvidia, flushes=("DenormPreserve", 32) not in modes)
