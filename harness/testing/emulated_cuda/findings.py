"""This module defines the errors that the emulated device detects in programs: races and memory leaks."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("reads", "writes", "updates")


@dataclass(frozen=True)
class Race:
    """A `Race` describes the first of `count` conflicting accesses by two threads of one launch.

    Attributes:
        entry: the name of the entry.
        count: the number of races of the launch.
        kind: what `thread` does at the address.
        thread: the number of the thread that came later.
        other: the number of the thread that came first.
        place: the address, described by its allocation.
    """

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
    """A `Leak` describes an allocation that was not freed, with the code location that allocated it."""

    bytes: int
    kind: str
    asked: str
