"""Choose the program of a case among a few candidates: the one whose properties occurred least in earlier cases.

Invariant: cases whose seeds agree modulo TRACKS form a track. The cases of a track run one after another, and a case is
chosen only by earlier cases of its track. So the program of a case is a function of the first seed of the run and of
its own seed, whatever the number of processes, as long as each process has a track.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from ..model import Program
from ..model.walk import walk_program
from ..strategies import shapes

TRACKS = 16
"""Largest number of processes of one run."""
CANDIDATES = 3
"""Number of programs that a steered case draws."""
EVERY = 2
"""One case out of this number is steered; the other cases keep the natural rates of the strategies."""
FIXED = 40
"""Fixed cost of a case, in nodes of its program."""
STEP = 1 << 44
"""Distance between the seeds of candidates; the seeds of runs are smaller."""

Sampler = Callable[[int], Program]
Reached = Mapping[str, int]
"""Number of cases of a track by property of their programs, see `strategies.SHAPES`."""


class GuidedChoice(NamedTuple):
    """Represent the program that was chosen for a case, its properties, and its number among the candidates.

    Attributes:
        shapes: Names of the properties that the program has.
        candidate: Number of the program among those that were drawn, from 0.
    """

    program: Program
    shapes: frozenset[str]
    candidate: int


def choose(sample: Sampler, seed: int, reached: Reached, candidate: int | None = None) -> GuidedChoice:
    """Return the program of a case: that of its seed, or a candidate whose properties earlier cases had more rarely.

    Args:
        sample: Function from a seed to a program.
        seed: Seed of the case.
        reached: Number of earlier cases of the track by property.
        candidate: Number of the candidate to take, as an earlier run reported it; None chooses.
    """
    # The quotient counts the cases of a track.
    steered = seed // TRACKS % EVERY == 0
    numbers = range(CANDIDATES if steered else 1) if candidate is None else (candidate,)
    drawn = [(sample(seed + k * STEP), k) for k in numbers]
    found = [GuidedChoice(program, shapes(program), k) for program, k in drawn]
    return max(found, key=lambda choice: _news(choice.program, choice.shapes, reached))


def _news(program: Program, found: frozenset[str], reached: Reached) -> float:
    """Return how rare a program's properties were in earlier cases, divided by the cost of its case.

    A property counts for less each time it occurs.
    """
    told = sum(1.0 / (1.0 + reached.get(name, 0)) for name in found)
    return told / (FIXED + sum(1 for _ in walk_program(program)))


class SeedTracks:
    """Hand out the seeds of a fuzzer run so that no two cases whose seeds are equal modulo TRACKS run at once.

    Cases whose seeds agree modulo TRACKS form a track.
    """

    def __init__(self, seeds: Iterator[int]) -> None:
        self._seeds = seeds
        self._waiting: list[int] = []
        self._busy: set[int] = set()
        self._reached: defaultdict[int, Counter[str]] = defaultdict(Counter)

    def take(self) -> tuple[int, dict[str, int]] | None:
        """Return a seed of a track without a running case, and the track's property counts; None if all are busy."""
        for seed in self._waiting:
            if seed % TRACKS not in self._busy:
                self._waiting.remove(seed)
                return self._taken(seed)
        for new in islice(self._seeds, TRACKS - len(self._waiting)):
            if new % TRACKS not in self._busy:
                return self._taken(new)
            self._waiting.append(new)
        return None

    def _taken(self, seed: int) -> tuple[int, dict[str, int]]:
        self._busy.add(seed % TRACKS)
        return seed, dict(self._reached[seed % TRACKS])

    def end(self, seed: int, found: frozenset[str]) -> None:
        """Record the end of a case and the properties of its program.

        The properties are empty if the case died with its process.
        """
        self._busy.remove(seed % TRACKS)
        self._reached[seed % TRACKS].update(found)
