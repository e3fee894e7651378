"""Numbers by which reports and messages name a task: the same in every process that compiles the same kernel.

    id = FNV-1a of 32 bits over (name of the kernel, its specialisation, index of the task)

A specialisation is known by what was made of it: a digest of the kernel's text. Two tasks never share a number: one
that meets a number already given to another takes the next that is free. 0 is no number.
"""

from __future__ import annotations

import hashlib
import threading

from ..compiler.ir.nodes import Kernel
from ..compiler.ir.printer import print_kernel
from .forks import free_in_child

_OFFSET, _PRIME, _BITS = 0x811C9DC5, 0x01000193, 32


def fnv1a(data: bytes) -> int:
    """FNV-1a of 32 bits."""
    found = _OFFSET
    for byte in data:
        found = (found ^ byte) * _PRIME & (1 << _BITS) - 1
    return found


def specialisation(kernel: Kernel) -> str:
    """What tells kernels of one name apart: a digest of the text, without the lines of the source."""
    return hashlib.sha256(print_kernel(kernel).encode()).hexdigest()[:16]


class TaskIds:
    """Numbers given so far, with what they name: (kernel, specialisation, task)."""

    def __init__(self) -> None:
        self._given: dict[int, tuple[str, str, int]] = {}
        self._lock = free_in_child(threading.Lock())

    def of(self, kernel: Kernel, task: int) -> int:
        """The number of a task."""
        made = vars(kernel).get("specialisation")
        if made is None:
            made = vars(kernel)["specialisation"] = specialisation(kernel)
        return self.number(kernel.name, made, task)

    def number(self, name: str, made: str, task: int) -> int:
        """The number of a task by the name and the specialisation of its kernel."""
        key = name, made, task
        with self._lock:
            at = self.first(*key)
            while at == 0 or self._given.get(at, key) != key:
                at = (at + 1) & (1 << _BITS) - 1
            self._given[at] = key
        return at

    @staticmethod
    def first(name: str, made: str, task: int) -> int:
        """The number that a task has where no other has it."""
        return fnv1a(f"{name}\0{made}\0{task}".encode())

    def named(self, number: int) -> tuple[str, str, int] | None:
        """Kernel, specialisation and task of a number that was given."""
        return self._given.get(number)


TASK_IDS = TaskIds()
"""Those of this process."""
