"""This module counts accesses of the host to managed memory during launches, by page protection and a fault handler.

On a device such a read returns what the launch has written by then. In the emulator the pages are closed (`close`) as
long as anything is queued; the first access opens them, is counted in the owner's word, and goes on. The handler must
run in machine code, because the interrupted thread may hold any lock. Faults elsewhere are left to the former handler.

An owner's words are: 1 if its pages are closed, the number of counted accesses, and a signal to raise at each of them
or 0. The words of `_head` are: the address of the entries (low, high, owner), their number, the address of the former
action.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import sys
import threading
from array import array
from functools import cache

from .host_module import HostModule

GUARDED = sys.platform == "linux"
"""True if accesses are counted. Other systems lay out the information of the handler in other ways."""

_ACTION_BYTES, _FLAGS_AT, _SIGINFO = 152, 136, 4
"""Layout of `struct sigaction` of glibc and musl on 64-bit Linux: handler, 128 bytes of mask, flags, restorer."""

_TEXT = """
declare i32 @mprotect(ptr, i64, i32)
declare i32 @raise(i32)
declare i32 @sigaction(i32, ptr, ptr)
define void @protect(ptr %head, i64 %owner, i32 %how) {
  %entries = load ptr, ptr %head
  %count.at = getelementptr i64, ptr %head, i64 1
  %count = load i64, ptr %count.at
  br label %head.of
head.of:
  %k = phi i64 [ 0, %0 ], [ %k.next, %next ]
  %over = icmp uge i64 %k, %count
  br i1 %over, label %done, label %one
one:
  %word = mul i64 %k, 3
  %at = getelementptr i64, ptr %entries, i64 %word
  %owner.at = getelementptr i64, ptr %at, i64 2
  %its = load i64, ptr %owner.at
  %same = icmp eq i64 %its, %owner
  br i1 %same, label %change, label %next
change:
  %low = load i64, ptr %at
  %high.at = getelementptr i64, ptr %at, i64 1
  %high = load i64, ptr %high.at
  %bytes = sub i64 %high, %low
  %place = inttoptr i64 %low to ptr
  %code = call i32 @mprotect(ptr %place, i64 %bytes, i32 %how)
  br label %next
next:
  %k.next = add i64 %k, 1
  br label %head.of
done:
  ret void
}
define void @on_fault(i32 %signal, ptr %info, ptr %context) {
  %head = inttoptr i64 HEAD to ptr
  %where.at = getelementptr i8, ptr %info, i64 16
  %where = load i64, ptr %where.at
  %entries = load ptr, ptr %head
  %count.at = getelementptr i64, ptr %head, i64 1
  %count = load i64, ptr %count.at
  br label %head.of
head.of:
  %k = phi i64 [ 0, %0 ], [ %k.next, %next ]
  %over = icmp uge i64 %k, %count
  br i1 %over, label %foreign, label %one
one:
  %word = mul i64 %k, 3
  %at = getelementptr i64, ptr %entries, i64 %word
  %low = load i64, ptr %at
  %high.at = getelementptr i64, ptr %at, i64 1
  %high = load i64, ptr %high.at
  %above = icmp uge i64 %where, %low
  %below = icmp ult i64 %where, %high
  %inside = and i1 %above, %below
  br i1 %inside, label %ours, label %next
next:
  %k.next = add i64 %k, 1
  br label %head.of
ours:
  %owner.at = getelementptr i64, ptr %at, i64 2
  %owner = load i64, ptr %owner.at
  %words = inttoptr i64 %owner to ptr
  %closed = load i64, ptr %words
  %is.closed = icmp ne i64 %closed, 0
  br i1 %is.closed, label %open, label %foreign
open:
  store i64 0, ptr %words
  %counted.at = getelementptr i64, ptr %words, i64 1
  %counted = load i64, ptr %counted.at
  %more = add i64 %counted, 1
  store i64 %more, ptr %counted.at
  call void @protect(ptr %head, i64 %owner, i32 3)
  %tell.at = getelementptr i64, ptr %words, i64 2
  %tell = load i64, ptr %tell.at
  %silent = icmp eq i64 %tell, 0
  br i1 %silent, label %done, label %loud
loud:
  %told = trunc i64 %tell to i32
  %raised = call i32 @raise(i32 %told)
  br label %done
done:
  ret void
foreign:
  %former.at = getelementptr i64, ptr %head, i64 2
  %former = load ptr, ptr %former.at
  %code = call i32 @sigaction(i32 %signal, ptr %former, ptr null)
  ret void
}
"""


class PageGuard:
    """A `PageGuard` holds the page-fault handler of this process and the address ranges that it watches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ranges: dict[int, tuple[int, int]] = {}
        self._entries = array("Q", bytes(8))
        self._former = ctypes.create_string_buffer(_ACTION_BYTES)
        self._head = array("Q", [0, 0, ctypes.addressof(self._former)])
        self._head_at = self._head.buffer_info()[0]
        self._module = HostModule(_TEXT.replace("HEAD", str(self._head_at)), ["protect", "on_fault"])
        protect = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int)
        self._protect = protect(self._module.addresses["protect"])
        self._sigaction = ctypes.CDLL(None, use_errno=True).sigaction
        self._action = ctypes.create_string_buffer(_ACTION_BYTES)
        ctypes.c_uint64.from_buffer(self._action).value = self._module.addresses["on_fault"]
        ctypes.c_int.from_buffer(self._action, _FLAGS_AT).value = _SIGINFO

    def add(self, low: int, high: int, owner: int) -> None:
        """Add a range of whole pages, which `close(owner)` protects."""
        with self._lock:
            self._ranges[low] = (high, owner)
            self._publish()

    def remove(self, low: int) -> None:
        """Stop watching the address range that begins at `low`."""
        with self._lock:
            del self._ranges[low]
            self._publish()

    def _publish(self) -> None:
        entries = array("Q", [word for low, (high, owner) in self._ranges.items() for word in (low, high, owner)])
        # The handler may run at any time: it must find no entries while the table is exchanged.
        self._head[1] = 0
        self._entries = entries
        self._head[0] = entries.buffer_info()[0]
        self._head[1] = len(self._ranges)

    def close(self, owner: int) -> None:
        """Protect the owner's pages, so that the next access by the host faults and is counted."""
        self._install()
        ctypes.c_uint64.from_address(owner).value = 1
        self._protect(self._head_at, owner, 0)

    def open(self, owner: int) -> None:
        """Unprotect the owner's pages, so that accesses by the host are no longer counted."""
        ctypes.c_uint64.from_address(owner).value = 0
        self._protect(self._head_at, owner, mmap.PROT_READ | mmap.PROT_WRITE)

    def _install(self) -> None:
        """Install the fault handler again, if other code, such as faulthandler, has replaced it."""
        now = ctypes.create_string_buffer(_ACTION_BYTES)
        self._sigaction(signal.SIGSEGV, None, now)
        if now.raw[:8] != self._action.raw[:8]:
            ctypes.memmove(self._former, now, _ACTION_BYTES)
            self._sigaction(signal.SIGSEGV, self._action, None)


@cache
def guard() -> PageGuard:
    """Return the `PageGuard` of this process."""
    return PageGuard()
