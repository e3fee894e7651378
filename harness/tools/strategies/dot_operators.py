"""Write dot products of a program by the operator `@`, which vectors share with matrices."""

from __future__ import annotations

from typing import Any

from ..model import nodes as m
from ..model.walk import rebuilt_program
from .draw import Chooser

SHARE = 0.7
"""Share of the dot products that are written by the operator."""


def with_dot_operators(draw: Chooser, program: m.Program) -> m.Program:
    """Return the program after writing some calls `a.dot(b)` as `a @ b`, which means the same."""

    def change(node: Any) -> Any:
        if isinstance(node, m.Method) and node.name == "dot" and draw.boolean(SHARE):
            return m.Binary("@", node.base, node.args[0])
        return node

    return rebuilt_program(program, change)
