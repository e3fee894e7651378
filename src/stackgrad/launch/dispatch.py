"""Implement `sg.perf_dispatch`, which times several equivalent kernels under one name and calls the fastest.

Invariant: every call runs exactly one implementation, so that a tape records it once. Timings are kept for each hash of
the geometry of the arguments. The choice never changes a result, because all implementations compute the same.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from ..runtime.session import sync
from ..runtime.usage_errors import UsageError

Implementation = Callable[..., Any]


@dataclass
class _Candidate:
    """Represent one of several equivalent implementations, with a test whether it accepts given arguments.

    Attributes:
        run: The implementation.
        is_compatible: A function of the arguments of a call, or None if the implementation accepts all.
    """

    run: Implementation
    is_compatible: Callable[..., bool] | None = None


@dataclass
class _TimingTrial:
    """Collect the run times of all implementations for arguments with one value of the user's hash function.

    Attributes:
        started: Time in seconds (`time.monotonic`) at which the trial began or was decided.
        warmup: Number of runs of each implementation before it is timed.
        calls: Number of runs of each implementation since the trial began.
        seconds: Seconds of the timed runs of each implementation.
        best: Number of the fastest implementation, or None while the trial goes on.
        after: Number of calls since the trial was decided.
    """

    started: float
    warmup: int
    calls: dict[int, int] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    best: int | None = None
    after: int = 0


class Dispatcher:
    """Represent several equivalent implementations under one name; a call runs the fastest one."""

    def __init__(
        self,
        prototype: Implementation,
        geometry: Callable[..., Hashable],
        first_warmup: int,
        warmup: int,
        active: int,
        repeat_after_count: int,
        repeat_after_seconds: float,
    ) -> None:
        self.__name__ = getattr(prototype, "__name__", "dispatch")
        self.__wrapped__ = prototype
        self._parameters = list(inspect.signature(prototype).parameters)
        self._geometry = geometry
        self._first_warmup, self._warmup, self._active = first_warmup, warmup, max(active, 1)
        self._repeat_count, self._repeat_seconds = repeat_after_count, repeat_after_seconds
        self._candidates: list[_Candidate] = []
        self._trials: dict[Hashable, _TimingTrial] = {}

    def register(
        self, function: Implementation | None = None, *, is_compatible: Callable[..., bool] | None = None
    ) -> Any:
        """Add an implementation to the dispatcher; use it as the outermost decorator.

        Both `@f.register` and `@f.register(is_compatible=test)` work.

        Args:
            function: The implementation, with the parameter names of the prototype.
            is_compatible: A function of the arguments of a call that returns False if the implementation cannot take
                them.

        Raises:
            UsageError: The parameters have other names than those of the prototype.
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
        """Run one implementation that accepts the arguments. Raise UsageError if there is none."""
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
            return self._candidates[trial.best].run(*args, **keywords)
        return self._timed(trial, fitting, args, keywords)

    def _trial(self, key: Hashable) -> _TimingTrial:
        """Return the timing trial for a hash of arguments; start a new one if there is none or it is outdated."""
        now, found = time.monotonic(), self._trials.get(key)
        warmup = self._first_warmup if found is None else self._warmup
        if found is not None and found.best is not None:
            counted = 0 < self._repeat_count <= found.after
            if counted or 0 < self._repeat_seconds <= now - found.started:
                found = None
        if found is None:
            found = self._trials[key] = _TimingTrial(now, warmup)
        return found

    def _timed(self, trial: _TimingTrial, fitting: list[int], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Run and time the implementation that has run least often; choose the fastest after the last run."""
        number = min(fitting, key=lambda n: (trial.calls.get(n, 0), n))
        count = trial.calls[number] = trial.calls.get(number, 0) + 1
        sync()
        began = time.perf_counter()
        result = self._candidates[number].run(*args, **keywords)
        sync()
        if count > trial.warmup:
            trial.seconds[number] = trial.seconds.get(number, 0.0) + time.perf_counter() - began
        if all(trial.calls.get(n, 0) >= trial.warmup + self._active for n in fitting):
            trial.best = min(fitting, key=lambda n: trial.seconds[n] / (trial.calls[n] - trial.warmup))
            trial.started = time.monotonic()
        return result


_REPEAT_AFTER = 300
"""Number of calls after which a trial is repeated if no option says when."""


def perf_dispatch(
    *,
    get_geometry_hash: Callable[..., Hashable],
    first_warmup: int = 1,
    warmup: int = 0,
    active: int = 1,
    repeat_after_count: int | None = None,
    repeat_after_seconds: float | None = None,
) -> Callable[[Implementation], Dispatcher]:
    """Return a decorator that turns a function with an empty body into a dispatcher for its implementations.

        @sg.perf_dispatch(get_geometry_hash=lambda x: x.shape)
        def scale(x): ...

    Args:
        get_geometry_hash: A function of the arguments of a call. Calls with different hashes are timed apart.
        first_warmup: Number of calls of each implementation before it is timed, in the first trial of a geometry. The
            first of them compiles.
        warmup: The same for repeated trials.
        active: Number of timed calls of each implementation.
        repeat_after_count: Number of calls after which the trial is repeated; 0 for never. None means never if
            `repeat_after_seconds` is given, else 300 calls.
        repeat_after_seconds: Seconds after which the trial is repeated; 0 or None for never.
    """
    if repeat_after_count is None:
        repeat_after_count = _REPEAT_AFTER if repeat_after_seconds is None else 0
    options = first_warmup, warmup, active, repeat_after_count, repeat_after_seconds or 0.0

    def decorate(prototype: Implementation) -> Dispatcher:
        return Dispatcher(prototype, get_geometry_hash, *options)

    return decorate
