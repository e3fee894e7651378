"""This module builds the launch trampoline: machine code that Python calls as a builtin to launch kernels.

A builtin is made for each root (handles.py). It walks the root's handles, and launches through the first handle that
the call fits. If there is none, if there are keywords, or something must see the launch, it has changed nothing that
the program relies on, and passes the call on to Python. If the launch reports an error, it calls what raises that.

Who owns what. The builtin owns its root and the two Python functions (`m_self` is a tuple of the three), so the root
outlives every call. A root does not own its handles: Python unlinks a handle before it frees it, and never frees a
handle that is TAKEN. Arguments are borrowed from the caller for the length of the call, and so is what they own: the
words and memory of an array. All else that a handle names by address belongs to the maker of the handle
(ready_launch.py). The interpreter's lock is held throughout, so no other Python code runs, unless the launch itself
calls back; what a call back could disturb is marked TAKEN. Invariant: nothing is written to arrays before every check
has passed.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import threading
import time
from array import array
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...compiler.ir.kernels import Kernel
from .. import words as w
from ..codegen.layout import BlockLayout
from ..forks import free_in_child
from ..llvm.module import Generated
from . import handles as h
from .checks import (
    ARGUMENT_CHECK,
    ARRAY_CHECK,
    DISTINCT,
    FIT,
    FLOAT_AT,
    NUMPY_AXES,
    NUMPY_DATA,
    NUMPY_DTYPE,
    NUMPY_EXTENTS,
    NUMPY_FLAGS,
    PIN_CHECK,
    PLACE,
    RUN_AT,
    TYPE_AT,
    byte_at,
    load_text,
    store_text,
)
from .jit import NativeCode
from .run_code import RUN

_TICKS = {
    "x86_64": "  %t = call i64 @llvm.readcyclecounter()",
    "aarch64": '  %t = call i64 asm sideeffect "mrs $0, cntvct_el0", "=r"()',
}

ITEMS_AT = tuple.__basicsize__
"""Offset of the items in a tuple, in bytes."""

_EFFORT = 0
"""Effort of LLVM's optimizer, which takes a tenth of a second for this code, for 3 to 25 ns a call."""

_FITS = f"""
; Whether a call fits a handle. Its arguments stand in the handle's block then.
define internal i1 @fits(ptr %root, ptr %runtime, ptr %handle, ptr %args, i64 %given) nounwind {{
  {load_text("valid", "handle", h.VALID)}
  {load_text("taken", "handle", h.TAKEN)}
  {load_text("born", "handle", h.BORN)}
  {load_text("count", "handle", h.ARGUMENTS)}
  {load_text("generation", "runtime", w.GENERATION)}
  %is.valid = icmp eq i64 %valid, {h.READY}
  %is.idle = icmp eq i64 %taken, 0
  %is.young = icmp eq i64 %born, %generation
  %is.count = icmp eq i64 %count, %given
  %one = and i1 %is.valid, %is.idle
  %two = and i1 %is.young, %is.count
  %ready = and i1 %one, %two
  br i1 %ready, label %pins, label %refuse
pins:
  %is.pinned = call i1 @pinned(ptr %handle)
  br i1 %is.pinned, label %memory, label %refuse
memory:
  {load_text("heap", "handle", h.HEAP, "ptr")}
  %is.lean = icmp eq ptr %heap, null
  br i1 %is.lean, label %arguments, label %bound
bound:
  {load_text("epoch", "heap", w.EPOCH)}
  {load_text("busy", "heap", w.BUSY)}
  {load_text("known", "handle", h.HEAP_EPOCH)}
  %is.epoch = icmp eq i64 %epoch, %known
  %is.free = icmp eq i64 %busy, 0
  %is.bound = and i1 %is.epoch, %is.free
  br i1 %is.bound, label %arguments, label %refuse
arguments:
  %k = phi i64 [ 0, %memory ], [ 0, %bound ], [ %k.after, %argument.one ]
  %k.last = icmp eq i64 %k, %count
  %k.word = mul i64 %k, {h.ARGUMENT}
  %k.place = add i64 %k.word, {h.HEAD}
  %entry = getelementptr i64, ptr %handle, i64 %k.place
  br i1 %k.last, label %arrays, label %argument.one
argument.one:
  {load_text("object", "args", "%k", "ptr")}
  %is.fit = call i1 @argument(ptr %root, ptr %entry, ptr %object)
  %k.after = add i64 %k, 1
  br i1 %is.fit, label %arguments, label %refuse
arrays:
  {load_text("many", "handle", h.ARRAYS)}
  br label %array.next
array.next:
  %m = phi i64 [ 0, %arrays ], [ %m.after, %array.one ]
  %m.last = icmp eq i64 %m, %many
  %m.word = mul i64 %m, {h.ARRAY}
  %it = getelementptr i64, ptr %entry, i64 %m.word
  br i1 %m.last, label %together, label %array.one
array.one:
  %is.array = call i1 @array(ptr %handle, ptr %it, ptr %args, i64 %generation)
  %m.after = add i64 %m, 1
  br i1 %is.array, label %array.next, label %refuse
together:
  {load_text("moved", "handle", h.MOVED)}
  %is.still = icmp eq i64 %moved, 0
  br i1 %is.still, label %accept, label %apart
apart:
  %is.distinct = call i1 @distinct(ptr %entry, i64 %many)
  br i1 %is.distinct, label %settle, label %refuse
settle:
  {store_text("0", "handle", h.MOVED, "settled")}
  ret i1 true
accept:
  ret i1 true
refuse:
  ret i1 false
}}
"""

