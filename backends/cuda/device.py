"""One GPU as this process uses it: the current stream, what may be in flight, errors found on the device, waiting.

Invariant: whoever reads memory of the device on the host calls `wait`, or copies through the current stream, first;
both end with `raise_errors`, so an error surfaces before anything that it spoiled is seen. After a failure the word
`halted` stops every later entry; it is cleared when the error has been raised, so that work goes on.

Memory and code that is dropped while launches may use it is given back at the next wait, never earlier.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ...compiler.errors import StackgradError, Unsupported
from ..base import Counters
from ..prints import BYTES, Prints, Text, after
from ..words import address_of, words
from .driver import Driver, DriverError
from .driver_table import ADDRESSES, CONTEXT, LAUNCH_GRAPH, MOST, PENDING, STREAM, TABLE
from .replay import PATIENCE

Record = tuple[int, int, int]
"""Site, or -1 if there is no error, and the two numbers of its kind."""

RESIDENT = 2048
"""Threads that a multiprocessor holds at once."""

_RECORD_WORDS, _RECORDS = 4, 512
_MOST_TRASH, _MOST_TRASH_BYTES = 512, 64 << 20


class Records:
    """Error records in pinned memory, one for each executable: site + 1, first, second."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._slabs: list[tuple[int, np.ndarray]] = []
        self._free: list[int] = []
        self.readers: dict[int, Callable[[Record], StackgradError]] = {}

    def claim(self, reader: Callable[[Record], StackgradError]) -> int:
        """Address of a record. reader: what makes an exception of it."""
        if not self._free:
            self._grow()
        address = self._free.pop()
        self.readers[address] = reader
        return address

    def release(self, address: int) -> None:
        """The record is in use no longer."""
        if self.readers.pop(address, None) is not None:
            self._free.append(address)

    def _grow(self) -> None:
        size = 8 * _RECORD_WORDS * _RECORDS
        base = self._driver.allocate_pinned(size)
        ctypes.memset(base, 0, size)
        pinned = (ctypes.c_int64 * (_RECORD_WORDS * _RECORDS)).from_address(base)
        view = np.ctypeslib.as_array(pinned).reshape(_RECORDS, _RECORD_WORDS)
        self._slabs.append((base, view))
        self._free += [base + 8 * _RECORD_WORDS * k for k in reversed(range(_RECORDS))]

    def take(self) -> list[Callable[[], StackgradError]]:
        """What makes the exceptions for the errors that stand in records, which are cleared."""
        found: list[Callable[[], StackgradError]] = []
        for base, view in self._slabs:
            if not view[:, 0].any():
                continue
            for k in np.flatnonzero(view[:, 0]).tolist():
                site, first, second = view[k, :3].tolist()
                view[k] = 0
                reader = self.readers.get(base + 8 * _RECORD_WORDS * k)
                if reader is not None:
                    found.append(partial(reader, (site - 1, first, second)))
        return found

    def close(self) -> None:
        """Give the memory back."""
        for base, _ in self._slabs:
            self._driver.free_pinned(base)
        self._slabs, self._free = [], []
        self.readers.clear()


