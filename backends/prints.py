"""Prints: from the words that compiled code writes to text, and the buffer through which kernels of a GPU print.

A thread of a GPU claims room in the buffer by one atomic addition and writes a record there; the host prints all
records when it next waits for the device. Records come in any order, so they name what orders them:

    buffer   word 0      words claimed so far, those for which there was no room among them
             word 1      prints for which there was no room
             HEADER ...  records, one after another
    record   word 0      number of the executable, see `Prints.claim`
             word 1      its words, shifted by 32, and the number of the print's site + 1
             word 2      of the launch: where its first record begins, + 1
             word 3      number of the iteration
             HEAD ...    arguments, one a word, in the form they have in memory

Lines come launch by launch, task by task, in the order of iterations: in that of a CPU. Invariant: nothing that prints
runs while the buffer is read and emptied; `lock` is held for both, and for starting a launch that prints.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..compiler.ir import nodes as n
from ..compiler.ir.nodes import Kernel, Task
from ..compiler.ir.texts import printed
from ..compiler.ir.walk import walk_kernel, walk_task

if TYPE_CHECKING:
    from .llvm.emit import Site

HEADER, HEAD = 8, 4
"""Words before the records, and of a record before its arguments."""

CAPACITY = 1 << 17
"""Words for records: 1 MiB."""

BYTES = 8 * (HEADER + CAPACITY)
"""Of the whole buffer."""


def prints(task: Task) -> bool:
    """Whether a task prints."""
    return any(isinstance(stmt, n.Print) for stmt in walk_task(task))


def is_printing(kernel: Kernel) -> bool:
    """Whether a kernel prints."""
    return any(isinstance(stmt, n.Print) for stmt in walk_kernel(kernel))


def text_of(stmt: n.Print, arguments: int) -> str:
    """The text of a print; arguments: address of its 8-byte slots."""
    return printed(stmt.template, [_argument(stmt, arguments, place) for place in range(len(stmt.args))])


def _argument(stmt: n.Print, arguments: int, place: int) -> np.generic:
    dtype = stmt.args[place].type.dtype
    found: np.generic = np.frombuffer(ctypes.string_at(arguments + 8 * place, dtype.itemsize), dtype)[0]
    return found


@dataclass(frozen=True)
class _Record:
    """A record as it lies in the buffer. at: its first word, counted from the first record."""

    at: int
    owner: int
    site: int
    launch: int
    iteration: int


class Prints:
    """The buffer of one device. address, on_device: of its memory, for the host and for kernels. lock: see above."""

    def __init__(self, address: int, on_device: int | None = None) -> None:
        """address: of BYTES bytes, which the device can write, of any content."""
        ctypes.memset(address, 0, BYTES)
        self.address = address
        self.on_device = address if on_device is None else on_device
        self.lock = threading.RLock()
        memory = (ctypes.c_int64 * (BYTES // 8)).from_address(address)
        self._words = np.ctypeslib.as_array(memory)
        self._sites: dict[int, tuple[str, Sequence[Site]]] = {}
        self._claimed = 0

    def claim(self, kernel: Kernel, sites: Sequence[Site]) -> int:
        """A number for an executable: what the numbers of sites in its records mean."""
        with self.lock:
            self._claimed += 1
            self._sites[self._claimed] = kernel.name, sites
            return self._claimed

    def release(self, number: int) -> None:
        """No launch of the executable is under way, and what it printed has been taken."""
        self._sites.pop(number, None)

    def take(self) -> Text:
        """All that was printed, and how much was lost. Empties the buffer. The caller holds the lock."""
        claimed, lost = int(self._words[0]), int(self._words[1])
        if not claimed and not lost:
            return NOTHING
        records = sorted(self._records(), key=lambda r: (r.launch, self._task(r), r.iteration, r.at))
        lines = "".join(self._text(record) for record in records)
        self._words[: HEADER + min(claimed, CAPACITY)] = 0
        return Text(lines, lost)

    def _records(self) -> Iterator[_Record]:
        """In the order of memory. One without a site has found no room; nothing stands behind it."""
        at = 0
        while at + HEAD <= CAPACITY:
            owner, head, launch, iteration = self._words[HEADER + at : HEADER + at + HEAD].tolist()
            if not head:
                return
            if owner in self._sites:
                yield _Record(at, owner, (head & 0xFFFFFFFF) - 1, launch, iteration)
            at += head >> 32

    def _site(self, record: _Record) -> Site:
        return self._sites[record.owner][1][record.site]

    def _task(self, record: _Record) -> int:
        return self._site(record).task

    def _text(self, record: _Record) -> str:
        stmt = self._site(record).stmt
        assert isinstance(stmt, n.Print)
        return text_of(stmt, self.address + 8 * (HEADER + record.at + HEAD))


@dataclass(frozen=True)
class Text:
    """What launches have printed. lost: prints for which the buffer had no room."""

    lines: str = ""
    lost: int = 0

    def show(self) -> None:
        """Print it. Raises what the stream of the user raises."""
        if self.lines:
            print(self.lines, end="", flush=True)
        if self.lost:
            print(_LOST.format(self.lost, CAPACITY * 8), file=sys.stderr, flush=True)


NOTHING = Text()

Given = TypeVar("Given")


def after(prints: Prints | None, finish: Callable[[], Given]) -> tuple[Given, Text]:
    """Do what leaves nothing in flight that prints. Gives its result, and what was printed until then."""
    if prints is None:
        return finish(), NOTHING
    with prints.lock:
        return finish(), prints.take()


_LOST = (
    "stackgrad: {} prints of kernels were lost: between two waits for the device there is room for {} bytes; cure: "
    "call sg.sync() more often, or print less"
)
