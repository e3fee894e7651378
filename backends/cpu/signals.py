"""This module lets running kernels react to signals such as Ctrl-C: native code calls `sg.signals` regularly.

`sg.signals(place) -> i32` takes the interpreter's lock and lets Python call the handlers of signals that have come.
What a handler raises, KeyboardInterrupt for Ctrl-C, it stores at a place of the block, and gives 1; `raise_signal`
raises it when the launch is over. Only the main thread handles signals; on other threads the function does nothing.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from typing import Any

from ...compiler.ir.kernels import Kernel
from ..base import LaunchTooLong
from ..codegen.layout import BlockLayout
from ..forks import free_in_child
from ..host.block import ArgumentBlock
from ..host.jit import NativeCode
from ..llvm.module import Generated
from ..llvm.polls import TOO_LONG

_TEXT = """
@functions = internal global [5 x ptr] zeroinitializer   ; what `sg.signals.set` was given
@main = internal global i64 0

define void @sg.signals.set(ptr %identity, ptr %ensure, ptr %check, ptr %fetch, ptr %release, i64 %main) nounwind {
  store ptr %identity, ptr @functions
  store ptr %ensure, ptr getelementptr ([5 x ptr], ptr @functions, i64 0, i64 1)
  store ptr %check, ptr getelementptr ([5 x ptr], ptr @functions, i64 0, i64 2)
  store ptr %fetch, ptr getelementptr ([5 x ptr], ptr @functions, i64 0, i64 3)
  store ptr %release, ptr getelementptr ([5 x ptr], ptr @functions, i64 0, i64 4)
  store i64 %main, ptr @main
  ret void
}

define i32 @sg.signals(ptr %place) nounwind {
entry:
  %identity = load ptr, ptr @functions
  %here = call i64 %identity()
  %main = load i64, ptr @main
  %is.main = icmp eq i64 %here, %main
  br i1 %is.main, label %look, label %well
look:
  %ensure = load ptr, ptr getelementptr ([5 x ptr], ptr @functions, i64 0, i64 1)
  %check = load ptr, ptr getelementptr ([5 x ptr], ptr @functions, i64 0, i64 2)
  %release = load ptr, ptr getelementptr ([5 x ptr], ptr @functions, i64 0, i64 4)
  %state = call i32 %ensure()
  %found = call i32 %check()
  %is.raised = icmp ne i32 %found, 0
  br i1 %is.raised, label %raised, label %none
raised:
  %fetch = load ptr, ptr getelementptr ([5 x ptr], ptr @functions, i64 0, i64 3)
  %value = getelementptr i64, ptr %place, i64 1
  %trace = getelementptr i64, ptr %place, i64 2
  call void %fetch(ptr %place, ptr %value, ptr %trace)
  call void %release(i32 %state)
  ret i32 1
none:
  call void %release(i32 %state)
  br label %well
well:
  ret i32 0
}
"""

_FUNCTIONS = (
    "PyThread_get_thread_ident",
    "PyGILState_Ensure",
    "PyErr_CheckSignals",
    "PyErr_Fetch",
    "PyGILState_Release",
)
_LOCK = free_in_child(threading.Lock())


def signals() -> int:
    """Return the address of the native function `sg.signals`, or 0 if the Python interpreter lacks its C API."""
    with _LOCK:
        return _signals()


@cache
def _signals() -> int:
    """Compile `sg.signals` for the life of the process and return its address, or 0 if that is not possible."""
    try:
        functions = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _FUNCTIONS]
    except AttributeError:
        return 0
    exports = ("sg.signals", "sg.signals.set")
    code = NativeCode(Generated(Kernel("signals", (), ()), _TEXT, BlockLayout(), ()), 0, exports)
    # The code is never unloaded, because a launch may be in it.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    tell = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5, ctypes.c_uint64)(code.addresses["sg.signals.set"])

    def settle() -> None:
        tell(*functions, threading.main_thread().ident or 0)

    settle()
    if hasattr(os, "register_at_fork"):
        # A thread that forks is the child's main thread.
        os.register_at_fork(after_in_child=settle)
    return code.addresses["sg.signals"]


_restore: Any = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 3)(("PyErr_Restore", ctypes.pythonapi))


STOP = 1
"""This number stands in the block in place of what a handler raised inside a callback, which keeps the exception."""


def raise_signal(block: ArgumentBlock) -> None:
    """Raise the exception that a signal handler raised during a launch; return if it raised none.

    An error of the launch is forgotten then.
    """
    at = block.layout.raised_at
    raised = [block.word(at + 8 * k) for k in range(3)]
    if not raised[0]:
        return
    for k in range(3):
        block.put(at + 8 * k, 0)
    block.take_error()
    if raised[0] == TOO_LONG:
        raise LaunchTooLong
    if raised[0] != STOP:
        _restore(*raised)