@dataclass
class Device:
    """A GPU and its driver. table: words that native code reads, see host_code.py. followers: are told when another
    stream becomes the current one; forgetters: when one is about to go. patience: see replay.py.
    graphs: those of launches that go on alike.
    """

    driver: Driver
    counters: Counters = field(default_factory=Counters)
    is_capturing: bool = False
    patience: int = PATIENCE
    graphs: int = 0
    followers: list[Callable[[int], None]] = field(default_factory=list)
    forgetters: list[Callable[[int], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        driver = self.driver
        points = driver.entry_points
        self.table = words(bytes(8 * TABLE))
        for word, name in ADDRESSES.items():
            self.table[word] = points[name]
        self.table[MOST] = driver.multiprocessors * RESIDENT
        self.table[STREAM] = driver.stream
        self.table[CONTEXT] = driver.context
        self.halted = driver.allocate(64)
        driver.zero(self.halted, 64)
        self.records = Records(driver)
        self._prints: Prints | None = None
        self._is_mixed = False
        self._waits = 0
        self._trash: list[tuple[Callable[[], None], int]] = []

    @property
    def table_address(self) -> int:
        """Where the driver's table lies."""
        return address_of(self.table)

    @property
    def prints(self) -> Prints:
        """What kernels print to, made when the first one that prints is compiled; shown at the end of the process."""
        if self._prints is None:
            self._prints = Prints(self.driver.allocate_pinned(BYTES))
            atexit.register(_show_rest, weakref.ref(self), os.getpid())
        return self._prints

    # -- streams --------------------------------------------------------------------------------------------

    @property
    def stream(self) -> int:
        """What launches and copies go to; 0 is the stream of all that name none."""
        return self.driver.stream

    @stream.setter
    def stream(self, stream: int) -> None:
        if stream == self.driver.stream:
            return
        self._is_mixed |= self.is_pending
        self.driver.stream = self.table[STREAM] = stream
        for follow in self.followers:
            follow(stream)

    def new_stream(self) -> int:
        """Another stream."""
        return self.driver.new_stream()

    def destroy_stream(self, stream: int) -> None:
        """End a stream when it has nothing to do any more, and what is kept for launches on it."""
        if stream == self.stream:
            self.stream = 0
        self.driver.wait(stream)
        for forget in self.forgetters:
            forget(stream)
        self.driver.destroy_stream(stream)

    @contextmanager
    def on(self, stream: int) -> Iterator[None]:
        """Launches and copies inside go to this stream."""
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before

    @contextmanager
    def between(self, stream: int) -> Iterator[None]:
        """As `on`, behind what the present stream has to do, and before what it is given afterwards."""
        own = self.stream
        self.follow(stream, own)
        with self.on(stream):
            yield
        self.follow(own, stream)

    @contextmanager
    def capturing(self, stream: int) -> Iterator[list[int]]:
        """What is launched inside is recorded, in the list afterwards. Nothing can be waited for inside."""
        made: list[int] = []
        pending = self.table[PENDING]
        with self.on(stream):
            self.driver.begin_capture(stream)
            graphs, self.table[LAUNCH_GRAPH] = self.table[LAUNCH_GRAPH], 0  # a graph is recorded of single launches
            self.is_capturing = True
            try:
                yield made
            except BaseException:
                self._end_capture(pending, graphs)
                with suppress(DriverError):
                    self.driver.destroy_graph(self.driver.end_capture(stream))
                raise
            self._end_capture(pending, graphs)
            made.append(self.driver.end_capture(stream))

    def _end_capture(self, pending: int, graphs: int) -> None:
        self.is_capturing = False
        self.table[PENDING], self.table[LAUNCH_GRAPH] = pending, graphs

    def follow(self, stream: int, other: int) -> None:
        """What the stream does from now on is behind what the other one has to do so far."""
        event = self.driver.new_event()
        self.driver.record(event, other)
        self.driver.wait_event(event, stream)
        self.driver.destroy_event(event)

    # -- waiting --------------------------------------------------------------------------------------------

    @property
    def is_pending(self) -> bool:
        """Whether launches may be in flight."""
        return self.table[PENDING] != 0 or self._waits > 0

    def launched(self) -> None:
        """Something was given to the device by other means than host code."""
        self.table[PENDING] = 1

    def _refuse_capturing(self) -> None:
        if self.is_capturing:
            raise Unsupported(
                "the host would have to wait for the GPU, or read from it, while launches are recorded for a graph",
                "let the function that is recorded do nothing but launches, of kernels that were launched before",
            )

    def wait(self) -> None:
        """For everything in flight. Raises what went wrong on the device."""
        self._refuse_capturing()
        self.table[PENDING] = 0  # before: what is launched meanwhile sets it again
        self.counters.waits += 1
        self._is_mixed = False
        self._raise_after(self._over(self.driver.wait_all))

    def _over(self, finish: Callable[[], object]) -> Text:
        """Do what leaves nothing in flight; gives what was printed. What was dropped before goes; what is dropped
        meanwhile may be of launches that another thread made behind, and stays as long as there are any.
        """
        dropped, self._trash = self._trash, []
        try:
            with self._waiting():
                _, text = after(self._prints, finish)
            while dropped:
                dropped.pop()[0]()
        finally:
            self._trash[:0] = dropped
        while self._trash and not self.is_pending:
            self._trash.pop()[0]()
        return text

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Inside, launches may be in flight of which the word says nothing: another thread must wait for them too."""
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1

    def settle(self) -> None:
        """Wait if anything may be in flight, also while another thread waits for it."""
        if self.is_pending:
            self.wait()

    def read(self, to: int, source: int, size: int) -> None:
        """Copy from the device to the host, behind all launches. Raises what went wrong on the device."""
        self._refuse_capturing()
        if self._is_mixed:
            self.wait()
        was_pending, self.table[PENDING] = self.table[PENDING], 0
        self.counters.readbacks += 1
        if not was_pending:
            self.driver.copy_out(to, source, size)
            return
        self._raise_after(self._over(partial(self.driver.copy_out, to, source, size)))

    def write(self, to: int, source: int, size: int) -> None:
        """Copy from the host to the device, behind all launches."""
        self._refuse_capturing()
        if self._is_mixed:
            self.wait()
        self.driver.copy_in(to, source, size)
        self.launched()  # the bytes have left the host, and may not have arrived

    def _raise_after(self, text: Text) -> None:
        """Show what was printed, then raise what went wrong on the device, else what the stream of the user raised.

        What that launches is over when this returns; what it prints comes at the next wait.
        """
        try:
            text.show()
        finally:
            self.raise_errors()
        if text.lines and self.is_pending:
            self.driver.wait_all()

    def raise_errors(self) -> None:
        """Raise the first error that stands in a record; what was launched behind it has not run."""
        found = self.records.take()
        if found:
            self.driver.zero(self.halted, 64)
            self.driver.wait()
            raise found[0]()

    # -- what is dropped ------------------------------------------------------------------------------------

    def drop(self, give_back: Callable[[], None], size: int = 0) -> None:
        """Call this when no launch can use what it gives back; may be called by the collector of garbage."""
        self._trash.append((give_back, size))

    def hold(self, thing: object, size: int = 0) -> None:
        """Keep something alive until launches are over."""
        self.drop(partial(_forget, thing), size)

    def tidy(self) -> None:
        """Give back what was dropped, if that takes no wait or there is much of it."""
        if not self._trash or self.is_capturing:
            return
        much = len(self._trash) > _MOST_TRASH or sum(size for _, size in self._trash) > _MOST_TRASH_BYTES
        if self.is_pending and not much:
            return
        finish = self.driver.wait_all if self.is_pending else _nothing
        self._over(finish).show()

    def close(self) -> None:
        """Wait, and give everything back; what went wrong is dropped, what was printed shown."""
        self.table[PENDING] = 0
        text = self._over(self.driver.wait_all)
        self.records.take()
        self.driver.zero(self.halted, 64)
        text.show()


def _show_rest(device: weakref.ref[Device], process: int) -> None:
    """What was printed and never waited for, when the process that opened the device ends."""
    own = device()
    if own is not None and process == os.getpid():
        with suppress(DriverError):
            after(own._prints, own.driver.wait_all)[1].show()


def _nothing() -> None:
    """What there is to wait for where nothing is in flight."""


def _forget(thing: object) -> None:
    """Nothing: the reference goes with the call."""
