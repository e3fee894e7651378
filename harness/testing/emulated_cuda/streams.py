"""This module queues launches, fills and copies on streams; they run when the host waits for them.

This is the worst that asynchrony can do to a host that forgets to wait. The order is that of the driver: work of one
stream runs in order; work on stream 0 runs after all earlier work of other streams, and their later work runs after it;
events add further order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter

QueuedAction = Callable[[], None]


@dataclass
class EmulatedEvent:
    """An `EmulatedEvent` marks a position in a stream and the time at which the stream reached it.

    Attributes:
        stream: the stream of the last work before the event.
        number: the number that this work has in its stream.
        seconds: the time of the host at which this work was over.
    """

    stream: int = -1
    number: int = -1
    seconds: float = 0.0


@dataclass
class Streams:
    """A `Streams` holds the queues of all streams by handle; stream 0 always exists.

    Attributes:
        queues: the numbered work of each stream.
        captures: the work recorded for each stream that is captured.
        executed: the number of pieces of work that have run.
    """

    queues: dict[int, deque[tuple[int, QueuedAction]]] = field(default_factory=lambda: {0: deque()})
    captures: dict[int, list[QueuedAction]] = field(default_factory=dict)
    executed: int = 0
    _numbers: count[int] = field(default_factory=count)

    @property
    def pending(self) -> int:
        """Return the number of queued launches, fills and copies that have not run."""
        return sum(map(len, self.queues.values()))

    def open(self, stream: int) -> None:
        """Add an empty queue for a new stream."""
        self.queues[stream] = deque()

    def close(self, stream: int) -> None:
        """Remove the queue of a stream."""
        del self.queues[stream]

    def drop(self) -> None:
        """Remove the queued actions of all streams without running them."""
        for queue in self.queues.values():
            queue.clear()

    def put(self, stream: int, work: QueuedAction) -> None:
        """Queue work on a stream, or record the work if the stream is being captured for a graph.

        Raises:
            KeyError: there is no such stream.
        """
        if stream in self.captures:
            self.captures[stream].append(work)
        else:
            self.queues[stream].append((next(self._numbers), work))

    def mark(self, stream: int) -> EmulatedEvent:
        """Return a new event that happens after all actions that are queued on the stream now."""
        event = EmulatedEvent(stream)

        def happen() -> None:
            event.seconds = perf_counter()

        self.put(stream, happen)
        if stream not in self.captures:
            event.number = self.queues[stream][-1][0]
        return event

    def put_wait(self, stream: int, event: EmulatedEvent) -> None:
        """Queue a wait on the stream: later actions run only when the event has happened."""
        self.put(stream, lambda: self.run_until(event))

    def run_until(self, event: EmulatedEvent) -> None:
        """Run all queued actions up to an event, the event included."""
        if event.stream in self.queues:
            self.run(event.stream, event.number + 1)

    def run(self, stream: int, before: int | None = None) -> None:
        """Run the queued actions of a stream, and those of other streams for which it waits.

        If `before` is given, only work with a lower number runs.
        """
        queue = self.queues[stream]
        while queue and (before is None or queue[0][0] < before):
            number, work = queue.popleft()
            # Stream 0 waits for all other streams, and every other stream waits for stream 0.
            for other in [0] if stream else list(self.queues):
                if other != stream:
                    self.run(other, number)
            self.executed += 1
            work()

    def run_all(self) -> None:
        """Run the queued actions of all streams."""
        for stream in list(self.queues):
            self.run(stream)
