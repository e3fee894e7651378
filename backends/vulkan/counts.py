"""This module counts the iterations of a parallel task on the host, from constants, arguments and extents.

Such a task is dispatched with the groups that it needs, and with none where it has no iterations. The box of any other
task is known to the device alone, and its grid is the largest: the threads stride over the iterations.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Task
from ...compiler.ir.ops import OPS
from ...compiler.ir.statement import Stmt, Value
from ...compiler.ir.table import Table
from ...compiler.ir.types import Scalar
from ..base import Arrays, Scalars

_OPS: Table[str, Callable[..., int]] = Table(
    "vulkan.counts",
    OPS,
    about="the unwrapped result on Python integers, to count the groups of a dispatch",
    optional="the device counts the groups",
)
_OPS.update(
    {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "min": min,
        "max": max,
        "neg": lambda x: -x,
        "floordiv": lambda x, y: x // y if y else 0,
        "mod": lambda x, y: x % y if y else 0,
    }
)


def iterations(task: Task, arrays: Arrays, scalars: Scalars) -> int | None:
    """Return the number of iterations of a parallel task, or None if the host cannot compute its bounds."""
    known: dict[Value, int] = {}
    for stmt in task.bounds:
        value = _value(stmt, known, arrays, scalars)
        if value is None:
            continue
        result = stmt.result  # type: ignore[attr-defined]
        known[result] = _wrapped(value, result.type)
    total = 1
    for begin, end in zip(task.begin, task.end):
        if begin not in known or end not in known:
            return None
        total *= max(0, known[end] - known[begin])
    return total


def _value(stmt: Stmt, known: dict[Value, int], arrays: Arrays, scalars: Scalars) -> int | None:
    """Return the integer result of a statement that computes bounds, or None if the host cannot compute it."""
    if isinstance(stmt, n.Const) and stmt.result.type.is_int:
        return int(stmt.value)
    if isinstance(stmt, n.Arg) and stmt.result.type.is_int:
        return int(scalars[stmt.name])
    if isinstance(stmt, n.Shape):
        return int(arrays[stmt.array].shape[stmt.axis])
    if isinstance(stmt, n.Cast) and stmt.arg in known and stmt.result.type.is_int:
        return known[stmt.arg]
    if isinstance(stmt, n.Op) and stmt.op in _OPS and all(arg in known for arg in stmt.args):
        return _OPS[stmt.op](*(known[arg] for arg in stmt.args))
    return None


def _wrapped(value: int, t: Scalar) -> int:
    """Return an integer wrapped to type `t` in two's complement."""
    low = value & ((1 << t.bits) - 1)
    return low - (1 << t.bits) if t.is_signed and low >> (t.bits - 1) else low
