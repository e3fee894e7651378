"""The arrays of a binding: what each name of a kernel is bound to, as memory and as fields.

Invariant: arrays of different names are different memory, so that the compiler may tell them apart by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from .compiler.errors import NotDifferentiable
from .compiler.sizing.regions import Box
from .fields import Array
from .usage import ArgumentError

if TYPE_CHECKING:
    from .backends.launcher import Launcher
    from .program import Program

GRAD = ".grad"
NOTHING: Mapping[str, str] = {}
Arrays = Mapping[str, Array | np.ndarray]


def bound_to(program: Program, arrays: Arrays, name: str) -> Array | np.ndarray:
    """What a parameter of a kernel, or of its gradient, is bound to. Raises NotDifferentiable if there is nothing."""
    found = arrays.get(name)
    if found is None:
        primal = arrays[name.removesuffix(GRAD)]
        if not isinstance(primal, Array) or not primal.needs_grad:
            raise NotDifferentiable(
                f"missing gradient: {name.removesuffix(GRAD)} of kernel {program.kernel.name} has none",
                f"bind a field with needs_grad=True, or give the array as {name!r}",
                program.span,
            )
        found = primal.grad
    return found


def memory_of(program: Program, arrays: Arrays, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The memory of each array. Raises ArgumentError if two overlap."""
    memory: dict[str, np.ndarray] = {}
    for name in names:
        found = bound_to(program, arrays, name)
        memory[name] = found.buffer if isinstance(found, Array) else found
    if len(memory) > 1:
        _refuse_aliases(program.label, memory)
    return memory


def _refuse_aliases(kernel: str, memory: Mapping[str, np.ndarray]) -> None:
    """Arrays of different names are different memory to the compiler."""
    spans = []
    for name, array in memory.items():
        if array.nbytes:
            begin = array.__array_interface__["data"][0]
            spans.append((begin, begin + array.nbytes, name))
    spans.sort()
    for (_, end, first), (begin, _, second) in pairwise(spans):
        if begin < end:
            reason = f"kernel {kernel}: {first} and {second} are the same memory"
            raise ArgumentError(reason, "give each parameter an array of its own")


def fields_of(program: Program, arrays: Arrays, names: Sequence[str]) -> tuple[Array, ...]:
    """The fields among these arrays, each once."""
    found = [bound_to(program, arrays, name) for name in names]
    return tuple({id(f): f for f in found if isinstance(f, Array)}.values())


def shapes_of(memory: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Shapes by array name."""
    return {name: array.shape for name, array in memory.items()}


def boxes_by_field(
    program: Program,
    arrays: Arrays,
    boxes: Mapping[str, list[Box]],
    wanted: tuple[Array, ...],
    before: Mapping[str, str] = NOTHING,
) -> dict[Array, list[Box]]:
    """Boxes of parameters as boxes of the fields bound to them; wanted fields that no box touches get none.

    before: the array of which a parameter is a copy.
    """
    found: dict[Array, list[Box]] = {field: [] for field in wanted}
    for name, own in boxes.items():
        field = bound_to(program, arrays, before.get(name, name))
        if isinstance(field, Array) and field in found:
            found[field] += own
    return found


def version_source(program: Program, arrays: Arrays, launcher: Launcher) -> tuple[Array, ...] | None:
    """The fields that decide the sizes and what marks tell, or None if something that has no version is among them: a
    NumPy array, or a copy of what a field contained.
    """
    if not launcher.lowered.before.keys().isdisjoint(launcher.versioned):
        return None
    found = [bound_to(program, arrays, name) for name in launcher.versioned]
    fields = tuple(f for f in found if isinstance(f, Array))
    return fields if len(fields) == len(found) else None
