"""List the features of the IR that a backend does not support, each with a reason and a cure.

The list is strict: a test compiles the example of every limit and fails when the backend no longer refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..compiler.errors import Diagnostic, Unsupported
from ..compiler.ir.kernels import Kernel, Task
from ..compiler.ir.nodes import LocalArray, Print, SharedArray
from ..compiler.ir.printer import print_statement
from ..compiler.ir.statement import Stmt
from ..compiler.ir.walk import walk_task
from . import metal_limits as metal

LOCAL_BYTES = 1 << 20
"""Greatest number of bytes of the local arrays of one task, which lie on the stack of the thread, of 8 MiB or less."""

SHARED_BYTES = 48 << 10
"""Greatest number of bytes of the shared arrays of one task, which every NVIDIA GPU has for a block."""


@dataclass(frozen=True)
class Limit:
    """Represent a feature of the IR that a backend lacks, with a function that finds it, a reason and a cure.

    Attributes:
        backend: name of the backend
        name: short name of the feature
        find: returns the statement of a task that exceeds the limit, or None
        reason: why it is refused
        cure: what the user can do
        example: IR text that exceeds the limit
    """

    backend: str
    name: str
    find: Callable[[Task], Stmt | None]
    reason: str
    cure: str
    example: str


def _print(task: Task) -> Stmt | None:
    """Return the first `print` statement of a task, or None if it has none."""
    return next((s for s in walk_task(task) if isinstance(s, Print)), None)


def _large_local(task: Task) -> Stmt | None:
    """Return the first local array by which a task's local memory exceeds LOCAL_BYTES, or None if it does not."""
    used, seen = 0, set()
    for stmt in walk_task(task):
        if isinstance(stmt, LocalArray) and stmt.var not in seen:
            seen.add(stmt.var)
            used += stmt.size * stmt.dtype.size
            if used > LOCAL_BYTES:
                return stmt
    return None


def shared_bytes(task: Task, word: int = 1) -> Iterator[tuple[SharedArray, int]]:
    """Yield each shared array of a task with the bytes that it and those before it take.

    Args:
        task: The task.
        word: Least number of bytes of an element.
    """
    used = 0
    for stmt in walk_task(task):
        if isinstance(stmt, SharedArray):
            used += stmt.size * max(stmt.dtype.size, word)
            yield stmt, used


def _large_shared(task: Task) -> Stmt | None:
    """Return the first shared array by which a task's block takes more than SHARED_BYTES, or None."""
    return next((stmt for stmt, used in shared_bytes(task) if used > SHARED_BYTES), None)


_PRINT_EXAMPLE = """kernel k() { serial { print "hello" } }"""
_LOCAL_EXAMPLE = """kernel k() { serial { local_array a: f64[131073] } }"""
_SHARED_EXAMPLE = """kernel k() {
  bounds {
    %0: i32 = const 0
  } parallel %1: i32 in %0 .. %0 block 32 {
    shared_array a: f64[6145]
  }
}"""
_LOCAL_REASON = f"local arrays of one task take more than {LOCAL_BYTES} bytes of the thread's stack"
_LOCAL_CURE = "keep the data in a field or an ndarray, with one part for each iteration"

SHARED_CURE = "make the shared arrays or the block smaller, or keep the data in a field"
_SHARED_REASON = f"shared arrays of one block take more than {SHARED_BYTES} bytes"

LIMITS = (
    Limit("cpu", "large local arrays", _large_local, _LOCAL_REASON, _LOCAL_CURE, _LOCAL_EXAMPLE),
    Limit("nvptx", "large local arrays", _large_local, _LOCAL_REASON, _LOCAL_CURE, _LOCAL_EXAMPLE),
    Limit("nvptx", "large shared arrays", _large_shared, _SHARED_REASON, SHARED_CURE, _SHARED_EXAMPLE),
    Limit("vulkan", "large local arrays", _large_local, _LOCAL_REASON, _LOCAL_CURE, _LOCAL_EXAMPLE),
    Limit("metal", "large local arrays", _large_local, _LOCAL_REASON, _LOCAL_CURE, _LOCAL_EXAMPLE),
    Limit(
        "metal",
        "print",
        _print,
        "print is not available in GPU code",
        "print on the cpu or reference backend",
        _PRINT_EXAMPLE,
    ),
    Limit("metal", "f64", metal.find_float64, metal.FLOAT64, metal.FLOAT64_CURE, metal.FLOAT64_EXAMPLE),
)


def check(kernel: Kernel, backend: str) -> None:
    """Raise Unsupported, with all statements concerned, if the kernel uses a feature that the backend lacks."""
    found = [
        Diagnostic(f"kernel {kernel.name}: {limit.reason}: `{_first_line(stmt)}`", limit.cure, kernel.span(stmt.loc))
        for limit in LIMITS
        if limit.backend == backend
        for task in kernel.tasks
        if (stmt := limit.find(task)) is not None
    ]
    if found:
        raise Unsupported(found)


def _first_line(stmt: Stmt) -> str:
    """Return the first line of a statement's text."""
    return print_statement(stmt).splitlines()[0]
