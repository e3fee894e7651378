"""This package draws random programs, adstack kernels and single-operation kernels, from seeds or by Hypothesis.

`sample`, `sample_adstacks` and `sample_single_op` need only Python's random generator. `programs`, `adstack_kernels`
and `single_op_kernels` are Hypothesis strategies over the same generators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ..model.nodes import Program
from .adstacks import draw_adstacks
from .alterations import alter_program
from .draw import Chooser, HypothesisChooser, RandomChooser
from .kernels import Kernels
from .operations import OPERATIONS, draw_operations
from .raw import RawCase
from .shapes import SHAPES, coverage, coverage_table, shapes
from .single_ops import draw_case, edge_cases
from .state import SMOOTH, WILD

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = [
    "OPERATIONS",
    "SHAPES",
    "SMOOTH",
    "WILD",
    "RawCase",
    "adstack_kernels",
    "coverage",
    "coverage_table",
    "edge_cases",
    "programs",
    "sample",
    "sample_adstacks",
    "sample_single_op",
    "shapes",
    "single_op_kernels",
]

T = TypeVar("T")
PROFILES = (*(SMOOTH,) * 5, WILD, *(SMOOTH,) * 5, WILD, OPERATIONS, *(SMOOTH,) * 2, WILD)
"""The mixture of profiles from which a program is drawn if no profile is asked for."""


def draw_program(draw: Chooser, profile: str | None = None) -> Program:
    """Return a random program of the profile `profile`, or of a random profile if it is None.

    Args:
        draw: Source of the random choices.
        profile: 'smooth', 'wild' or 'operations'; None draws from the mixture PROFILES.
    """
    chosen = profile or draw.choice(PROFILES)
    if chosen == OPERATIONS:
        return draw_operations(draw)
    kernels = Kernels(draw, chosen)
    return alter_program(draw, kernels.program(), kernels.kinds)


def sample(seed: int, profile: str | None = None) -> Program:
    """Return a random program, which is the same for the same seed and profile."""
    return draw_program(RandomChooser(f"{profile or ''}{seed}"), profile)


def sample_adstacks(seed: int) -> RawCase:
    """Return a random kernel that itself pushes to and pops from adstacks; it is the same for the same seed."""
    return draw_adstacks(RandomChooser(seed))


def sample_single_op(seed: int) -> RawCase:
    """Return a random kernel of one operation on a few operands; it is the same for the same seed."""
    return draw_case(RandomChooser(seed))


def _strategy(generate: Callable[[Chooser], T]) -> SearchStrategy[T]:
    from hypothesis import strategies

    @strategies.composite
    def made(draw: Callable[..., object]) -> T:
        return generate(HypothesisChooser(draw))

    return made()


def programs(profile: str | None = None) -> SearchStrategy[Program]:
    """Return a Hypothesis strategy of random programs of the profile, or of random profiles if it is None."""
    return _strategy(lambda draw: draw_program(draw, profile))


def adstack_kernels() -> SearchStrategy[RawCase]:
    """Return a Hypothesis strategy of kernels of raw adstack statements."""
    return _strategy(draw_adstacks)


def single_op_kernels() -> SearchStrategy[RawCase]:
    """Return a Hypothesis strategy of kernels that perform a single operation on edge values."""
    return _strategy(draw_case)
