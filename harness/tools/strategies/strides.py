"""Replace constant steps of ranges by arguments of the kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....compiler.ir.types import i32
from ..model import nodes as m
from ..model.walk import map_nodes, walk
from .draw import Chooser


def with_strides(draw: Chooser, program: m.Program) -> m.Program:
    """Return the program with the steps of its ranges turned into kernel arguments.

    At times ranges with a step of 1 change too.
    """
    ones = draw.boolean(0.15)
    steps = {n.step for n in walk(program.kernel.body) if isinstance(n, m.Range) and (ones or n.step != 1)}
    names = {step: f"step{k}" for k, step in enumerate(sorted(steps))}

    def named(node: Any) -> Any:
        if isinstance(node, m.Range) and node.step in names:
            return replace(node, stride=names[node.step])
        return node

    return replace(
        program,
        kernel=replace(program.kernel, body=map_nodes(program.kernel.body, named)),
        arguments=(*program.arguments, *(m.Param(name, i32) for name in names.values())),
        inputs=replace(program.inputs, scalars=(*program.inputs.scalars, *((n, s) for s, n in names.items()))),
    )
