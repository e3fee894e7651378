"""Store functions that a program wants to be called whenever the runtime is started or reset."""

from __future__ import annotations

from collections.abc import Callable

_RESET: list[Callable[[], None]] = []


def on_reset(hook: Callable[[], None]) -> None:
    """Register a function to be called at each `init` and `reset` from now on.

    Args:
        hook: A function without arguments.
    """
    _RESET.append(hook)


def after_reset() -> None:
    """Call all functions that `on_reset` has registered."""
    for hook in tuple(_RESET):
        hook()
