"""Strategies: random programs, adstack kernels and kernels of one operation, for seeds and for Hypothesis."""
from __future__ import annotations

from ..model.nodes import Program
from .draw import RandomDraw
from .kernels import Kernels
from .state import SMOOTH, WILD

PROFILES = (SMOOTH, SMOOTH, SMOOTH, WILD)


def sample(seed: int, profile: str | None = None) -> Program:
    """A random program, the same for the same seed. profile: 'smooth', 'wild', or None for a mixture."""
    draw = RandomDraw(f"{profile or ''}{seed}")
    return Kernels(draw, profile or draw.choice(PROFILES)).program()
