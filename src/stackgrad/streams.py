"""Streams and events, by the names of the dialect. On a GPU they are the driver's; elsewhere launches end before the
call returns, so they order nothing.

Invariant: a program that is right with streams that run at once is right with launches in program order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .compiler.errors import Unsupported
from .compiler.frontend.refused import caller
from .gpu import device_of_runtime
from .session import RUNTIME
from .usage import ArgumentError

if TYPE_CHECKING:
    from typing import Self

KEYWORD = "qd_stream"
"""The keyword of a call that names the stream of the launch."""


class _Handle:
    """What streams and events share: the handle that the driver knows it by, 0 where there is none, and an end.

    device: the GPU that it is of, if any.
    """

    __slots__ = ("handle", "device")

    def __init__(self) -> None:
        RUNTIME.ensure()
        self.device = device_of_runtime()
        self.handle = 0 if self.device is None else self._make(self.device)

    def _make(self, device: Any) -> int:
        raise NotImplementedError

    def _end(self, device: Any) -> None:
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait for what was launched. Raises what went wrong there."""
        if self.device is not None and self.handle:
            self.device.wait()

    def destroy(self) -> None:
        """End it, when what it has to do is done. May be called again."""
        if self.device is not None and self.handle:
            self._end(self.device)
        self.handle = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.destroy()


class Stream(_Handle):
    """A stream of launches: `kernel(..., qd_stream=stream)`. As a context it is destroyed at the end."""

    __slots__ = ()

    def _make(self, device: Any) -> int:
        return int(device.new_stream())

    def _end(self, device: Any) -> None:
        device.destroy_stream(self.handle)


class Event(_Handle):
    """A point in a stream that another stream may wait for."""

    __slots__ = ()

    def _make(self, device: Any) -> int:
        return int(device.driver.new_event())

    def _end(self, device: Any) -> None:
        device.driver.destroy_event(self.handle)

    def record(self, qd_stream: Stream | None = None) -> None:
        """The point is now. None: the stream of all launches without one."""
        _check(qd_stream)
        if self.device is not None:
            self.device.driver.record(self.handle, _number(qd_stream))

    def wait(self, qd_stream: Stream | None = None) -> None:
        """What the stream does from now on follows the point."""
        _check(qd_stream)
        if self.device is not None:
            self.device.driver.wait_event(self.handle, _number(qd_stream))


def _number(stream: Stream | None) -> int | None:
    return None if stream is None else stream.handle


@contextmanager
def on(stream: Stream | None) -> Iterator[None]:
    """Launches inside go to this stream; None for the present one."""
    if not isinstance(stream, Stream) or stream.device is None:  # what is no stream is refused by its user
        yield
    else:
        with stream.device.on(stream.handle):
            yield


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
