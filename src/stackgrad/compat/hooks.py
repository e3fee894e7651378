"""Keep functions that programs ask to be called when the runtime is started or reset."""

from __future__ import annotations

from collections.abc import Callable

_RESET: list[Callable[[], None]] = []


def on_reset(hook: Callable[[], None]) -> None:
    """Call a function at each `init` and `reset` from now on.

    Args:
        hook: A function without arguments.
    """
    _RESET.append(hook)


def after_reset() -> None:
    """Call what was registered by `on_reset`."""
    for hook in tuple(_RESET):
        hook()
