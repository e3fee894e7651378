"""Quirks: what drivers get wrong, or may, so that shaders for them go around it."""
from __future__ import annotations

from dataclasses import dataclass

NVIDIA = 0x10DE
"""Its number among vendors."""


@dataclass(frozen=True)
class Quirks:
    """loop_limit: all loops of a shader are left after some number of trips in all, and no one is told.
    known_zeros, known_factors, known_trips: what is known of an operand, or of the trips of a loop, leads to wrong
    results, see hiding.py. flushes: subnormal numbers of f32 may be taken for zeros, see subnormals.py.
    """

    loop_limit: bool = False
    known_zeros: bool = False
    known_factors: bool = False
    known_trips: bool = False
    flushes: bool = False


def quirks_of(name: str, vendor: int, modes: tuple[tuple[str, int], ...]) -> Quirks:
    """Those of a device of this name. modes: float controls that it has."""
    if "llvmpipe" in name:
        return Quirks(loop_limit=True, known_zeros=True)
    nvidia = vendor == NVIDIA
    return Quirks(known_factors=nvidia, known_trips=nvidia, flushes=("DenormPreserve", 32) not in modes)
