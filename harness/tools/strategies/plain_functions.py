"""Leave out the decorators of functions that a kernel calls, which are then plain functions of Python."""

from __future__ import annotations

from dataclasses import replace

from ..model import nodes as m
from .draw import Chooser


def with_plain_functions(draw: Chooser, program: m.Program) -> m.Program:
    """Return the program in which about half of the functions have no decorator."""
    functions = tuple(replace(f, decorated=draw.boolean()) for f in program.kernel.functions)
    return replace(program, kernel=replace(program.kernel, functions=functions))
