"""What the backend asks of a GPU and its driver: `Driver`. nvidia.py is that of NVIDIA, through cuda.bindings.

Everything is an integer here: addresses, streams, modules, functions, graphs. Another driver may stand in (one that
runs kernels on the host, for machines without a GPU), so nothing above this file names a CUDA type.

Invariant: every call makes the context current in the calling thread first, so that any thread may call; native code,
which cannot, reports CONTEXT_ERRORS and is called again after `attach`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...compiler.errors import DeviceError
from ..base import Options

CONTEXT_ERRORS = (201, 3)
"""Codes of calls from a thread that has no context: invalid context, not initialised."""

NOTHING_LEFT = 2
"""Code of a request for more memory than there is."""

_LOST = "the GPU cannot be used by this process any longer"
HINTS: dict[int, str] = {
    700: f"{_LOST}; most often an index outside of an array: sg.init(debug=True) names it",
    715: _LOST,
    716: _LOST,
    717: _LOST,
    718: _LOST,
    719: _LOST,
}
"""What an error means for the program, by code."""


class DriverError(DeviceError):
    """The driver refused a call. code, name: of CUresult; text: the driver's words."""

    def __init__(self, code: int, name: str, text: str, call: str = "") -> None:
        self.code, self.name, self.text, self.call = code, name, text, call
        where = f"{call}: " if call else ""
        hint = f"; {HINTS[code]}" if code in HINTS else ""
        super().__init__(f"the GPU's driver refuses: {where}{name} ({code}), {text}{hint}")


class Unavailable(DeviceError):
    """There is no GPU that can be used. reason, cure: one line each."""

    def __init__(self, reason: str, cure: str) -> None:
        self.reason, self.cure = reason, cure
        super().__init__(f"{reason}; cure: {cure}")


@dataclass(frozen=True)
class Card:
    """What a GPU is. capability: (9, 0) for sm_90. memory_bytes: all of its memory."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    l2_bytes: int
    memory_bytes: int
    driver_version: str = ""


@dataclass(frozen=True)
class KernelCall:
    """A launch in a graph."""

    function: int
    blocks: int
    threads: int


@dataclass(frozen=True)
class Instance:
    """A graph, what is launched of it, and its node for each call."""

    graph: int
    executable: int
    nodes: tuple[int, ...]


class Driver(Protocol):
    """One GPU. stream: that of calls which name none. entry_points: addresses of functions for native code.

    Every method raises DriverError. Copies from and to host memory that is not pinned are over when the call returns.
    """

    stream: int

    @property
    def card(self) -> Card: ...
    @property
    def name(self) -> str: ...
    @property
    def capability(self) -> tuple[int, int]: ...
    @property
    def multiprocessors(self) -> int: ...
    @property
    def l2_bytes(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def context(self) -> int:
        """What `attach` makes current."""

    @property
    def entry_points(self) -> Mapping[str, int]: ...

    def describe(self, code: int) -> tuple[str, str]:
        """(name, text) of an error code that native code was given."""

    def attach(self) -> None:
        """Let the calling thread, and native code in it, use the GPU."""

    def assemble(self, text: str, entries: Sequence[str], options: Options) -> bytes:
        """What `load` takes, of LLVM IR with these entry points."""

    def load(self, image: bytes) -> int: ...
    def unload(self, module: int) -> None: ...
    def function(self, module: int, name: str) -> int: ...

    def allocate(self, size: int) -> int: ...
    def allocate_managed(self, size: int) -> int: ...
    def allocate_pinned(self, size: int) -> int:
        """Host memory that the GPU can write, at the same address."""

    def free(self, address: int) -> None:
        """Of `allocate` and `allocate_managed`."""

    def free_pinned(self, address: int) -> None: ...
    def free_memory(self) -> tuple[int, int]:
        """(bytes that are free, bytes in all)."""

    def copy_in(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """From the host to the device, behind what the stream has to do."""

    def copy_out(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """From the device to the host, behind what the stream has to do; over when it returns."""

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """From the device to the device; not waited for."""

    def fill(self, address: int, item: int, width: int, count: int, stream: int | None = None) -> None:
        """Write an item of 1, 2 or 4 bytes `count` times; not waited for."""

    def zero(self, address: int, size: int, stream: int | None = None) -> None: ...

    def new_stream(self) -> int: ...
    def destroy_stream(self, stream: int) -> None: ...
    def wait(self, stream: int | None = None) -> None:
        """For all that the stream has to do."""

    def wait_all(self) -> None:
        """For all streams."""

    def new_event(self) -> int: ...
    def destroy_event(self, event: int) -> None: ...
    def record(self, event: int, stream: int | None = None) -> None: ...
    def wait_event(self, event: int, stream: int | None = None) -> None:
        """Let the stream go on when the event has happened; the host does not wait."""

    def elapsed(self, first: int, last: int) -> float:
        """Milliseconds between two events, waited for."""

    def begin_capture(self, stream: int) -> None:
        """From now on what is launched on the stream is recorded, not run."""

    def end_capture(self, stream: int) -> int:
        """What was recorded, ready to be launched: a graph."""

    def launch_graph(self, graph: int, stream: int | None = None) -> None: ...
    def destroy_graph(self, graph: int) -> None: ...

    def instantiate(self, clear: tuple[int, int] | None, calls: Sequence[KernelCall], parameter: int) -> Instance:
        """A graph of launches one behind the other. clear: address and bytes of what is set to zero before them.
        parameter: address of the one that all of them take.
        """

    def discard(self, instance: Instance) -> None:
        """It is launched no more."""
