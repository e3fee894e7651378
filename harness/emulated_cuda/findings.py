"""What the emulated device has seen that a program should not do."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("reads", "writes", "updates")


@dataclass(frozen=True)
class Race:
    """Threads of one launch that meet at an address: the first of `count`. kind: what `thread` does there."""

    entry: str
    count: int
    kind: str
    thread: int
    other: int
    place: str

    def __str__(self) -> str:
        met = "wrote" if self.kind == "reads" else "accessed"
        what = f"thread {self.thread} {self.kind} what {self.other} {met}"
        return f"{self.entry}, {self.count} races: {what}: {self.place}"


@dataclass(frozen=True)
class Leak:
    """Memory that was not given back, and who asked for it."""

    bytes: int
    kind: str
    asked: str