_CALL = f"""
; The builtin. `%self` is a tuple: the run of words of a root, what launches from Python, what raises the last error.
define ptr @call(ptr %self, ptr %args, i64 %given, ptr %names) nounwind {{
  {byte_at("run", "self", ITEMS_AT)}
  {byte_at("root", "run", RUN_AT)}
  {load_text("runtime", "root", h.RUNTIME, "ptr")}
  {load_text("first", "root", h.FIRST, "ptr")}
  {load_text("watched", "runtime", w.WATCHED)}
  %is.watched = icmp ne i64 %watched, 0
  %has.names = icmp ne ptr %names, null
  %is.other = or i1 %is.watched, %has.names
  br i1 %is.other, label %python, label %try
try:
  %handle = phi ptr [ %first, %0 ], [ %following, %other ]
  %is.end = icmp eq ptr %handle, null
  br i1 %is.end, label %python, label %look
look:
  %is.fit = call i1 @fits(ptr %root, ptr %runtime, ptr %handle, ptr %args, i64 %given)
  br i1 %is.fit, label %go, label %other
other:
  {load_text("following", "handle", h.NEXT, "ptr")}
  br label %try
go:
  %failed = call i1 @run(ptr %root, ptr %runtime, ptr %handle)
  br i1 %failed, label %raise, label %launched
launched:
  {load_text("none", "root", h.NONE, "ptr")}
  {load_text("incref", "root", h.INCREF, "ptr")}
  call void %incref(ptr %none)
  ret ptr %none
raise:
  {byte_at("raiser", "self", ITEMS_AT + 16)}
  br label %call
python:
  {byte_at("slow", "self", ITEMS_AT + 8)}
  br label %call
call:
  %function = phi ptr [ %raiser, %raise ], [ %slow, %python ]
  {load_text("vectorcall", "root", h.VECTORCALL, "ptr")}
  %result = tail call ptr %vectorcall(ptr %function, ptr %args, i64 %given, ptr %names)
  ret ptr %result
}}
"""


def text_of(architecture: str) -> str:
    """Return the LLVM IR of the trampoline; raise KeyError for an architecture whose clock cannot be read."""
    ticks = f"define i64 @ticks() nounwind {{\n{_TICKS[architecture]}\n  ret i64 %t\n}}\n"
    declared = "declare i64 @llvm.readcyclecounter()\n"
    return declared + ticks + PIN_CHECK + ARGUMENT_CHECK + PLACE + ARRAY_CHECK + DISTINCT + _FITS + RUN + _CALL


# ---- loading --------------------------------------------------------------------------------------------------------

_METH_FASTCALL, _METH_KEYWORDS = 0x80, 0x02

_FUNCTIONS = (
    "Long_AsLongLongAndOverflow",
    "_IncRef",
    "Object_Vectorcall",
    "InterpreterState_ThreadHead",
    "ThreadState_Next",
)

Function = Callable[..., Any]


