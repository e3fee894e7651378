"""This module manages one GPU: its current stream, pending launches, errors that kernels recorded, and waiting.

Invariant: code that reads memory of the device on the host calls `wait`, or copies through the current stream, first;
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
from ..base import DeviceCounters
from ..codegen.prints import BYTES, PrintBuffer, PrintedText, finish_and_collect
from ..device.error_reader import Record
from ..device.queue import DeviceQueue
from ..words import address_of, words
from .driver import Driver, DriverError
from .driver_table import ADDRESSES, CONTEXT, LAUNCH_GRAPH, MOST, PENDING, STREAM, TABLE
from .graph_replay import PATIENCE

RESIDENT = 2048
"""Threads that a multiprocessor holds at once."""

_RECORD_WORDS, _RECORDS = 4, 512


class ErrorRecords:
    """Manage error records in pinned host memory, one per executable: site number + 1, and two values."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._slabs: list[tuple[int, np.ndarray]] = []
        self._free: list[int] = []
        self.readers: dict[int, Callable[[Record], StackgradError]] = {}

    def claim(self, reader: Callable[[Record], StackgradError]) -> int:
        """Return the address of a new error record; `reader` converts its contents to an exception."""
        if not self._free:
            self._grow()
        address = self._free.pop()
        self.readers[address] = reader
        return address

    def release(self, address: int) -> None:
        """Mark the error record at an address as free, so that another executable can use it."""
        if self.readers.pop(address, None) is not None:
            self._free.append(address)

    def _grow(self) -> None:
        """Allocate pinned memory for further error records."""
        size = 8 * _RECORD_WORDS * _RECORDS
        base = self._driver.allocate_pinned(size)
        ctypes.memset(base, 0, size)
        pinned = (ctypes.c_int64 * (_RECORD_WORDS * _RECORDS)).from_address(base)
        view = np.ctypeslib.as_array(pinned).reshape(_RECORDS, _RECORD_WORDS)
        self._slabs.append((base, view))
        self._free += [base + 8 * _RECORD_WORDS * k for k in reversed(range(_RECORDS))]

    def take(self) -> list[Callable[[], StackgradError]]:
        """Return the functions that make the exceptions for recorded errors, and clear these records."""
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
        """Free the memory of all error records."""
        for base, _ in self._slabs:
            self._driver.free_pinned(base)
        self._slabs, self._free = [], []
        self.readers.clear()


