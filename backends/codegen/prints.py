"""Convert what compiled code prints into text, and manage the buffer through which GPU kernels print.

A thread of a GPU claims room in the buffer by one atomic addition and writes a record there; the host prints all
records when it next waits for the device. Records come in any order, so they name what orders them:

    buffer   word 0      words claimed so far, those for which there was no room among them
             word 1      prints for which there was no room
             HEADER ...  records, one after another
    record   word 0      number of the executable, see `PrintBuffer.claim`
             word 1      its words, shifted by 32, and the number of the print's site + 1
             word 2      of the launch: where its first record begins, + 1
             word 3      number of the iteration
             HEAD ...    arguments, one a word, in the form they have in memory

Lines come launch by launch, task by task, in the order of iterations: the order of a CPU. Invariant: nothing that
prints runs while the buffer is read and emptied; `lock` is held for both, and for starting a launch that prints.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Kernel, Task
from ...compiler.ir.texts import printed_text
from ...compiler.ir.walk import walk_kernel, walk_task

if TYPE_CHECKING:
    from .emit import Site

HEADER, HEAD = 8, 4
"""Words before the records, and words of a record before its arguments."""

CAPACITY = 1 << 17
"""Number of words for records: 1 MiB."""

BYTES = 8 * (HEADER + CAPACITY)
"""Bytes of the whole buffer."""


def prints(task: Task) -> bool:
    """Return True if a task contains a print statement."""
    return any(isinstance(stmt, n.Print) for stmt in walk_task(task))


def is_printing(kernel: Kernel) -> bool:
    """Return True if a kernel contains a print statement."""
    return any(isinstance(stmt, n.Print) for stmt in walk_kernel(kernel))


def text_of(stmt: n.Print, arguments: int) -> str:
    """Return the text that a print statement prints, given the address of its arguments (8-byte words)."""
    return printed_text(stmt.template, [_argument(stmt, arguments, place) for place in range(len(stmt.args))])


def _argument(stmt: n.Print, arguments: int, place: int) -> np.generic:
    """Return the value of argument number `place` of a print statement, read from memory."""
    dtype = stmt.args[place].type.dtype
    found: np.generic = np.frombuffer(ctypes.string_at(arguments + 8 * place, dtype.itemsize), dtype)[0]
    return found


@dataclass(frozen=True)
class _Record:
    """Represent one record of the print buffer: a print made by one iteration of a launch.

    Attributes:
        at: its first word, counted from the first record
        owner: number of the executable
        site: number of the print's site
        launch: place of the first record of the launch, + 1
        iteration: number of the iteration
    """

    at: int
    owner: int
    site: int
    launch: int
    iteration: int


class PrintBuffer:
    """Represent the memory into which kernels of one device print, with its addresses for host and device.

    Attributes:
        address: address for the host
        on_device: address for kernels
        lock: held while the buffer is emptied, and while a launch that prints is started
    """

    def __init__(self, address: int, on_device: int | None = None) -> None:
        """Use BYTES bytes at `address` as the buffer and set them to 0; the device must be able to write them."""
        ctypes.memset(address, 0, BYTES)
        self.address = address
        self.on_device = address if on_device is None else on_device
        self.lock = threading.RLock()
        memory = (ctypes.c_int64 * (BYTES // 8)).from_address(address)
        self._words = np.ctypeslib.as_array(memory)
        self._sites: dict[int, tuple[str, Sequence[Site]]] = {}
        self._claimed = 0

    def claim(self, kernel: Kernel, sites: Sequence[Site]) -> int:
        """Register an executable, and return the number by which its print records name it."""
        with self.lock:
            self._claimed += 1
            self._sites[self._claimed] = kernel.name, sites
            return self._claimed

    def release(self, number: int) -> None:
        """Unregister executable `number` from the print buffer. None of its launches may be in flight.

        The text that the executable printed must have been read before.
        """
        self._sites.pop(number, None)

    def take(self) -> PrintedText:
        """Empty the print buffer and return its text and the number of lost prints; the caller holds the lock."""
        claimed, lost = int(self._words[0]), int(self._words[1])
        if not claimed and not lost:
            return NOTHING
        records = sorted(self._records(), key=lambda r: (r.launch, self._task(r), r.iteration, r.at))
        lines = "".join(self._text(record) for record in records)
        self._words[: HEADER + min(claimed, CAPACITY)] = 0
        return PrintedText(lines, lost)

    def _records(self) -> Iterator[_Record]:
        """Yield the records of the print buffer in the order of their addresses."""
        at = 0
        while at + HEAD <= CAPACITY:
            owner, head, launch, iteration = self._words[HEADER + at : HEADER + at + HEAD].tolist()
            # A record without a site has found no room, and nothing stands behind it.
            if not head:
                return
            if owner in self._sites:
                yield _Record(at, owner, (head & 0xFFFFFFFF) - 1, launch, iteration)
            at += head >> 32

    def _site(self, record: _Record) -> Site:
        """Return the print site that a record names."""
        return self._sites[record.owner][1][record.site]

    def _task(self, record: _Record) -> int:
        """Return the index of the task that wrote a record."""
        return self._site(record).task

    def _text(self, record: _Record) -> str:
        """Return the text that the print statement of a record printed."""
        stmt = self._site(record).stmt
        assert isinstance(stmt, n.Print)
        return text_of(stmt, self.address + 8 * (HEADER + record.at + HEAD))


@dataclass(frozen=True)
class PrintedText:
    """Represent the text that launches have printed, and the number of prints for which the buffer had no room.

    Attributes:
        lines: the printed text, line by line
        lost: number of prints for which the buffer had no room
    """

    lines: str = ""
    lost: int = 0

    def show(self) -> None:
        """Write the text to standard output; exceptions of the user's output stream are raised."""
        if self.lines:
            print(self.lines, end="", flush=True)
        if self.lost:
            print(_LOST.format(self.lost, CAPACITY * 8), file=sys.stderr, flush=True)


NOTHING = PrintedText()

Given = TypeVar("Given")


def finish_and_collect(prints: PrintBuffer | None, finish: Callable[[], Given]) -> tuple[Given, PrintedText]:
    """Wait until no launch prints, by calling `finish`, and return its result and the text printed until then."""
    if prints is None:
        return finish(), NOTHING
    with prints.lock:
        return finish(), prints.take()


_LOST = (
    "stackgrad: {} prints of kernels were lost: between two waits for the device there is room for {} bytes; cure: "
    "call sg.sync() more often, or print less"
)
