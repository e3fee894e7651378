"""How deep programs may nest, and room on Python's stack for what follows them down.

Frontend, passes, printers and executors go down a program by calls of themselves. Limits of depth are checked where a
program comes in, so that whoever goes down knows how far that can be; `deep` makes room for it, however little the
caller has left: a kernel compiles at the bottom of a deep program or not at all.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from types import CodeType
from typing import Any, ParamSpec, TypeVar

from ..errors import Span, Unsupported
from .nodes import Block, Kernel
from .walk import NESTED, blocks

NESTING = 320
"""Blocks within blocks of a kernel as it is given: branches, loops and bodies of functions that return early."""

LOWERED_NESTING = 640
"""The same of what the passes make of it: an early exit puts what follows it into a branch."""

EXPRESSIONS = 500
"""Expressions within expressions, functions that are called in them included."""

FRAMES = 10_000
"""Calls of Python that there is room for. Those that go through C, about half a kilobyte each, stay within 8 MiB."""

P = ParamSpec("P")
R = TypeVar("R")


class _Limits:
    """Of this process: who needs room now, and the limit of Python's stack before the first of them did."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = threading.local()
        self.holders = self.before = self.raised = 0

    def enter(self) -> None:
        wanted = _depth() + FRAMES
        with self.lock:
            if not self.holders:
                self.before = self.raised = sys.getrecursionlimit()
            self.holders += 1
            if wanted > sys.getrecursionlimit():
                sys.setrecursionlimit(wanted)
                self.raised = wanted

    def leave(self) -> None:
        """Put the limit back, unless somebody else needs room or has set another one."""
        with self.lock:
            self.holders -= 1
            if not self.holders and sys.getrecursionlimit() == self.raised != self.before:
                with suppress(RecursionError):  # it was set, meanwhile, to less than what is in use
                    sys.setrecursionlimit(self.before)


_LIMITS = _Limits()


def _forget() -> None:
    """A child has one thread, and perhaps another one held the lock."""
    _LIMITS.lock = threading.Lock()
    _LIMITS.holders = int(getattr(_LIMITS.inside, "held", False))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _depth() -> int:
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1  # type: ignore[assignment]
    return count


@contextmanager
def room() -> Iterator[None]:
    """Room for `FRAMES` more calls, unless a caller has made it already."""
    limits = _LIMITS
    if getattr(limits.inside, "held", False):
        yield
        return
    limits.enter()
    limits.inside.held = True
    try:
        yield
    finally:
        limits.inside.held = False
        limits.leave()


def deep(function: Callable[P, R]) -> Callable[P, R]:
    """A function that goes down a program, with room to do so.

    Where even that does not do, which limits of depth should prevent, the error is ours: it raises Unsupported, at the
    first line of the kernel or function among its arguments.
    """

    @wraps(function)
    def run(*args: P.args, **keywords: P.kwargs) -> R:
        if getattr(_LIMITS.inside, "held", False):
            return function(*args, **keywords)
        try:
            with room():
                return function(*args, **keywords)
        except RecursionError as error:
            raise too_deep(*args) from error

    return run


def too_deep(*given: object) -> Unsupported:
    """What is raised where a program nests deeper than Python's stack is. given: what it was, or belongs to."""
    found = next((s for g in given if (s := _place(g)) is not None), None)
    return Unsupported(
        "the program nests deeper than the compiler can follow",
        "put a part of it into a kernel of its own, or name parts of an expression",
        found,
    )


def _place(given: Any) -> Span | None:
    """The first line of a kernel, or of a function of Python."""
    kernel = getattr(given, "kernel", given)
    if isinstance(kernel, Kernel):
        return next((span for span in kernel.locations if span is not None), None)
    code = getattr(given, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    text = linecache.getline(code.co_filename, code.co_firstlineno).rstrip("\n")
    return Span(code.co_filename, code.co_firstlineno, len(text) - len(text.lstrip()), len(text), text)


def depth_of(block: Block, most: int) -> tuple[int, int]:
    """(blocks within blocks, `loc` of a statement at that depth), level by level; no further than one beyond `most`."""
    found, loc = 0, 0
    level = [s for s in block if type(s) in NESTED]
    while level and found <= most:
        found, loc = found + 1, level[0].loc
        level = [s for stmt in level for inner in blocks(stmt) for s in inner if type(s) in NESTED]
    return found, loc


def check_depth(kernel: Kernel, most: int = LOWERED_NESTING) -> Kernel:
    """The kernel, if it nests no deeper. Raises Unsupported at a statement beyond."""
    for block in (b for task in kernel.tasks for b in (task.bounds, task.body)):
        found, loc = depth_of(block, most)
        if found > most:
            raise Unsupported(
                f"kernel {kernel.name}: blocks nest more than {most} deep",
                "put a part into a kernel of its own; an early exit nests what follows it",
                kernel.span(loc),
            )
    return kernel
