"""Number tasks for reports and messages, with the same number in every process that compiles the same kernel.

    id = FNV-1a of 32 bits over (name of the kernel, its specialization, index of the task)

A digest of the kernel's text identifies a specialization. Two tasks never share a number: a task whose number is
already given to another task takes the next free number. 0 is no number.
"""

from __future__ import annotations

import hashlib
import threading

from ...compiler.ir.kernels import Kernel
from ...compiler.ir.printer import print_kernel
from ..forks import free_in_child

_OFFSET, _PRIME, _BITS = 0x811C9DC5, 0x01000193, 32


def fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash of a text."""
    found = _OFFSET
    for byte in data:
        found = (found ^ byte) * _PRIME & (1 << _BITS) - 1
    return found


def kernel_digest(kernel: Kernel) -> str:
    """Return a digest of the kernel's text without source lines, which distinguishes kernels of one name."""
    return hashlib.sha256(print_kernel(kernel).encode()).hexdigest()[:16]


class TaskIds:
    """Assign numbers to tasks and remember the kernel, specialization and task of each number."""

    def __init__(self) -> None:
        self._given: dict[int, tuple[str, str, int]] = {}
        self._lock = free_in_child(threading.Lock())

    def of(self, kernel: Kernel, task: int) -> int:
        """Return the number by which reports and messages name a task of a kernel."""
        made = vars(kernel).get("specialization")
        if made is None:
            made = vars(kernel)["specialization"] = kernel_digest(kernel)
        return self.number(kernel.name, made, task)

    def number(self, name: str, made: str, task: int) -> int:
        """Return the number of a task; `name` is that of its kernel, and `made` the digest of its specialization."""
        key = name, made, task
        with self._lock:
            at = self.first(*key)
            while at == 0 or self._given.get(at, key) != key:
                at = (at + 1) & (1 << _BITS) - 1
            self._given[at] = key
        return at

    @staticmethod
    def first(name: str, made: str, task: int) -> int:
        """Return the hash of a task, which is its number unless another task has this number already."""
        return fnv1a(f"{name}\0{made}\0{task}".encode())

    def named(self, number: int) -> tuple[str, str, int] | None:
        """Return (kernel name, specialization, task index) of the task with a number, or None if no task has it."""
        return self._given.get(number)


TASK_IDS = TaskIds()
"""The numbers of this process."""
