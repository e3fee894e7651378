"""This module represents what the emulated device has seen that a program must not do: races and leaks."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("reads", "writes", "updates")


@dataclass(frozen=True)
class Race:
    """Represent the first of `count` meetings of two threads of one launch at an address.

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
    """Represent memory that was not freed, with the place in the code that allocated it."""

    bytes: int
    kind: str
    asked: str
