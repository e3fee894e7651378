"""Other ways to write a finished program: its numbers in structs, its arrays as views, from other origins, its locals
under names that mean something else outside.

Every alteration takes a program of `Kernels` and gives one that is as valid, so that everything a program may hold
meets what these are about. Most programs stay as they are.
"""

from __future__ import annotations

from ..model import nodes as m
from ..model.origins import moved
from .deep_branches import with_deep_branches
from .draw import Draw
from .outer_names import with_outer_names
from .strides import with_strides
from .struct_fields import with_struct_fields
from .struct_functions import with_struct_arguments
from .struct_locals import with_struct_locals
from .values_of import Kinds
from .views import with_views

STRUCT_FIELDS, STRUCT_ARGUMENTS, STRUCT_LOCALS, VIEWS, OFFSETS, STRIDES = 0.06, 0.65, 0.07, 0.04, 0.06, 0.25
"""Shares of programs; of those with functions, and with ranges that have a step."""
DEEP_BRANCHES = 0.01
"""Share of programs with branches far within each other: they take a second to compile."""
OUTER_NAMES = 0.5
"""Share of programs that take names from outside, where there are any; most have none to take."""
STRUCTS_OF_VECTORS = 0.2
"""Share of programs with vectors that keep locals in structs."""


def altered(draw: Draw, program: m.Program, kinds: Kinds) -> m.Program:
    """The program, perhaps written otherwise. kinds: what its locals and parameters hold."""
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
    return with_outer_names(draw, program) if draw.boolean(OUTER_NAMES) else program


def with_offsets(draw: Draw, program: m.Program) -> m.Program:
    """Fields whose indices begin elsewhere, below zero too."""
    found = {f.owner: f for f in program.fields if f.shape and not f.argument and not f.views}
    chosen = [f for f in found.values() if draw.boolean(0.6)]
    return moved(program, {f.owner: tuple(draw.integer(-3, 4) for _ in f.shape) for f in chosen})
