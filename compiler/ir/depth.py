"""This module limits how deeply programs may nest, and raises Python's recursion limit for functions that walk them.

The frontend, passes, printers and executors walk a program by recursion. Limits of depth are checked where a program
enters, so every recursive function knows how deep the recursion can get. `with_stack_room` makes room for that
recursion no matter how much stack the caller has used, so whether a kernel compiles does not depend on the depth of its
caller.
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
from .kernels import Kernel
from .statement import Block
from .walk import NESTED, blocks

NESTING = 320
"""This limit bounds the nesting of blocks of a given kernel: branches, loops, bodies of functions that return early."""

LOWERED_NESTING = 640
"""This limit bounds the nesting of blocks after the passes.

It is larger than `NESTING` because an early exit becomes a branch around the statements after it.
"""

EXPRESSIONS = 500
"""This limit bounds the nesting of expressions, including those of functions that an expression calls."""

FRAMES = 10_000
"""Number of Python calls that `with_stack_room` makes room for.

Calls that go through C take about half a kilobyte each, so this number stays within a stack of 8 MiB.
"""

P = ParamSpec("P")
R = TypeVar("R")


class _Limits:
    """A `_Limits` counts the threads that need a raised recursion limit of Python, and stores the original limit.

    Attributes:
        lock: guards all other attributes but `inside`.
        inside: storage per thread, whose attribute `held` is True while the thread runs under a raised limit.
        holders: number of threads that run under a raised limit now.
        before: recursion limit when the first of these threads raised it.
        raised: last recursion limit that this object set.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = threading.local()
        self.holders = self.before = self.raised = 0

    def enter(self) -> None:
        """Raise Python's recursion limit so that the current thread can make `FRAMES` more calls."""
        # The limit of Python counts from the bottom of the stack, so the frames already in use are added.
        wanted = _depth() + FRAMES
        with self.lock:
            # Only the first holder knows the limit that the program itself has set.
            if not self.holders:
                self.before = self.raised = sys.getrecursionlimit()
            self.holders += 1
            if wanted > sys.getrecursionlimit():
                sys.setrecursionlimit(wanted)
                self.raised = wanted

    def leave(self) -> None:
        """Restore Python's recursion limit, unless another thread needs the raised limit or other code changed it."""
        with self.lock:
            self.holders -= 1
            if not self.holders and sys.getrecursionlimit() == self.raised != self.before:
                # Python refuses a limit below the depth in use; the old limit may have become that low meanwhile.
                with suppress(RecursionError):
                    sys.setrecursionlimit(self.before)


_LIMITS = _Limits()


def _forget() -> None:
    """Reset the lock and the count of threads that need the raised recursion limit, in a forked child process.

    The child has a single thread, and another thread of the parent may have held the lock.
    """
    _LIMITS.lock = threading.Lock()
    _LIMITS.holders = int(getattr(_LIMITS.inside, "held", False))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _depth() -> int:
    """Return the number of Python frames on the stack of the current thread."""
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1  # type: ignore[assignment]
    return count


@contextmanager
def stack_room() -> Iterator[None]:
    """Raise Python's recursion limit by `FRAMES` calls during the `with`, unless a caller has already done so."""
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


def with_stack_room(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a recursive function so that it runs with a raised recursion limit of Python.

    If the room is still too small, which the limits of depth should prevent, the mistake is one of the compiler. The
    decorated function then raises Unsupported at the first line of the kernel or function among its arguments.
    """

    @wraps(function)
    def run(*args: P.args, **keywords: P.kwargs) -> R:
        if getattr(_LIMITS.inside, "held", False):
            return function(*args, **keywords)
        try:
            with stack_room():
                return function(*args, **keywords)
        except RecursionError as error:
            raise too_deep(*args) from error

    return run


def too_deep(*given: object) -> Unsupported:
    """Return the error for a program that nests deeper than Python's stack allows.

    Args:
        given: the program, or objects that belong to it; the first of them with a known place gives the span.
    """
    # The first argument with a known place decides, because callers pass the program before its parts.
    found = next((s for g in given if (s := _place(g)) is not None), None)
    return Unsupported(
        "the program nests deeper than the compiler can follow",
        "put a part of it into a kernel of its own, or name parts of an expression",
        found,
    )


def _place(given: Any) -> Span | None:
    """Return the source location of the first line of a kernel or Python function, or None if there is none."""
    kernel = getattr(given, "kernel", given)
    if isinstance(kernel, Kernel):
        return next((span for span in kernel.locations if span is not None), None)
    code = getattr(given, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    text = linecache.getline(code.co_filename, code.co_firstlineno).rstrip("\n")
    return Span(code.co_filename, code.co_firstlineno, len(text) - len(text.lstrip()), len(text), text)


def depth_of(block: Block, most: int) -> tuple[int, int]:
    """Return the nesting depth of a block and the source location (`loc`) of a statement at that depth.

    The block is examined level by level, and not further than one level beyond `most`.
    """
    found, loc = 0, 0
    level = [s for s in block if type(s) in NESTED]
    # The loop goes down by levels instead of calls, so the check itself needs no deep stack.
    while level and found <= most:
        found, loc = found + 1, level[0].loc
        level = [s for stmt in level for inner in blocks(stmt) for s in inner if type(s) in NESTED]
    return found, loc


def check_depth(kernel: Kernel, most: int = LOWERED_NESTING) -> Kernel:
    """Return the kernel unchanged, or raise Unsupported if its blocks nest more than `most` deep.

    Raises:
        Unsupported: a statement lies deeper; the error names that statement.
    """
    for block in (b for task in kernel.tasks for b in (task.bounds, task.body)):
        found, loc = depth_of(block, most)
        if found > most:
            raise Unsupported(
                f"kernel {kernel.name}: blocks nest more than {most} deep",
                "put a part into a kernel of its own; an early exit nests what follows it",
                kernel.span(loc),
            )
    return kernel
