"""Which program a case runs: of a few that are drawn, the one that has what was reached least so far.

Invariant: the cases of a track, whose seeds agree modulo TRACKS, run one after another, and only they count for one
another. So the program of a case is a function of the first seed of the run and of its own, whatever the number of
processes, as long as there is a track for each.
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
"""Processes of one run, at most."""
CANDIDATES = 3
"""Programs that a steered case draws."""
EVERY = 2
"""One case in so many is steered; the others keep the rates that the strategies have of themselves."""
FIXED = 40
"""What a case costs besides, in nodes of its program."""
STEP = 1 << 44
"""Between the seeds of candidates; seeds of runs are smaller."""

Sampler = Callable[[int], Program]
Reached = Mapping[str, int]
"""Cases of a track by shape."""


class Choice(NamedTuple):
    """The program of a case, with its shapes. candidate: which of those that were drawn it is, from 0."""

    program: Program
    shapes: frozenset[str]
    candidate: int


def choose(sample: Sampler, seed: int, reached: Reached, candidate: int | None = None) -> Choice:
    """The program of a case: that of the seed itself, unless another tells more. candidate: the one to take, as an
    earlier run has told it, whatever was reached.
    """
    steered = seed // TRACKS % EVERY == 0
    numbers = range(CANDIDATES if steered else 1) if candidate is None else (candidate,)
    drawn = [(sample(seed + k * STEP), k) for k in numbers]
    found = [Choice(program, shapes(program), k) for program, k in drawn]
    return max(found, key=lambda choice: _news(choice.program, choice.shapes, reached))


def _news(program: Program, found: frozenset[str], reached: Reached) -> float:
    """What a program would tell of shapes, by what its case would cost. A shape counts for less each time."""
    told = sum(1.0 / (1.0 + reached.get(name, 0)) for name in found)
    return told / (FIXED + sum(1 for _ in walk_program(program)))


class Tracks:
    """The seeds of a run, in order as far as tracks are free. seeds: consecutive."""

    def __init__(self, seeds: Iterator[int]) -> None:
        self._seeds = seeds
        self._waiting: list[int] = []
        self._busy: set[int] = set()
        self._reached: defaultdict[int, Counter[str]] = defaultdict(Counter)

    def take(self) -> tuple[int, dict[str, int]] | None:
        """The next seed whose track is free, with what that track has reached; None if there is none now."""
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
        """A case is over. found: shapes of its program; empty if it died with its process."""
        self._busy.remove(seed % TRACKS)
        self._reached[seed % TRACKS].update(found)
