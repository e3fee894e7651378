"""Define `sg.cuda`, which names the CUDA backend and chooses the stream for launches.

On an architecture without streams the choice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..compiler.ir.documented import documented
from .session import RUNTIME
from .usage_errors import ArgumentError

_CUDA = """\
Name the architecture of GPUs of NVIDIA, for `sg.init(arch=sg.cuda)`.

`sg.cuda.stream(s)` chooses the stream that launches go to, and `sg.cuda.current_stream` is its handle."""


@documented(_CUDA)
class Cuda(str):
    """Represent the name of the CUDA backend, as in `sg.init(arch=sg.cuda)`; its methods choose the stream."""

    __slots__ = ()

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        """Use a stream for all launches, host reads and host writes inside the `with` block.

        Work on different streams is not ordered except by events. All threads launch on the stream that was chosen
        last.

        Args:
            stream: A stream of torch, CuPy or `sg.create_stream()`, any object with `__cuda_stream__`, a handle as an
                int, or None for the default stream.

        Raises:
            ArgumentError: The value is no stream.
        """
        device, handle = device_of_runtime(), handle_of(stream)
        if device is None:
            yield
            return
        with device.on(handle):
            yield

    @property
    def current_stream(self) -> int:
        """Return the driver's handle of the stream that launches use; 0 is the default stream."""
        device = device_of_runtime()
        return 0 if device is None else int(device.stream)


cuda = Cuda("cuda")
"""The architecture `cuda`, for `sg.init(arch=sg.cuda)`."""


def device_of_runtime() -> Any:
    """Return the GPU that the runtime uses, or None if the backend has no streams."""
    found = None if RUNTIME.remote is None else getattr(RUNTIME.remote, "device", None)
    return found if hasattr(found, "stream") else None


def handle_of(stream: Any) -> int:
    """Return the driver's handle of a stream of torch, CuPy or another library.

    Raises:
        ArgumentError: The value is no stream.
    """
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        found = stream.__cuda_stream__
        return int((found() if callable(found) else found)[1])
    for name in ("cuda_stream", "handle", "ptr"):  # These are the names in torch, stackgrad and CuPy.
        if isinstance(getattr(stream, name, None), int):
            return int(getattr(stream, name))
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    raise ArgumentError(f"{stream!r} is no stream", "give a stream of torch or CuPy, or sg.create_stream()")
