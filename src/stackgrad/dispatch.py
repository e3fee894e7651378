"""`sg.perf_dispatch`: one name for several kernels that do the same; the fastest is found out by timing their calls.

Invariant: every call runs exactly one implementation, so that a tape records it once. Timings are kept per hash of the
arguments' geometry; the choice never changes a result, as all implementations do the same.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from .session import sync
from .usage import UsageError

Implementation = Callable[..., Any]


@dataclass
class _Candidate:
    """An implementation and where it may be used."""

    run: Implementation
    is_compatible: Callable[..., bool] | None = None


@dataclass
class _Trial:
    """What is known of one geometry. calls: runs of each implementation since the trial began; best: the winner."""

    started: float
    calls: dict[int, int] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    best: int | None = None
    after: int = 0


class Dispatch:
    """A prototype with implementations, which are added by `register`."""

    def __init__(
        self,
        prototype: Implementation,
        geometry: Callable[..., Hashable],
        warmup: int,
        active: int,
        repeat_after_count: int,
        repeat_after_seconds: float,
    ) -> None:
        self.__name__ = getattr(prototype, "__name__", "dispatch")
        self.__wrapped__ = prototype
        self._parameters = list(inspect.signature(prototype).parameters)
        self._geometry = geometry
        self._warmup, self._active = warmup, max(active, 1)
        self._repeat_count, self._repeat_seconds = repeat_after_count, repeat_after_seconds
        self._candidates: list[_Candidate] = []
        self._trials: dict[Hashable, _Trial] = {}

    def register(
        self, function: Implementation | None = None, *, is_compatible: Callable[..., bool] | None = None
    ) -> Any:
        """Decorator: add an implementation, `@f.register` or `@f.register(is_compatible=test)`; outermost of all.

        Raises UsageError if its parameters have other names than the prototype's.
        """
        if function is None:
            return lambda given: self.register(given, is_compatible=is_compatible)
        plain = getattr(function, "__wrapped__", function)
        names = list(inspect.signature(plain).parameters)
        if names != self._parameters:
            raise UsageError(
                f"an implementation of {self.__name__} has the parameters {', '.join(names) or 'none'}",
                f"give it those of the prototype: {', '.join(self._parameters) or 'none'}",
            )
        self._candidates.append(_Candidate(function, is_compatible))
        return function

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run one implementation that fits the arguments. Raises UsageError if there is none."""
        fitting = [
            number
            for number, c in enumerate(self._candidates)
            if c.is_compatible is None or c.is_compatible(*args, **keywords)
        ]
        if not fitting:
            raise UsageError(f"no implementation of {self.__name__} fits the arguments", "register one that does")
        if len(fitting) == 1:
            return self._candidates[fitting[0]].run(*args, **keywords)
        trial = self._trial(self._geometry(*args, **keywords))
        if trial.best in fitting:
            trial.after += 1
            return self._candidates[trial.best].run(*args, **keywords)  # type: ignore[index]
        return self._timed(trial, fitting, args, keywords)

    def _trial(self, key: Hashable) -> _Trial:
        """The trial of a geometry; a new one if there is none or the old one is due for repetition."""
        now, found = time.monotonic(), self._trials.get(key)
        if found is not None and found.best is not None:
            counted = 0 < self._repeat_count <= found.after
            if counted or 0 < self._repeat_seconds <= now - found.started:
                found = None
        if found is None:
            found = self._trials[key] = _Trial(now)
        return found

    def _timed(self, trial: _Trial, fitting: list[int], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Run the implementation that has run least; the last run of the trial decides."""
        number = min(fitting, key=lambda n: (trial.calls.get(n, 0), n))
        count = trial.calls[number] = trial.calls.get(number, 0) + 1
        sync()
        began = time.perf_counter()
        result = self._candidates[number].run(*args, **keywords)
        sync()
        if count > self._warmup:
            trial.seconds[number] = trial.seconds.get(number, 0.0) + time.perf_counter() - began
        if all(trial.calls.get(n, 0) >= self._warmup + self._active for n in fitting):
            trial.best = min(fitting, key=lambda n: trial.seconds[n] / (trial.calls[n] - self._warmup))
            trial.started = time.monotonic()
        return result


def perf_dispatch(
    *,
    get_geometry_hash: Callable[..., Hashable],
    warmup: int = 3,
    active: int = 1,
    repeat_after_count: int = 0,
    repeat_after_seconds: float = 1.0,
) -> Callable[[Implementation], Dispatch]:
    """Decorator of a prototype with an empty body, whose parameters its implementations share.

    get_geometry_hash: of the arguments of a call; geometries are timed apart. warmup, active: calls of each
    implementation before and while it is timed. The trial is repeated after so many calls or seconds; 0: never.
    """

    def decorate(prototype: Implementation) -> Dispatch:
        return Dispatch(prototype, get_geometry_hash, warmup, active, repeat_after_count, repeat_after_seconds)

    return decorate
