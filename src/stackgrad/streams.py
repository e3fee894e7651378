"""Streams and events, by the names of the dialect: launches here end before the call returns, so they order nothing.

Invariant: a program that is right with streams that run at once is right with launches in program order.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .compiler.errors import Unsupported
from .compiler.frontend.refused import caller
from .session import RUNTIME
from .usage import ArgumentError

if TYPE_CHECKING:
    from typing import Self

KEYWORD = "qd_stream"
"""The keyword of a call that names the stream of the launch."""


class _Handle:
    """What streams and events share: a handle, 0 as no device has one, and an end."""

    __slots__ = ("handle",)

    def __init__(self, handle: int = 0) -> None:
        self.handle = handle

    def synchronize(self) -> None:
        """Wait for what was launched: nothing is left to wait for."""

    def destroy(self) -> None:
        """End it. May be called again."""
        self.handle = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.destroy()


class Stream(_Handle):
    """A stream of launches: `kernel(..., qd_stream=stream)`. As a context it is destroyed at the end."""

    __slots__ = ()


class Event(_Handle):
    """A point in a stream that another stream may wait for."""

    __slots__ = ()

    def record(self, qd_stream: Stream | None = None) -> None:
        """The point is now. None: the stream of all launches without one."""
        _check(qd_stream)

    def wait(self, qd_stream: Stream | None = None) -> None:
        """What the stream does from now on follows the point: it does anyway."""
        _check(qd_stream)


def create_stream() -> Stream:
    """A new stream."""
    return Stream()


def create_event() -> Event:
    """A new event."""
    return Event()


def without_stream(keywords: Mapping[str, Any], is_gradient: bool = False) -> dict[str, Any]:
    """The keywords of a call without its stream. Raises Unsupported where the launch is or will be differentiated."""
    stream = keywords[KEYWORD]
    _check(stream)
    if stream is not None and (is_gradient or RUNTIME.tapes):
        raise Unsupported(
            "a launch on a stream is not differentiated: tapes and gradients run launches in order",
            f"leave out `{KEYWORD}`",
            caller(),
        )
    return {name: value for name, value in keywords.items() if name != KEYWORD}


def _check(stream: object) -> None:
    if stream is not None and not isinstance(stream, Stream):
        raise ArgumentError(f"{stream!r} is no stream", "make one with sg.create_stream()")
