"""The state a gradient is taken at: what a tape saves before a write destroys it, and how it is swapped back in.

The log is a list of recorded launches and saved contents, in order of time. Going backward, a saved content is
swapped with the present one before the gradients of earlier launches run; going forward again swaps once more, which
puts the final contents back exactly, as every swap is its own inverse.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .compiler.errors import InternalError
from .fields import Field
from .session import stamp
from .usage import TapeError

if TYPE_CHECKING:
    from .backends.base import Draws, Scalars
    from .program import Binding

Box = tuple[slice, ...]
"""A box of elements, one slice per axis."""


@dataclass(eq=False, slots=True)
class Record:
    """A launch whose gradient the tape will run.

    versions: of the fields that the gradient reads, right after the launch. foreign: copies of the NumPy arrays it
    reads, as nobody sees who writes those.
    """

    binding: Binding
    scalars: Scalars
    draws: Draws
    versions: dict[Field, int]
    foreign: dict[str, np.ndarray]


@dataclass(eq=False, slots=True)
class CustomRecord:
    """A call of a function whose gradient the user wrote; it runs at whatever state the fields have then."""

    run: Callable[[], Any]


@dataclass(eq=False, slots=True)
class Launch:
    """A launch about to run, or a write by the host (binding None)."""

    binding: Binding | None
    scalars: Scalars


@dataclass(eq=False, slots=True)
class Saved:
    """The content of a field, or of a box of it, before a write; while swapped in, the content that it replaced."""

    field: Field
    box: Box | None
    content: np.ndarray
    version: int

    def undo(self) -> None:
        """Go back over the write."""
        self._swap()
        if self.box is None:
            self.field.version, self.version = self.version, self.field.version
        else:
            self.version, self.field.version = self.field.version, stamp()

    def redo(self) -> None:
        """Go forward over the write again; the inverse of `undo`."""
        self._swap()
        self.field.version, self.version = self.version, self.field.version

    def _swap(self) -> None:
        place = self.field.memory[...] if self.box is None else self.field.memory[self.box]
        present = place.copy()
        place[...] = self.content
        self.content = present


def overlap(record: Record, launch: Launch, array: Field) -> bool | Box:
    """Which elements of `array`, that the gradient of `record` reads, `launch` may overwrite.

    False: none. A box: those inside it. True: any. This is the one place that decides what a tape saves; whole
    arrays are the granularity here.
    """
    return True


@dataclass
class StateLog:
    """What one tape recorded and saved. budget: most bytes of saved content; used: bytes saved."""

    budget: int
    used: int = 0
    events: list[Record | CustomRecord | Saved] = field(default_factory=list)
    _readers: dict[Field, list[Record]] = field(default_factory=dict)
    _loose: set[Field] = field(default_factory=set)
    _disturbed: dict[Field, Saved] = field(default_factory=dict)

    # -- forward --------------------------------------------------------------------------------------------

    def add(self, event: Record | CustomRecord) -> None:
        """Append a launch, or a call, that has run."""
        self.events.append(event)
        if isinstance(event, Record):
            for array in event.versions:
                self._readers.setdefault(array, []).append(event)

    def before_write(self, array: Field, launch: Launch) -> None:
        """Save what the launch will destroy and the gradient of a recorded launch still reads."""
        readers = self._readers.get(array)
        if not readers:
            return
        boxes: list[Box] = []
        for record in readers:
            found = overlap(record, launch, array)
            if found is True:
                self._save(array, None, record, launch)
                readers.clear()
                return
            if found is not False:
                boxes.append(found)
        self._loose.add(array)
        if boxes:
            self._save(array, _hull(boxes), readers[0], launch)

    def reserve(self, size: int, array: str, why: str) -> None:
        """Count bytes against the budget. Raises TapeError, before anything is written, if they do not fit."""
        if self.used + size > self.budget:
            raise TapeError(
                f"the tape is over its budget: {why}; saving {array} takes {size} bytes, "
                f"{self.used} of {self.budget} are in use",
                f"give Tape(..., budget_bytes=) more, or let time steps write different elements of {array}",
            )
        self.used += size

    def _save(self, array: Field, box: Box | None, record: Record, launch: Launch) -> None:
        place = array.memory if box is None else array.memory[box]
        writer = "the host" if launch.binding is None else f"kernel {launch.binding.program.label}"
        reader = record.binding.program.label
        why = f"{writer} overwrites what the gradient of kernel {reader} reads"
        self.reserve(place.nbytes, array.label, why)
        self.events.append(Saved(array, box, place.copy(), array.version))

    # -- backward -------------------------------------------------------------------------------------------

    def run_backward(self) -> None:
        """The gradient of every record, last first, each at the state right after its launch; then the final state."""
        undone: list[Saved] = []
        try:
            for event in reversed(self.events):
                if isinstance(event, Saved):
                    self._settle(event.field)
                    event.undo()
                    undone.append(event)
                elif isinstance(event, CustomRecord):
                    event.run()
                else:
                    self._run_gradient(event)
        finally:
            for array in list(self._disturbed):
                self._settle(array)
            for saved in reversed(undone):
                saved.redo()

    def _run_gradient(self, record: Record) -> None:
        for array, version in record.versions.items():
            self._settle(array)
            if array.version != version and array not in self._loose:
                kernel = record.binding.program.label
                raise InternalError(f"{array.label} is not what it was right after the launch of kernel {kernel}")
        record.binding.launch_grad(record.scalars, record.draws, record.foreign)

    def disturb(self, array: Field) -> None:
        """A user's gradient function is about to write a primal: keep its content of before, once."""
        if array.is_grad or array in self._disturbed:
            return
        self.reserve(array.memory.nbytes, array.label, "a gradient function overwrites it")
        self._disturbed[array] = Saved(array, None, array.memory.copy(), array.version)

    def _settle(self, array: Field) -> None:
        """Put back what user's gradient functions overwrote."""
        saved = self._disturbed.pop(array, None)
        if saved is not None:
            array.memory[...] = saved.content
            array.version = saved.version
            self.used -= saved.content.nbytes


def _hull(boxes: list[Box]) -> Box:
    """The smallest box that holds all."""
    return tuple(slice(min(s.start for s in axis), max(s.stop for s in axis)) for axis in zip(*boxes))
