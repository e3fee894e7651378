"""Define CUDA streams and events, with the interface that Taichi and Quadrants programs expect.

On a GPU they are the driver's streams and events. On other architectures a launch ends before its call returns, so
streams and events have no effect. Invariant: a program that is correct with concurrent streams is also correct if its
launches run in program order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..compiler.errors import Unsupported
from ..compiler.frontend.refused_names import caller_span
from .gpu import device_of_runtime
from .session import RUNTIME
from .usage_errors import ArgumentError

if TYPE_CHECKING:
    from typing import Self

KEYWORD = "qd_stream"
"""The keyword of a kernel call that names the stream of the launch."""


class _Handle:
    """Define the base class of streams and events, which hold the number that the CUDA driver gave them.

    Attributes:
        handle: The number by which the driver knows the object; 0 if there is none.
        device: The GPU that the object belongs to, or None on architectures without streams.
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
        """Wait until the device has finished all launches. Raise the error of a failed launch."""
        if self.device is not None and self.handle:
            self.device.wait()

    def destroy(self) -> None:
        """Destroy the stream or event after its work has ended. A second call has no effect."""
        if self.device is not None and self.handle:
            self._end(self.device)
        self.handle = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.destroy()


class Stream(_Handle):
    """Represent a CUDA stream, whose launches run in order; a call chooses it by `kernel(..., qd_stream=stream)`.

    As a context manager, the stream is destroyed at the end of the block.
    """

    __slots__ = ()

    def _make(self, device: Any) -> int:
        return int(device.new_stream())

    def _end(self, device: Any) -> None:
        device.destroy_stream(self.handle)


class Event(_Handle):
    """Represent a CUDA event, which marks a point in a stream that other streams can wait for."""

    __slots__ = ()

    def _make(self, device: Any) -> int:
        return int(device.driver.new_event())

    def _end(self, device: Any) -> None:
        device.driver.destroy_event(self.handle)

    def record(self, qd_stream: Stream | None = None) -> None:
        """Place the event after all work queued on a stream so far; None means the default stream of launches."""
        _check(qd_stream)
        if self.device is not None:
            self.device.driver.record(self.handle, _number(qd_stream))

    def wait(self, qd_stream: Stream | None = None) -> None:
        """Make a stream wait for the event before it starts any later work."""
        _check(qd_stream)
        if self.device is not None:
            self.device.driver.wait_event(self.handle, _number(qd_stream))


def _number(stream: Stream | None) -> int | None:
    return None if stream is None else stream.handle


@contextmanager
def on(stream: Stream | None) -> Iterator[None]:
    """Use a stream for launches inside the `with` block; None keeps the present stream."""
    # A value that is no stream passes here; the code that uses the stream refuses it.
    if not isinstance(stream, Stream) or stream.device is None:
        yield
    else:
        with stream.device.on(stream.handle):
            yield


def create_stream() -> Stream:
    """Return a new stream of the runtime's GPU; on a backend without streams, the stream has no effect."""
    return Stream()


def create_event() -> Event:
    """Return a new event of the runtime's GPU; on a backend without streams, the event has no effect."""
    return Event()


def without_stream(keywords: Mapping[str, Any], is_gradient: bool = False) -> dict[str, Any]:
    """Return the keyword arguments of a kernel call without `qd_stream`, the one that names the stream.

    Args:
        keywords: The keywords of the call; the stream is among them.
        is_gradient: True if the call launches a gradient.

    Raises:
        ArgumentError: The value of the keyword is no stream.
        Unsupported: The launch is differentiated, or a tape records it.
    """
    stream = keywords[KEYWORD]
    _check(stream)
    if stream is not None and (is_gradient or RUNTIME.tapes):
        raise Unsupported(
            "a launch on a stream is not differentiated: tapes and gradients run launches in order",
            f"leave out `{KEYWORD}`",
            caller_span(),
        )
    return {name: value for name, value in keywords.items() if name != KEYWORD}


def _check(stream: object) -> None:
    """Raise ArgumentError if a value is neither None nor a stream."""
    if stream is not None and not isinstance(stream, Stream):
        raise ArgumentError(f"{stream!r} is no stream", "make one with sg.create_stream()")
