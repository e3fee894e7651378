"""Implement the log functions of the peers by Python's `logging`; messages go to the logger of stackgrad."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ..runtime.dialect_options import IGNORED

_LOG = logging.getLogger("stackgrad")
_TRACE_LEVEL = 5
_LEVELS = {
    "trace": _TRACE_LEVEL,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}

TRACE, DEBUG, INFO, WARN, ERROR, CRITICAL = _LEVELS
SUPPORTED_LOG_LEVELS = list(_LEVELS)


def set_logging_level(level: str) -> None:
    """Set the level below which messages are dropped.

    Args:
        level: "trace", "debug", "info", "warn", "error" or "critical".
    """
    _LOG.setLevel(_LEVELS.get(str(level).lower(), logging.INFO))


def is_logging_effective(level: str) -> bool:
    """Return True if messages of a level are not dropped."""
    return _LOG.isEnabledFor(_LEVELS.get(str(level).lower(), logging.INFO))


def set_gdb_trigger(on: bool = True) -> None:
    """Note in the log what shows a debugger the lines of a program: stackgrad stops nowhere by itself.

    Args:
        on: True if the program wants to stop in a debugger where it fails.
    """
    if on:
        _LOG.info("set_gdb_trigger has no effect: %s", IGNORED["gdb_trigger"])


def _get_logging(name: str) -> Callable[..., None]:
    """Return a function that logs at a level and formats messages by `str.format`, as the peers do."""

    def log(message: str, *args: Any, **keywords: Any) -> None:
        if is_logging_effective(name):
            _LOG.log(_LEVELS[name], message.format(*args, **keywords))

    return log


trace, debug, info, warn, error, critical = (_get_logging(name) for name in _LEVELS)

__all__ = [
    "CRITICAL",
    "DEBUG",
    "ERROR",
    "INFO",
    "SUPPORTED_LOG_LEVELS",
    "TRACE",
    "WARN",
    "_get_logging",
    "critical",
    "debug",
    "error",
    "info",
    "is_logging_effective",
    "set_gdb_trigger",
    "set_logging_level",
    "trace",
    "warn",
]
