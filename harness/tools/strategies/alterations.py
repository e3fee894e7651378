"""Rewrite a drawn program: move numbers into structs, arrays into views, shift first indices, rename locals.

Every alteration takes a program of `Kernels` and returns a program that is as valid. In this way every construct that a
program may hold meets structs, views and offsets. Most programs stay as they are.
"""

from __future__ import annotations

from ..model import nodes as m
from ..model.origins import move_origins
from .deep_branches import with_deep_branches
from .dot_operators import with_dot_operators
from .draw import Chooser
from .outer_names import with_outer_names
from .plain_functions import with_plain_functions
from .single_loops import with_single_loops
from .strides import with_strides
from .struct_fields import with_struct_fields
from .struct_functions import with_struct_arguments
from .struct_locals import with_struct_locals
from .values_of import Kinds
from .views import with_views

STRUCT_FIELDS, STRUCT_ARGUMENTS, STRUCT_LOCALS, VIEWS, OFFSETS, STRIDES = 0.06, 0.65, 0.07, 0.08, 0.06, 0.25
"""Shares of programs that an alteration changes.

STRUCT_ARGUMENTS is a share of programs with functions, and STRIDES one of programs with stepped ranges.
"""
DEEP_BRANCHES = 0.02
"""Share of programs with deeply nested branches; it is small because such programs take twice as long as others."""
OUTER_NAMES = 0.5
"""Share of programs whose locals take names from outside, where there are any; most programs have none to take."""
DOT_OPERATORS = 0.3
"""Share of programs whose dot products are written by `@`, where there are any."""
PLAIN_FUNCTIONS = 0.5
"""Share of programs in which functions lose their decorators, where there are any."""
SINGLE_LOOPS = 0.2
"""Share of programs in which loops over fields without axes hold updates of these, where there are any."""
STRUCTS_OF_VECTORS = 0.2
"""Share of programs with vectors that keep locals in structs."""


def alter_program(draw: Chooser, program: m.Program, kinds: Kinds) -> m.Program:
    """Return the program, perhaps after random rewritings: numbers become structs, arrays become views, and so on.

    Args:
        draw: Source of the random choices.
        program: A program of `Kernels`.
        kinds: Types of the program's locals and parameters.
    """
    if draw.boolean(STRUCT_ARGUMENTS):
        program = with_struct_arguments(draw, program, kinds)
    if draw.boolean(STRUCT_FIELDS):
        program = with_struct_fields(draw, program)
    if draw.boolean(STRUCTS_OF_VECTORS if any(p.shape for p in kinds.values()) else STRUCT_LOCALS):
        program = with_struct_locals(draw, program, kinds)
    if draw.boolean(VIEWS):
        program = with_views(draw, program)
    if draw.boolean(OFFSETS):
        program = with_offsets(draw, program)
    if draw.boolean(STRIDES):
        program = with_strides(draw, program)
    if draw.boolean(DEEP_BRANCHES):
        program = with_deep_branches(draw, program)
    if draw.boolean(OUTER_NAMES):
        program = with_outer_names(draw, program)
    if draw.boolean(DOT_OPERATORS):
        program = with_dot_operators(draw, program)
    if draw.boolean(PLAIN_FUNCTIONS):
        program = with_plain_functions(draw, program)
    return with_single_loops(draw, program) if draw.boolean(SINGLE_LOOPS) else program


def with_offsets(draw: Chooser, program: m.Program) -> m.Program:
    """Return the program with random first indices for some fields, which may be negative."""
    found = {f.owner: f for f in program.fields if f.shape and not f.argument and not f.views}
    chosen = [f for f in found.values() if draw.boolean(0.6)]
    return move_origins(program, {f.owner: tuple(draw.integer(-3, 4) for _ in f.shape) for f in chosen})
