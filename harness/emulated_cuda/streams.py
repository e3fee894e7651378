"""What is queued: every launch, fill and copy waits until the host waits for it.

That is the most that asynchrony can do to a host that forgets to wait. Order is the driver's: work of one stream in
order; work on stream 0 behind all earlier work of other streams, and theirs behind its; and events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter

Work = Callable[[], None]


@dataclass
class Event:
    """stream, number: of the last work that it stands behind. seconds: when that was over, by a clock of the host."""

    stream: int = -1
    number: int = -1
    seconds: float = 0.0


@dataclass
class Streams:
    """Streams by handle; 0 is there from the beginning. executed: pieces of work that have run."""

    queues: dict[int, deque[tuple[int, Work]]] = field(default_factory=lambda: {0: deque()})
    captures: dict[int, list[Work]] = field(default_factory=dict)
    executed: int = 0
    _numbers: count[int] = field(default_factory=count)

    @property
    def pending(self) -> int:
        """Pieces of work that have not run."""
        return sum(map(len, self.queues.values()))

    def open(self, stream: int) -> None:
        self.queues[stream] = deque()

    def close(self, stream: int) -> None:
        del self.queues[stream]

    def drop(self) -> None:
        """Forget all that has not run."""
        for queue in self.queues.values():
            queue.clear()

    def put(self, stream: int, work: Work) -> None:
        """Queue; or record, while the stream is being captured. Raises KeyError for a stream that is not there."""
        if stream in self.captures:
            self.captures[stream].append(work)
        else:
            self.queues[stream].append((next(self._numbers), work))

    def mark(self, stream: int) -> Event:
        """An event behind all that the stream has to do."""
        event = Event(stream)

        def happen() -> None:
            event.seconds = perf_counter()

        self.put(stream, happen)
        if stream not in self.captures:
            event.number = self.queues[stream][-1][0]
        return event

    def put_wait(self, stream: int, event: Event) -> None:
        """Let the stream go on behind an event."""
        self.put(stream, lambda: self.run_until(event))

    def run_until(self, event: Event) -> None:
        """Run what stands before an event, and it."""
        if event.stream in self.queues:
            self.run(event.stream, event.number + 1)

    def run(self, stream: int, before: int | None = None) -> None:
        """Run what the stream has to do, and what that stands behind. before: only work with a lower number."""
        queue = self.queues[stream]
        while queue and (before is None or queue[0][0] < before):
            number, work = queue.popleft()
            for other in [0] if stream else list(self.queues):
                if other != stream:
                    self.run(other, number)
            self.executed += 1
            work()

    def run_all(self) -> None:
        for stream in list(self.queues):
            self.run(stream)
