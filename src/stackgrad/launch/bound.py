"""Find the array that is bound to each parameter of a kernel, its memory, and the field that it belongs to.

Invariant: arrays with different names do not share memory, because the compiler assumes so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ..compiler.errors import NotDifferentiable
from ..compiler.sizing.regions import Box
from ..data.fields import Array
from ..runtime.usage_errors import ArgumentError

if TYPE_CHECKING:
    from ..backends.base import Scalars
    from ..backends.launching.launcher import Launcher
    from .program import Binding, Program

GRAD = ".grad"
"""The suffix of the name of an adjoint array."""
NOTHING: Mapping[str, str] = {}
Arrays = Mapping[str, Array | np.ndarray]


def bound_to(program: Program, arrays: Arrays, name: str) -> Array | np.ndarray:
    """Return the array bound to a parameter of a kernel or of its gradient.

    Args:
        program: The program, for error messages.
        arrays: The bound arrays by name. The adjoint of a field need not be among them.
        name: A parameter, or the name `x.grad` of the adjoint of a parameter.

    Raises:
        NotDifferentiable: The name is that of an adjoint, and the array has none.
    """
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
    """Return the memory of each named array, for a launch on these arrays.

    Raises:
        ArgumentError: Two of the arrays overlap.
    """
    memory: dict[str, np.ndarray] = {}
    for name in names:
        found = arrays.get(name)
        if found is None:
            found = bound_to(program, arrays, name)
        memory[name] = found.buffer if isinstance(found, Array) else found
    if len(memory) > 1:
        _refuse_aliases(program, memory)
    return memory


def _refuse_aliases(program: Program, memory: Mapping[str, np.ndarray]) -> None:
    """Raise ArgumentError if two arrays overlap; the compiler assumes that they do not."""
    spans = []
    for name, array in memory.items():
        if array.nbytes:
            begin = array.__array_interface__["data"][0]
            spans.append((begin, begin + array.nbytes, name))
    spans.sort()
    for (_, end, first), (begin, _, second) in pairwise(spans):
        if begin < end:
            reason = f"kernel {program.label}: {first} and {second} are the same memory"
            raise ArgumentError(reason, "give each parameter an array of its own")


def fields_of(program: Program, arrays: Arrays, names: Sequence[str]) -> tuple[Array, ...]:
    """Return the fields among the named arrays, without duplicates."""
    found = {}
    for name in names:
        array = arrays.get(name)
        if array is None:
            array = bound_to(program, arrays, name)
        if isinstance(array, Array):
            found[id(array)] = array
    return tuple(found.values())


def shapes_of(memory: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array, by the name of the array."""
    return {name: array.shape for name, array in memory.items()}


def boxes_by_field(
    program: Program,
    arrays: Arrays,
    boxes: Mapping[str, list[Box]],
    wanted: tuple[Array, ...],
    before: Mapping[str, str] = NOTHING,
) -> dict[Array, list[Box]]:
    """Return the boxes of each field, given the boxes of the parameters to which the fields are bound.

    Args:
        program: The program, for error messages.
        arrays: The bound arrays by name.
        boxes: The boxes of each parameter.
        wanted: The fields to return. A field that no box touches gets an empty list.
        before: For each parameter that is a copy of earlier contents, the name of the original array.
    """
    found: dict[Array, list[Box]] = {field: [] for field in wanted}
    for name, own in boxes.items():
        field = bound_to(program, arrays, before.get(name, name))
        if isinstance(field, Array) and field in found:
            found[field] += own
    return found


def written_boxes(binding: Binding, scalars: Scalars) -> dict[Array, list[Box]]:
    """Return the boxes of each field that a launch of a binding with these scalar arguments may write."""
    boxes = binding.program.forward_regions().write_boxes(scalars, shapes_of(binding.memory))
    return boxes_by_field(binding.program, binding.arrays, boxes, binding.written)


class KeptBoxes:
    """Keep the boxes that launches of one binding touch, by the scalar arguments: a program's steps come again.

    Attributes:
        LIMIT: The number of launches that are kept; all are dropped when there is one more.
    """

    LIMIT = 4096

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[tuple[str, object], ...], dict[Array, list[Box]]] = {}

    def of(self, scalars: Scalars, find: Callable[[], dict[Array, list[Box]]]) -> Mapping[Array, list[Box]]:
        """Return the boxes of a launch with these scalar arguments, which `find` determines for the first one."""
        key = tuple(scalars.items())
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= self.LIMIT:
                self._found.clear()
            found = self._found[key] = find()
        return found


def version_source(program: Program, arrays: Arrays, launcher: Launcher) -> tuple[Array, ...] | None:
    """Return the fields whose versions tell if adstack sizes are still valid, or None if an array has no version.

    An array has no version if it is a NumPy array, or a copy of earlier contents of a field or of a gradient.
    """
    if not (launcher.lowered.before.keys() | launcher.lowered.states.keys()).isdisjoint(launcher.versioned):
        return None
    found = []
    for name in launcher.versioned:
        array = bound_to(program, arrays, name)
        if not isinstance(array, Array):
            return None
        found.append(array)
    return tuple(found)
