"""This module traces shared arrays: memory of a block, indexed like a field."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.statement import Value
from ..ir.texts import EXTENT, INDEX
from ..ir.types import Scalar, i64
from .context import Tracer
from .diagnostics import ProblemError, index_problem, syntax_problem
from .operands import Operand, Static, integer_of
from .scope import FixedName


@dataclass(frozen=True)
class SharedMemory:
    """A `SharedMemory` is a shared array while a kernel is traced.

    Attributes:
        name: name in the IR.
        dtype: type of an element.
        shape: extent of each axis.
    """

    name: str
    dtype: Scalar
    shape: tuple[int, ...]

    @property
    def text(self) -> str:
        """Return the name in the program."""
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class SharedPlace:
    """A `SharedPlace` is an element of a shared array.

    Attributes:
        name: name of the array in the IR.
        dtype: type of the element.
        index: row-major number of the element.
        text: text of the expression in the program.
    """

    name: str
    dtype: Scalar
    index: Value
    text: str


def bind_shared(t: Tracer, node: ast.Name, memory: SharedMemory) -> None:
    """Bind a new name to a shared array; raise a problem if the name has a value already."""
    if t.scopes.find(node.id) is not None:
        raise syntax_problem(
            f"`{node.id}` has a value already, and shared arrays are not stored", "give the array another name", node
        )
    t.scopes.declare(node.id, FixedName(Static(memory, node.id), "shared array"), node.lineno)


def shared_element(
    t: Tracer, memory: SharedMemory, indices: Sequence[tuple[Operand, ast.expr]], node: ast.Subscript
) -> SharedPlace:
    """Return the place of an element of a shared array.

    Raises:
        Problem: the number of indices is wrong, or one of them is outside.
    """
    rank = len(memory.shape)
    if len(indices) != rank:
        raise index_problem(
            f"the shared array has {rank} {'axis' if rank == 1 else 'axes'}, but is indexed with {len(indices)}",
            "give one index for each axis",
            node,
        )
    b = t.builder
    place: Value | None = None
    for axis, ((operand, at), extent) in enumerate(zip(indices, memory.shape)):
        index = b.cast(_index(t, operand, at, axis, extent, ast.unparse(node.value)), i64)
        place = index if place is None else b.op("add", b.op("mul", place, b.const(extent, i64)), index)
    assert place is not None
    return SharedPlace(memory.name, memory.dtype, place, ast.unparse(node))


def _index(t: Tracer, operand: Operand, node: ast.expr, axis: int, extent: int, array: str) -> Value:
    """Return the index of one axis, with a check that it is inside."""
    try:
        known = integer_of(operand)
        if known is not None and not 0 <= known < extent:
            raise index_problem(
                f"the index {known} is outside of axis {axis}, whose extent is {extent}",
                f"use an index from 0 to {extent - 1}",
            )
        where = f"axis {axis} of the shared array `{array}`"
        return t.within(t.index(operand), extent, f"index {INDEX} is outside {where}, whose extent is {EXTENT}")
    except ProblemError as problem:
        problem.node = problem.node or node
        raise
