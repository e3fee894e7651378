"""List the quirks of drivers: defects that shaders for them avoid."""

from __future__ import annotations

from dataclasses import dataclass

NESTING, MOST_NESTING = 48, 72
"""How deep shaders for a `shallow` driver nest where branches can be flattened, and how deep they may nest at most."""

NVIDIA = 0x10DE
"""The number of NVIDIA among vendors of devices."""


@dataclass(frozen=True)
class Quirks:
    """List the driver defects of one device for which generated code has a workaround.

    Attributes:
        loop_limit: all loops of a shader are left after some number of trips in all, without an error
        known_zeros: what the driver knows of zeros leads to wrong results (opaque_values.py)
        known_factors: what the driver knows of factors leads to wrong results (opaque_values.py)
        known_trips: what the driver knows of the trips of a loop leads to wrong results (opaque_values.py)
        flushes: subnormal numbers of f32 may be taken for zeros (subnormals.py)
        coarse: Trunc and RoundEven of f64 lose the sign of zeros, break ties toward zero, and round no number above
            2^31; lavapipe does so on processors without AVX-512
        shallow: conditions that nest deeper than a table of the driver are left out without an error; lavapipe has 80
            entries, of which a shader itself takes some
    """

    loop_limit: bool = False
    known_zeros: bool = False
    known_factors: bool = False
    known_trips: bool = False
    flushes: bool = False
    coarse: bool = False
    shallow: bool = False


def quirks_of(name: str, vendor: int, modes: tuple[tuple[str, int], ...]) -> Quirks:
    """Return the quirks of the device with this name, vendor and float controls.

    Args:
        name: name of the device
        vendor: number of its vendor
        modes: float controls that the device has
    """
    if "llvmpipe" in name:
        return Quirks(loop_limit=True, known_zeros=True, coarse=True, shallow=True)
    nvidia = vendor == NVIDIA
    return Quirks(known_factors=nvidia, known_trips=nvidia, flushes=("DenormPreserve", 32) not in modes)
