"""What a tape does about writes that it does not differentiate: adjoints end where such a write replaces an element.

The content that the host writes, or a launch outside of the tape's gradient, is constant to the tape. So the gradients
of earlier launches must not see the adjoint of what replaced their results. Only elements that an earlier gradient of
the tape touches are cleared: others are inputs, of which the user wants the derivative at the content written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .compiler.sizing.regions import Box, meet
from .fields import Array
from .session import RUNTIME, stamp

if TYPE_CHECKING:
    from .backends.base import Scalars
    from .program import Binding
    from .tape_state import Record


@dataclass(eq=False, slots=True)
class HostWrite:
    """The host replaced these elements of an array with an adjoint."""

    array: Array
    boxes: list[Box]

    def run(self) -> None:
        """End the adjoints."""
        for box in self.boxes:
            for memory in _adjoints(self.array):
                memory[box] = 0
        self.array.grad.version = stamp()


@dataclass(eq=False, slots=True)
class UnseenWrite:
    """Someone replaced these elements of an exported array with an adjoint. places: an index for each axis."""

    array: Array
    places: tuple[np.ndarray, ...]

    def run(self) -> None:
        """End the adjoints."""
        for memory in _adjoints(self.array):
            memory[self.places] = 0
        self.array.grad.version = stamp()


@dataclass(eq=False, slots=True)
class ConstantLaunch:
    """A launch that the tape takes for constant. record: its detached kernel. touched: by array, where adjoints end."""

    record: Record
    touched: Mapping[Array, list[Box]]

    def run(self) -> None:
        """End the adjoints of what the launch replaced; those of elements that nothing touched before stay."""
        kept = [(array, memory, memory.copy()) for array in self.touched for memory in _adjoints(array)]
        self.record.run()
        RUNTIME.settle()
        for array, after, before in kept:
            for box in self.touched[array]:
                before[box] = after[box]
            after[...] = before


def _adjoints(array: Array) -> list[np.ndarray]:
    """The adjoint of an array and, in forward mode, its tangents."""
    mode = RUNTIME.forward
    return [array.grad.memory, *(mode.tangents(array.grad) if mode is not None else ())]


def replaced(
    binding: Binding, scalars: Scalars, names: Iterable[str], touched: Callable[[Array], list[Box]]
) -> dict[str, list[Box]]:
    """Which elements of these arrays with adjoints a launch replaces, of those touched before; arrays by name."""
    found = {}
    for name in names:
        array = binding.arrays[name]
        if isinstance(array, Array) and array.needs_grad:
            boxes = common(binding.write_boxes(scalars).get(array, []), touched(array))
            if boxes:
                found[name] = boxes
    return found


def box_of(place: Any, shape: tuple[int, ...]) -> Box:
    """The box of a place in memory: integers, slices of step 1, and at most one ellipsis. Missing axes are whole."""
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


def common(boxes: Iterable[Box], others: Iterable[Box]) -> list[Box]:
    """The elements that lie in a box of both."""
    others = list(others)
    return [found for a in boxes for b in others if (found := meet(a, b)) is not None]