class _Definition(ctypes.Structure):
    """Represent the C structure PyMethodDef of CPython, which describes a builtin function."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    ]


class Trampoline:
    """Represent the trampoline's loaded machine code, which lives as long as the process."""

    def __init__(self) -> None:
        text = text_of(platform.machine().replace("AMD64", "x86_64").replace("arm64", "aarch64"))
        generated = Generated(Kernel("trampoline", (), ()), text, BlockLayout(), ())
        self._code = NativeCode(generated, _EFFORT, ("call", "ticks"))
        self._definition = _Definition(b"launch", self._code.addresses["call"], _METH_FASTCALL | _METH_KEYWORDS, None)
        self._make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
            ("PyCFunction_NewEx", ctypes.pythonapi)
        )
        self.patience = self._ticks_in(h.MICROSECONDS)

    def _ticks_in(self, microseconds: int) -> int:
        """Return the number of ticks that the clock of machine code counts in a given time, by measurement."""
        ticks: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_int64)(self._code.addresses["ticks"])
        begin, start = ticks(), time.perf_counter_ns()
        while time.perf_counter_ns() - start < 200_000:
            pass
        spent, passed = time.perf_counter_ns() - start, ticks() - begin
        return max(passed * 1000 * microseconds // spent, 1)

    def builtin(self, root: array[int], slow: Function, raiser: Function) -> Function:
        """Return a builtin function that launches by the first matching handle of a list and otherwise calls `slow`.

        The function `slow` takes the calls that no handle fits; `raiser` raises the last error.
        """
        made: Function = self._make(ctypes.addressof(self._definition), (root, slow, raiser), None)
        return made


def new_root(runtime: array[int]) -> array[int]:
    """Return a new root: a list of handles that is empty and refers to `runtime`, which must outlive it."""
    objects = [id(thing) for thing in (float, int, True, False, None)]
    functions = [_function(f"Py{name}") for name in _FUNCTIONS]
    return w.words((0, w.address_of(runtime), 0, *objects, *functions, _interpreter()))


@cache
def _interpreter() -> int:
    """Return the address of the state of this interpreter, which lists its threads."""
    get = ctypes.pythonapi.PyInterpreterState_Get
    get.restype = ctypes.c_void_p
    return get() or 0


@cache
def _function(name: str) -> int:
    """Return the address of a C function of the Python interpreter."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


_MAKING = free_in_child(threading.Lock())
"""Lock that lets one thread make the trampoline: a second trampoline would leave builtins of the first undefined."""


def trampoline() -> Trampoline | None:
    """Return the trampoline of the process, or None if the interpreter's objects have an unexpected layout."""
    with _MAKING:
        return _trampoline()


@cache
def _trampoline() -> Trampoline | None:
    if not is_expected():
        return None
    try:
        return Trampoline()
    except (AttributeError, KeyError, RuntimeError, OSError):
        return None


def is_expected() -> bool:
    """Return True if objects of this interpreter have the memory layout that the trampoline assumes."""
    if sys.implementation.name != "cpython" or sys.version_info < (3, 11) or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    # The flag t means that the interpreter was built without its lock.
    if "t" in getattr(sys, "abiflags", "") or sys.byteorder != "little":
        return False
    run, number = w.words((1, 2)), 0.1
    pair = run, number
    return (
        _peek(pair, ITEMS_AT) == id(run)
        and _peek(pair, ITEMS_AT + 8) == id(number)
        and _peek(run, RUN_AT) == w.address_of(run)
        and _peek(run, TYPE_AT) == id(array)
        and ctypes.c_double.from_address(id(number) + FLOAT_AT).value == number
        and _is_numpy_expected()
    )


def _is_numpy_expected() -> bool:
    some = np.zeros((3, 5), np.float32)
    flags = ctypes.c_int.from_address(id(some) + NUMPY_FLAGS).value
    extents = (ctypes.c_int64 * 2).from_address(_peek(some, NUMPY_EXTENTS))
    return (
        _peek(some, NUMPY_DATA) == some.__array_interface__["data"][0]
        and ctypes.c_int.from_address(id(some) + NUMPY_AXES).value == 2
        and (*extents,) == (3, 5)
        and _peek(some, NUMPY_DTYPE) == id(some.dtype)
        and flags & FIT == FIT
    )


def _peek(thing: Any, offset: int) -> int:
    return ctypes.c_int64.from_address(id(thing) + offset).value
