"""Convert colors between numbers and triples, for programs that compute images."""

from __future__ import annotations

from typing import Any


def hex_to_rgb(color: int) -> tuple[float, float, float]:
    """Return red, green and blue, from 0 to 1, of a color like 0xFF8000."""
    red, green, blue = ((color >> shift & 0xFF) / 255 for shift in (16, 8, 0))
    return red, green, blue


def rgb_to_hex(color: Any) -> Any:
    """Return the number of a color given as a triple: 0xFF8000 for (1.0, 0.5, 0.0).

    Args:
        color: Red, green and blue from 0 to 1; numbers, or arrays of NumPy for many colors at once.
    """
    red, green, blue = (_byte(part) for part in color)
    return (red << 16) + (green << 8) + blue


def _byte(part: Any) -> Any:
    """Return a component of a color, from 0 to 1, as an integer from 0 to 255."""
    if hasattr(part, "astype"):
        return (part * 255).clip(0, 255).astype(int)
    return int(min(max(part * 255, 0), 255))
