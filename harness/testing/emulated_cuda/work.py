"""This module implements streams, events and graphs of the emulated driver, and watches managed memory.

The host cannot access managed memory (guard.py) while anything is queued that has not run.
"""

from __future__ import annotations

import faulthandler
import itertools
import signal
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ....backends.cuda.driver import DriverError
from .guard import GUARDED, guard
from .refusals import refusal
from .streams import EmulatedEvent, Streams


class PendingWork:
    """This class is the part of the emulated driver that queues work on streams, and runs it when the host waits.

    Attributes:
        stream: the stream that calls without a stream argument use.
        counts: the number of calls by name.
    """

    def __init__(self) -> None:
        self.stream = 0
        self.counts: Counter[str] = Counter()
        self._words = array("Q", [0, 0, 0])  # see guard.py
        self._streams = Streams()
        self._lock = threading.RLock()
        self._running = 0
        self._handles = itertools.count(1 << 20, 16)
        self._events: dict[int, EmulatedEvent | None] = {}
        self._graphs: dict[int, list[Callable[[], None]]] = {}

    @property
    def unawaited(self) -> int:
        """Return how often the host accessed managed memory while work was queued; 0 if this cannot be detected."""
        return int(self._words[1])

    def show_unawaited(self) -> None:
        """Print the Python stack to stderr whenever the host touches managed memory while work is queued."""
        faulthandler.register(signal.SIGUSR1)
        self._words[2] = signal.SIGUSR1

    @property
    def pending(self) -> int:
        """Return the number of queued launches, fills and copies that have not run."""
        return self._streams.pending

    # -- streams, events, graphs ------------------------------------------------------------------------------

    def new_stream(self) -> int:
        """Return the handle of a new stream."""
        handle = next(self._handles)
        self._streams.open(handle)
        return handle

    def destroy_stream(self, stream: int) -> None:
        """Run the work of a stream, then remove the stream."""
        with self._lock:
            self._finish(lambda: self._streams.run(self._known(stream)))
            self._streams.close(stream)

    def _known(self, stream: int | None) -> int:
        own = self.stream if stream is None else stream
        if own not in self._streams.queues:
            raise refusal(400, "a call on a stream", f"stream {own:#x} is not there")
        return own

    def wait(self, stream: int | None = None) -> None:
        """Run the queued work of a stream, by default the current one."""
        with self._lock:
            self.counts["wait"] += 1
            own = self._known(stream)
            if own in self._streams.captures:
                raise refusal(900, "cuStreamSynchronize")
            self._finish(lambda: self._streams.run(own))

    def wait_all(self) -> None:
        """Run the queued work of all streams."""
        with self._lock:
            self.counts["wait all"] += 1
            self._finish(self._streams.run_all)

    def new_event(self) -> int:
        """Return the handle of a new event."""
        handle = next(self._handles)
        self._events[handle] = None
        return handle

    def destroy_event(self, event: int) -> None:
        """Remove an event, which must not be used any more."""
        del self._events[event]

    def record(self, event: int, stream: int | None = None) -> None:
        """Append an event to a stream; it happens when all work queued before it has run."""
        with self._lock:
            self._events[event] = self._streams.mark(self._known(stream))
            self._close()

    def wait_event(self, event: int, stream: int | None = None) -> None:
        """Queue a wait on a stream: its later work runs only when the event has happened."""
        with self._lock:
            behind = self._events[event]
            if behind is not None:
                self._streams.put_wait(self._known(stream), behind)
                self._close()

    def elapsed(self, first: int, last: int) -> float:
        """Return the milliseconds between two events on the clock of the host, after both have happened."""
        with self._lock:
            begin, end = self._events[first], self._events[last]
            assert begin is not None and end is not None, "an event was never recorded"
            for event in (begin, end):
                self._finish(lambda event=event: self._streams.run_until(event))  # type: ignore[misc]
            return 1000 * (end.seconds - begin.seconds)

    def begin_capture(self, stream: int) -> None:
        """Start recording work on the stream into a graph, without running it."""
        self._streams.captures[self._known(stream)] = []

    def end_capture(self, stream: int) -> int:
        """Stop recording on the stream and return the handle of the recorded graph."""
        handle = next(self._handles)
        self._graphs[handle] = self._streams.captures.pop(self._known(stream))
        return handle

    def is_capturing(self, stream: int) -> bool:
        """Return True if work on the stream is being recorded into a graph."""
        return self._known(stream) in self._streams.captures

    def launch_graph(self, graph: int, stream: int | None = None) -> None:
        """Queue the work of a recorded graph on a stream."""
        recorded = list(self._graphs[graph])

        def replay() -> None:
            for work in recorded:
                work()

        self._queue("launch graph", stream, replay)

    def destroy_graph(self, graph: int) -> None:
        """Remove a recorded graph, which must not be launched any more."""
        del self._graphs[graph]

    def _queue(self, what: str, stream: int | None, work: Callable[[], None]) -> None:
        with self._lock:
            self.counts[what] += 1
            self._streams.put(self._known(stream), work)
            self._close()

    def _close(self) -> None:
        """Protect managed memory while work is queued, so that accesses by the host are detected."""
        if GUARDED and not self._running and self._streams.pending and not self._words[0]:
            guard().close(self._words.buffer_info()[0])

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Unprotect managed memory during the `with`, so that the emulator itself can access it."""
        self._running += 1
        if GUARDED and self._words[0]:
            guard().open(self._words.buffer_info()[0])
        try:
            yield
        finally:
            self._running -= 1
            self._close()

    def _finish(self, run: Callable[[], None]) -> None:
        """Call `run`, which runs queued work; if it raises a DriverError, drop the work that is still queued."""
        if not self._streams.pending:
            return
        with self._opened():
            try:
                run()
            except DriverError:
                self._streams.drop()
                raise
