"""This module decides whether rounds of a base and of a head show a regression.

A round measures base, head, and base again, one process after the other. A disturbance only makes a measurement slower,
so the fastest of several measurements is the time of the code, and the difference between the fastest measurements of
the base is the remaining noise. The ratio of the fastest head to the fastest base counts only if it exceeds this
noise. Base and head alternate, so on a machine that gets slower both have their fastest measurements at the beginning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FLOOR = 4
"""Number of fastest measurements of the base that lie within its noise; none is disturbed if the machine ever rests."""

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
        base: its lowest value in the base.
        head: its lowest value in the head.
        ratio: the lowest value of the head, divided by the mean of the lowest ones of the two bases.
        noise: ratio of one of the lowest values of the base (number FLOOR) to the lowest one, at least 1.
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
    base, again, head = ([side[name] for side in sides] for sides in zip(*((r.base, r.again, r.head) for r in rounds)))
    fastest = sorted([*base, *again])
    # Either base has as many measurements as the head, so that neither side finds a lower one by trying more often.
    effect = (_log_ratio(min(head), min(base)) + _log_ratio(min(head), min(again))) / 2
    noise = _log_ratio(fastest[:FLOOR][-1], fastest[0])
    return Verdict(name, fastest[0], min(head), math.exp(effect), math.exp(noise), factor * math.exp(noise))


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
