"""This module decides whether rounds of a base and of a head show a regression.

A round measures base, head, and base again, in neighboring processes. What the second base differs from the first is
noise of the machine, and noise of the head is of the same kind: its ratio to the base must leave that noise before it
counts. Ratios are taken within rounds, so a machine that gets slower during a run moves both sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

SIGMAS = 4.0
"""Distance from 1, in standard errors of a ratio between equal commits, that no chance explains."""
TO_SIGMA = 1.4826
"""Factor from the median absolute deviation of a normal distribution to its standard deviation."""

Sample = Mapping[str, float]


@dataclass(frozen=True)
class Round:
    """Represent the metrics of one round.

    Attributes:
        base: metrics of the base, measured before the head.
        head: metrics of the head.
        again: metrics of the base, measured after the head.
    """

    base: Sample
    head: Sample
    again: Sample


@dataclass(frozen=True)
class Verdict:
    """Represent the comparison of one metric.

    Attributes:
        name: the metric.
        base: its median in the base.
        head: its median in the head.
        ratio: median over rounds of head to base.
        noise: factor that two measurements of one commit differ by at most, but for chance.
        limit: ratio above which the head is worse.
    """

    name: str
    base: float
    head: float
    ratio: float
    noise: float
    limit: float

    @property
    def is_worse(self) -> bool:
        """Return True if the head is worse than the base beyond the noise and the allowed factor."""
        return self.ratio > self.limit


def _log_ratio(above: float, below: float) -> float:
    """Return log(above / below); equal numbers, also two zeros, give 0, and a number above zero gives infinity."""
    if above == below:
        return 0.0
    return math.log(above / below) if above and below else math.copysign(math.inf, above - below)


def verdict_of(name: str, rounds: Sequence[Round], factor: float) -> Verdict:
    """Compare one metric.

    Args:
        name: the metric; each round has it.
        rounds: the rounds, at least one.
        factor: ratio of head to base that is allowed, 1 or more.
    """
    bases = [(r.base[name], r.again[name]) for r in rounds]
    effects = [(_log_ratio(r.head[name], b) + _log_ratio(r.head[name], a)) / 2 for r, (b, a) in zip(rounds, bases)]
    # With logs of deviation s, half of the difference of two bases has s / sqrt(2), and an effect (one log less
    # the mean of two) has sqrt(3) times that.
    halves = [abs(_log_ratio(again, base)) / 2 for base, again in bases]
    spread = TO_SIGMA * median(halves) * math.sqrt(3)
    # The error of a median is 1.25 times that of a mean.
    noise = SIGMAS * 1.25 * spread / math.sqrt(len(rounds))
    ratio = _exp(median(effects))
    return Verdict(
        name,
        median(value for pair in bases for value in pair),
        median(r.head[name] for r in rounds),
        ratio,
        _exp(noise),
        factor * _exp(noise),
    )


def _exp(value: float) -> float:
    """Return exp(value), infinity included."""
    return math.inf if value == math.inf else math.exp(value)


def verdicts(rounds: Sequence[Round], factors: Mapping[str, float]) -> list[Verdict]:
    """Compare all metrics of some rounds.

    Args:
        rounds: the rounds, at least one.
        factors: allowed ratio by kind of metric: `launch`, `compile`, `heap`; kinds that are absent are not judged.
    """
    names = [name for name in rounds[0].base if name.partition(".")[0] in factors]
    return [verdict_of(name, rounds, factors[name.partition(".")[0]]) for name in names]


def drift_of(rounds: Sequence[Round], control: str = "control") -> float:
    """Return the largest factor by which a control metric of the base moved during the rounds."""
    largest = 1.0
    for name in rounds[0].base:
        if name.partition(".")[0] == control:
            values = [sample[name] for r in rounds for sample in (r.base, r.again)]
            largest = max(largest, max(values) / min(values))
    return largest
