"""Which device is taken for one with quirks."""

from __future__ import annotations

import pytest
from stackgrad.backends.spirv.quirks import NVIDIA, Quirks, quirks_of

KEEPS = (("SignedZeroInfNanPreserve", 32), ("DenormPreserve", 32))


@pytest.mark.parametrize(
    ("name", "vendor", "modes", "expected"),
    [
        (
            "llvmpipe (LLVM 15.0.6, 256 bits)",
            0x10005,
            (),
            Quirks(loop_limit=True, known_zeros=True, coarse=True, shallow=True),
        ),
        (
            "NVIDIA H200",
            NVIDIA,
            (("SignedZeroInfNanPreserve", 32),),
            Quirks(known_factors=True, known_trips=True, flushes=True),
        ),
        ("another of that vendor", NVIDIA, KEEPS, Quirks(known_factors=True, known_trips=True)),
        ("another device", 0x1002, KEEPS, Quirks()),
        ("one that promises nothing", 0x1002, (("DenormPreserve", 64),), Quirks(flushes=True)),
    ],
)
def test_by_name_vendor_and_promises(
    name: str, vendor: int, modes: tuple[tuple[str, int], ...], expected: Quirks
) -> None:
    assert quirks_of(name, vendor, modes) == expected
