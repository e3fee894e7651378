"""`sg.cuda`: the name of the architecture, and what a program says to the GPU: on which stream launches go.

On an architecture without streams saying so changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .session import RUNTIME
from .usage import ArgumentError


class Cuda(str):
    """The architecture `cuda`, as `sg.init(arch=sg.cuda)` takes it."""

    __slots__ = ()

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        """Launches, and what the host reads and writes, follow this stream inside.

        stream: a stream of torch, CuPy or `sg.create_stream()`, whatever has `__cuda_stream__`, a handle as an int, or
        None for the stream of calls without one. Work on different streams is not ordered, but by events. All
        threads launch on the stream that was chosen last.
        """
        device, handle = device_of_runtime(), handle_of(stream)
        if device is None:
            yield
            return
        with device.on(handle):
            yield

    @property
    def current_stream(self) -> int:
        """The handle of the stream that launches go to; 0 is the one of calls without a stream."""
        device = device_of_runtime()
        return 0 if device is None else int(device.stream)


cuda = Cuda("cuda")
"""As `sg.init(arch=sg.cuda)` takes it."""


def device_of_runtime() -> Any:
    """The GPU that the runtime launches on, None if it has no streams."""
    found = None if RUNTIME.remote is None else getattr(RUNTIME.remote, "device", None)
    return found if hasattr(found, "stream") else None


def handle_of(stream: Any) -> int:
    """The handle of a stream of any library. Raises ArgumentError."""
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        found = stream.__cuda_stream__
        return int((found() if callable(found) else found)[1])
    for name in ("cuda_stream", "handle", "ptr"):  # torch, ours, CuPy
        if isinstance(getattr(stream, name, None), int):
            return int(getattr(stream, name))
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    raise ArgumentError(f"{stream!r} is no stream", "give a stream of torch or CuPy, or sg.create_stream()")
