"""Record writes that a tape does not differentiate, and set the adjoints of the overwritten elements to zero.

Values that the host writes, or a launch that the tape does not differentiate, are constant to the tape. So the
gradients of earlier launches must not see the adjoints of the values that replaced their results. Only elements that an
earlier gradient of the tape touches are cleared: other elements are inputs, and the user wants the derivative with
respect to the values that were written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.sizing.regions import Box, intersect_boxes
from ..data.fields import Array
from ..runtime.session import RUNTIME, stamp

if TYPE_CHECKING:
    from ..backends.base import Scalars
    from ..launch.program import Binding
    from .tape_state import LaunchRecord


@dataclass(eq=False, slots=True)
class HostWrite:
    """Record a write by the host to elements of an array that has an adjoint.

    Attributes:
        array: The array.
        boxes: The boxes of the replaced elements.
    """

    array: Array
    boxes: list[Box]

    def run(self) -> None:
        """Set the adjoints of the elements that the host overwrote to zero."""
        for box in self.boxes:
            for memory in _adjoints(self.array):
                memory[box] = 0
        self.array.grad.version = stamp()


@dataclass(eq=False, slots=True)
class UnannouncedWrite:
    """Record a write by outside code, found by comparison, to elements of an exported array that has an adjoint.

    Attributes:
        array: The array.
        places: Index arrays of the replaced elements, one for each axis.
    """

    array: Array
    places: tuple[np.ndarray, ...]

    def run(self) -> None:
        """Set the adjoints of the elements that outside code overwrote to zero."""
        for memory in _adjoints(self.array):
            memory[self.places] = 0
        self.array.grad.version = stamp()


@dataclass(eq=False, slots=True)
class ConstantLaunch:
    """Record a launch that a tape does not differentiate; `run` sets the adjoints of elements it overwrote to zero.

    Attributes:
        record: The record of the launch, with the detached kernel.
        touched: For each array, the boxes where adjoints end.
    """

    record: LaunchRecord
    touched: Mapping[Array, list[Box]]

    def run(self) -> None:
        """Set the adjoints of elements that the launch overwrote to zero, limited to the recorded boxes."""
        # The gradient of the detached kernel clears all that the launch replaced; the rest is put back afterwards.
        kept = [(array, memory, memory.copy()) for array in self.touched for memory in _adjoints(array)]
        self.record.run()
        RUNTIME.settle()
        for array, after, before in kept:
            for box in self.touched[array]:
                before[box] = after[box]
            after[...] = before


def _adjoints(array: Array) -> list[np.ndarray]:
    """Return the adjoint of an array and, in forward mode, the tangents of the adjoint."""
    mode = RUNTIME.forward
    return [array.grad.memory, *(mode.tangents(array.grad) if mode is not None else ())]


def replaced_elements(
    binding: Binding, scalars: Scalars, names: Iterable[str], touched: Callable[[Array], list[Box]]
) -> dict[str, list[Box]]:
    """Return the boxes of elements that a launch overwrites and that earlier launches of the tape have used.

    The function looks at the named arrays with adjoints.

    Args:
        binding: The launch.
        scalars: The scalar arguments of the launch by name.
        names: The parameters to look at.
        touched: A function that returns the boxes of an array that earlier gradients touch.

    Returns:
        The boxes by parameter name, without parameters that have none.
    """
    found = {}
    for name in names:
        array = binding.arrays[name]
        if isinstance(array, Array) and array.needs_grad:
            boxes = intersect_box_lists(binding.write_boxes(scalars).get(array, []), touched(array))
            if boxes:
                found[name] = boxes
    return found


def box_of(place: Any, shape: tuple[int, ...]) -> Box:
    """Return the box of elements that an index, such as an integer, slice or tuple, selects in an array.

    Args:
        place: An index, or a tuple of indices: integers, slices and at most one ellipsis. Missing axes are whole. A
            slice with a step other than 1 counts as the whole axis.
        shape: The shape of the array.
    """
    parts = place if isinstance(place, tuple) else (place,)
    if any(part is Ellipsis for part in parts):
        at = next(k for k, part in enumerate(parts) if part is Ellipsis)
        parts = (*parts[:at], *(slice(None),) * (len(shape) - len(parts) + 1), *parts[at + 1 :])
    parts = (*parts, *(slice(None),) * (len(shape) - len(parts)))
    return tuple(_axis(part, extent) for part, extent in zip(parts, shape))


def _axis(part: Any, extent: int) -> slice:
    if isinstance(part, slice):
        first, last, step = part.indices(extent)
        return slice(first, last) if step == 1 else slice(0, extent)
    return slice(int(part), int(part) + 1)


def intersect_box_lists(boxes: Iterable[Box], others: Iterable[Box]) -> list[Box]:
    """Return the non-empty intersections of each box of one list with each box of the other list."""
    others = list(others)
    return [found for a in boxes for b in others if (found := intersect_boxes(a, b)) is not None]
