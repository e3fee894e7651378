"""Change functions of a program so that they take one struct in place of all their arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..model import nodes as m
from ..model.walk import map_nodes, rebuilt_program
from .draw import Chooser
from .values_of import Kinds

SHARE = 0.5
"""Share of functions that take a struct."""


def with_struct_arguments(draw: Chooser, program: m.Program, kinds: Kinds) -> m.Program:
    """Return the program with some functions changed to take one struct, each of a new struct type.

    Args:
        draw: Source of the random choices.
        program: A program of `Kernels`.
        kinds: Types of the program's locals and parameters.
    """
    for number, function in enumerate(program.kernel.functions):
        if function.params and all(p.name in kinds for p in function.params) and draw.boolean(SHARE):
            program = _changed(draw, program, program.kernel.functions[number], number, kinds)
    return program


def _changed(draw: Chooser, program: m.Program, function: m.Function, number: int, kinds: Kinds) -> m.Program:
    kind = m.StructType(f"Given{number}", tuple(kinds[p.name] for p in function.params), draw.boolean())
    given = m.Name(f"given{number}")
    names = {p.name for p in function.params}

    def as_member(node: Any) -> Any:
        return m.Member(given, node.name) if isinstance(node, m.Name) and node.name in names else node

    param = m.Param(given.name, struct=kind.name if draw.boolean() else "")
    new = replace(function, params=(param,), body=map_nodes(function.body, as_member))
    functions = tuple(new if f is function else f for f in program.kernel.functions)
    named = draw.boolean()

    def called(node: Any) -> Any:
        if isinstance(node, m.Invoke) and node.function == function.name:
            return replace(node, args=(m.Make(kind.name, node.args, named),))
        return node

    program = replace(program, kernel=replace(program.kernel, functions=functions))
    return replace(rebuilt_program(program, called), structs=(*program.structs, kind))
