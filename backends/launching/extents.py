"""Count the iterations of a task where that is quick: from constants, arguments, extents and single elements.

The count decides how a task is run, never what it computes, so it may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...compiler.ir import nodes as n
from ...compiler.ir.build import normal_constant
from ...compiler.ir.kernels import Kernel, Task
from ...compiler.ir.nodes import StackAlloca
from ...compiler.ir.ops import OPS
from ...compiler.ir.statement import Value
from ...compiler.ir.table import Table
from ...compiler.ir.walk import walk_task
from ..base import Scalars

Number = int | float | bool
Element = Callable[[str, tuple[int, ...]], Number]
"""The type of a function that returns an element of an array by name and indices, which lie in the array."""

_WHOLE: Table[str, Callable[..., int]] = Table(
    "extents.whole",
    OPS,
    about="the unwrapped result on Python integers, to count the iterations of a task",
    optional="the iterations are not counted",
)
"""Meaning of operations on integers whose result is wrapped to the type afterwards."""
_WHOLE.update(
    {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "neg": lambda x: -x,
        "min": min,
        "max": max,
        "floordiv": lambda x, y: x // y if y else 0,
        "mod": lambda x, y: x % y if y else 0,
    }
)


def iterations(
    kernel: Kernel, shapes: Mapping[str, tuple[int, ...]], scalars: Scalars, element: Element
) -> dict[int, int]:
    """Return the iteration counts of parallel tasks with adstacks, by task, where the host can count them.

    Args:
        kernel: kernel that is launched
        shapes: shapes of its arrays, by name
        scalars: scalar arguments, by name
        element: reads an element
    """
    found = {}
    for index, task in enumerate(kernel.tasks):
        if task.is_parallel and any(isinstance(s, StackAlloca) for s in walk_task(task)):
            try:
                found[index] = _count(kernel, task, shapes, scalars, element)
            except _UnknownCount:
                continue
    return found


class _UnknownCount(Exception):
    """Signal that the host cannot count the iterations of a task before the launch."""


def _count(
    kernel: Kernel, task: Task, shapes: Mapping[str, tuple[int, ...]], scalars: Scalars, element: Element
) -> int:
    """Return the number of iterations of a task, or raise _UnknownCount."""
    known: dict[Value, Number] = {}
    for stmt in task.bounds:
        if isinstance(stmt, n.Const):
            known[stmt.result] = stmt.value
        elif isinstance(stmt, n.Arg):
            known[stmt.result] = normal_constant(scalars[stmt.name], stmt.result.type)
        elif isinstance(stmt, n.Shape):
            known[stmt.result] = _shape(shapes, stmt.array)[stmt.axis]
        elif isinstance(stmt, n.Load):
            known[stmt.result] = _element(shapes, element, stmt.array, [int(known[i]) for i in stmt.indices])
        elif isinstance(stmt, (n.Op, n.Cast)):
            known[stmt.result] = _computed(stmt, known)
        else:
            raise _UnknownCount
    count = 1
    for begin, end in zip(task.begin, task.end):
        count *= max(int(known[end]) - int(known[begin]), 0)
    return count


def _shape(shapes: Mapping[str, tuple[int, ...]], name: str) -> tuple[int, ...]:
    """Return the shape of an array (for an adjoint, of its primal), or raise _UnknownCount for a temporary."""
    found = shapes.get(name, shapes.get(name.removesuffix(".grad")))
    # A temporary has no shape.
    if found is None:
        raise _UnknownCount
    return found


def _element(shapes: Mapping[str, tuple[int, ...]], element: Element, name: str, place: list[int]) -> Number:
    """Return an element of an array, or raise _UnknownCount if its indices lie outside."""
    if not all(0 <= k < extent for k, extent in zip(place, _shape(shapes, name))):
        raise _UnknownCount
    return element(name, tuple(place))


def _computed(stmt: n.Op | n.Cast, known: Mapping[Value, Number]) -> Number:
    """Return the result of an operation or cast on integers, or raise _UnknownCount if it is not supported."""
    args = stmt.args if isinstance(stmt, n.Op) else (stmt.arg,)
    if not all(a.type.is_int for a in (stmt.result, *args)):
        raise _UnknownCount
    if isinstance(stmt, n.Cast):
        return normal_constant(known[stmt.arg], stmt.result.type)
    meaning = _WHOLE.get(stmt.op)
    if meaning is None:
        raise _UnknownCount
    return normal_constant(meaning(*[known[a] for a in args]), stmt.result.type)
