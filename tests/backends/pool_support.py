"""Make thread pools for single tests, and task functions that record which thread called them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from stackgrad.backends.codegen.layout import BlockLayout
from stackgrad.backends.cpu.pool import ThreadPool, platform_here
from stackgrad.backends.host.jit import NativeCode
from stackgrad.backends.llvm.module import Generated
from stackgrad.compiler.ir.kernels import Kernel

FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)
_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)
ROWS = 16

_TEXT = """
; block: counts of iterations [total], preceded by 16 flags "this row is busy" and 16 words: 0 iteration that fails,
; 1 rows found busy, 2 runs, 3 strides and rows that are wrong
define i32 @note(ptr %block, i64 %first, i64 %last, i64 %stride, i64 %row) {
entry:
  %busy = getelementptr i64, ptr %block, i64 %row
  %was = atomicrmw xchg ptr %busy, i64 1 seq_cst
  %overlaps = getelementptr i64, ptr %block, i64 17
  %o = atomicrmw add ptr %overlaps, i64 %was seq_cst
  %runs = getelementptr i64, ptr %block, i64 18
  %r = atomicrmw add ptr %runs, i64 1 seq_cst
  %odd = icmp ne i64 %stride, 1
  %far = icmp uge i64 %row, 16
  %bad = or i1 %odd, %far
  %bad64 = zext i1 %bad to i64
  %wrong = getelementptr i64, ptr %block, i64 19
  %w = atomicrmw add ptr %wrong, i64 %bad64 seq_cst
  %fails = getelementptr i64, ptr %block, i64 16
  %fail = load i64, ptr %fails
  br label %loop
loop:
  %k = phi i64 [%first, %entry], [%k1, %next]
  %at = add i64 %k, 32
  %place = getelementptr i64, ptr %block, i64 %at
  %count = load i64, ptr %place
  %more = add i64 %count, 1
  store i64 %more, ptr %place
  %k1 = add i64 %k, 1
  %failing = icmp eq i64 %k1, %fail
  br i1 %failing, label %failed, label %next
next:
  %again = icmp ult i64 %k1, %last
  br i1 %again, label %loop, label %done
failed:
  store atomic i64 0, ptr %busy seq_cst, align 8
  ret i32 2
done:
  store atomic i64 0, ptr %busy seq_cst, align 8
  ret i32 0
}
define i32 @empty(ptr %block, i64 %first, i64 %last, i64 %stride, i64 %row) {
  ret i32 0
}
define i32 @told(ptr %block) {
  ret i32 0
}
define i32 @ends(ptr %block) {
  ret i32 2
}
"""


@dataclass
class Notes:
    """Hold the memory in which the task function `note` records its calls, for a number of iterations."""

    memory: np.ndarray

    @classmethod
    def of(cls, total: int) -> Notes:
        return cls(np.zeros(32 + total, np.int64))

    @property
    def counts(self) -> np.ndarray:
        """Return how often each iteration was run."""
        return self.memory[32:]

    @property
    def runs(self) -> int:
        return int(self.memory[18])

    @property
    def faults(self) -> int:
        """Return the number of calls with a row in use by another call, or with an invalid row or stride."""
        return int(self.memory[17] + self.memory[19])

    def fail_after(self, iteration: int) -> None:
        """Let the call that runs this iteration return status 2."""
        self.memory[16] = iteration + 1


class Work:
    """Hold a thread pool whose entry point is a Python function, and the task functions that it runs."""

    def __init__(self, signals: str = "") -> None:
        here = platform_here()
        on = replace(here, signals=signals or here.signals)
        self.pool = ThreadPool(on)
        code = NativeCode(
            Generated(Kernel("notes", (), ()), _TEXT, BlockLayout(), ()), 2, ("note", "empty", "told", "ends")
        )
        self.code = code
        self.note, self.empty = code.addresses["note"], code.addresses["empty"]
        self._run: Callable[[int, int, int, int, int, int], int] = _RUN(self.pool.run)

    def run(self, notes: Notes, grain: int, threads: int, poll: str = "told") -> int:
        """Run `note` over all iterations and return the status; the launching thread polls by the function `poll`."""
        asked = self.code.addresses[poll]
        return self._run(self.note, notes.memory.ctypes.data, len(notes.counts), grain, threads, asked)

    def call(self, function: int, total: int, grain: int, threads: int) -> int:
        """Run any task function without an argument block, and return the status."""
        return self._run(function, 0, total, grain, threads, self.code.addresses["told"])