@dataclass
class CudaDevice(DeviceQueue):
    """Represent a GPU: its driver, streams, error records, and memory to be freed later.

    Attributes:
        driver: Driver of the GPU.
        counters: Numbers of waits and of copies to the host.
        is_capturing: Launches are being recorded for a graph.
        patience: Launches in a row before a graph is made; see graph_replay.py.
        graphs: Number of graphs of launches that repeat.
        followers: Called when another stream becomes the current one.
        forgetters: Called when a stream is about to be destroyed.
        table: Words that native code reads; see driver_table.py.
        halted: Address of the word that stops later entries after an error.
        records: Error records of all executables on this GPU.
    """

    driver: Driver
    counters: DeviceCounters = field(default_factory=DeviceCounters)
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
        self.records = ErrorRecords(driver)
        self._prints: PrintBuffer | None = None
        self._is_mixed = False
        self._waits = 0
        self._trash = []

    @property
    def table_address(self) -> int:
        """Return the address of the table of driver functions and state that native code reads."""
        return address_of(self.table)

    @property
    def prints(self) -> PrintBuffer:
        """Return the buffer that kernels print to, made when the first kernel that prints is compiled."""
        if self._prints is None:
            self._prints = PrintBuffer(self.driver.allocate_pinned(BYTES))
            # What is printed and never waited for is shown at the end of the process.
            atexit.register(_show_rest, weakref.ref(self), os.getpid())
        return self._prints

    # -- streams --------------------------------------------------------------------------------------------

    @property
    def stream(self) -> int:
        """Return the current stream, to which launches and copies go; 0 is CUDA's default stream."""
        return self.driver.stream

    @stream.setter
    def stream(self, stream: int) -> None:
        """Make another stream the current one."""
        if stream == self.driver.stream:
            return
        self._is_mixed |= self.is_pending
        self.driver.stream = self.table[STREAM] = stream
        for follow in self.followers:
            follow(stream)

    def new_stream(self) -> int:
        """Return a new stream."""
        return self.driver.new_stream()

    def destroy_stream(self, stream: int) -> None:
        """Destroy a stream after its work is done, and free the memory that is kept for it."""
        if stream == self.stream:
            self.stream = 0
        self.driver.wait(stream)
        for forget in self.forgetters:
            forget(stream)
        self.driver.destroy_stream(stream)

    @contextmanager
    def on(self, stream: int) -> Iterator[None]:
        """Issue launches and copies on the given stream during the `with` block."""
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before

    @contextmanager
    def between(self, stream: int) -> Iterator[None]:
        """Make a stream current for the `with` block, ordered after and before the work of the outer stream."""
        own = self.stream
        self.follow(stream, own)
        with self.on(stream):
            yield
        self.follow(own, stream)

    @contextmanager
    def capturing(self, stream: int) -> Iterator[list[int]]:
        """Record the launches of the `with` block as a CUDA graph, which is appended to the yielded list at its end.

        Nothing can be waited for inside.
        """
        made: list[int] = []
        pending = self.table[PENDING]
        with self.on(stream):
            self.driver.begin_capture(stream)
            # A graph is recorded of single launches.
            graphs, self.table[LAUNCH_GRAPH] = self.table[LAUNCH_GRAPH], 0
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
        """Restore the words of the driver's table that recording a graph has changed."""
        self.is_capturing = False
        self.table[PENDING], self.table[LAUNCH_GRAPH] = pending, graphs

    def follow(self, stream: int, other: int) -> None:
        """Make later work of `stream` wait for all work that `other` has so far; the host does not wait."""
        event = self.driver.new_event()
        self.driver.record(event, other)
        self.driver.wait_event(event, stream)
        self.driver.destroy_event(event)

    # -- waiting --------------------------------------------------------------------------------------------

    @property
    def is_pending(self) -> bool:
        """Return True if launches may be in flight."""
        return self.table[PENDING] != 0 or self._waits > 0

    def launched(self) -> None:
        """Record that work is in flight on the device that was not started by the host code of a kernel."""
        self.table[PENDING] = 1

    def _refuse_capturing(self) -> None:
        """Raise Unsupported while launches are recorded as a CUDA graph, because the host cannot wait or read then."""
        if self.is_capturing:
            raise Unsupported(
                "the host would have to wait for the GPU, or read from it, while launches are recorded for a graph",
                "let the function that is recorded do nothing but launches, of kernels that were launched before",
            )

    def wait(self) -> None:
        """Wait for everything in flight; raise the device's error if there is one."""
        self._refuse_capturing()
        # The word is cleared first: what is launched meanwhile sets it again.
        self.table[PENDING] = 0
        self.counters.waits += 1
        self._is_mixed = False
        self._raise_after(self._over(self.driver.wait_all))

    def _over(self, finish: Callable[[], object]) -> PrintedText:
        """Call `finish`, which waits for the device; free dropped memory and return the text that kernels printed."""
        # What was dropped before goes back. What is dropped meanwhile may belong to launches that another thread has
        # made since, and stays as long as there are any.
        dropped, self._trash = self._trash, []
        try:
            with self._waiting():
                _, text = finish_and_collect(self._prints, finish)
            while dropped:
                dropped.pop()[0]()
        finally:
            self._trash[:0] = dropped
        while self._trash and not self.is_pending:
            self._trash.pop()[0]()
        return text

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Keep `is_pending` True during the `with` block, in which this thread waits for work on the device.

        The word PENDING is cleared before the wait, so other threads would take the work for finished.
        """
        # Another thread must wait for them too.
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1

    def finish(self) -> None:
        """Wait for the work of the current stream; an error that it recorded stays for `wait` to raise."""
        self.driver.wait()

    def read(self, to: int, source: int, size: int) -> None:
        """Copy from the device to the host, after all launches; raise the device's error if there is one.

        Args:
            to: Address on the host.
            source: Address on the device.
            size: Number of bytes.
        """
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
        """Copy from the host to the device, after all launches.

        Args:
            to: Address on the device.
            source: Address on the host.
            size: Number of bytes.
        """
        self._refuse_capturing()
        if self._is_mixed:
            self.wait()
        self.driver.copy_in(to, source, size)
        # The bytes have left the host, and may not have arrived.
        self.launched()

    def _raise_after(self, text: PrintedText) -> None:
        """Show the text that kernels printed; then raise the device's error, or an error of writing the text.

        If writing the text launches kernels (the user may have replaced the output stream), these launches are over
        when this method returns; their prints are shown at the next wait.
        """
        try:
            text.show()
        finally:
            self.raise_errors()
        if text.lines and self.is_pending:
            self.driver.wait_all()

    def raise_errors(self) -> None:
        """Raise the first error that kernels have recorded; launches after the failed one have not run."""
        found = self.records.take()
        if found:
            self.driver.zero(self.halted, 64)
            self.driver.wait()
            raise found[0]()

    # -- what is dropped ------------------------------------------------------------------------------------

    def hold(self, thing: object, size: int = 0) -> None:
        """Keep an object alive until all launches that are in flight now are over."""
        self.drop(partial(_forget, thing), size)

    def tidy(self) -> None:
        """Free dropped memory if no launch is in flight; if much memory was dropped, wait for the launches first."""
        if not self._trash or self.is_capturing:
            return
        if self.is_pending and not self._has_much_trash:
            return
        finish = self.driver.wait_all if self.is_pending else _nothing
        self._over(finish).show()

    def close(self) -> None:
        """Wait for the device, free all its memory and show printed text; device errors are dropped."""
        self.table[PENDING] = 0
        text = self._over(self.driver.wait_all)
        self.records.take()
        self.driver.zero(self.halted, 64)
        text.show()


def _show_rest(device: weakref.ref[CudaDevice], process: int) -> None:
    """Print, at exit of the process that opened the device, the text that was not shown before."""
    own = device()
    if own is not None and process == os.getpid():
        with suppress(DriverError):
            finish_and_collect(own._prints, own.driver.wait_all)[1].show()


def _nothing() -> None:
    """Do nothing; this function takes the place of a wait if no work is in flight."""


def _forget(thing: object) -> None:
    """Do nothing; `hold` registers this function with an object, so that the object lives until the call."""
