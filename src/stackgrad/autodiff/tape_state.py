"""Save field contents that a write destroys, so that a tape can restore them before it runs a gradient.

Launches know what they read and overwrite as boxes of elements, found from their arguments. So a program that is
indexed by time (step t reads x[t], writes x[t + 1]) saves nothing.

The log is a list of recorded launches and saved contents in order of time. The backward pass exchanges each saved
content with the present contents of its array before the gradients of earlier launches run. Afterwards all exchanges
are made once more, which restores the final contents exactly, because every exchange is its own inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.errors import InternalError
from ..compiler.sizing.regions import Box, hull
from ..data.fields import Array
from ..launch.saved_boxes import BeforeContent, SavedBox, box_covers
from ..runtime.session import RUNTIME, stamp
from ..runtime.usage_errors import TapeError
from .overwrites import ConstantLaunch, HostWrite, UnannouncedWrite, intersect_box_lists
from .unannounced_writes import ExpectedContents, common_indices
from .watched_boxes import WatchedBoxes

if TYPE_CHECKING:
    from ..backends.base import Draws, Scalars
    from ..launch.directions import BoundGradient
    from ..launch.program import Binding
    from ..runtime.thread_state import ForwardMode
    from .validation import Validation


@dataclass(eq=False, slots=True)
class LaunchRecord:
    """Hold a recorded launch: its arrays, arguments, versions, and what its gradient will read.

    Attributes:
        binding: The kernel with the memory that it ran on.
        scalars: The scalar arguments by name.
        draws: The key of the random numbers that the launch drew.
        versions: Versions, right after the launch, of the fields that the gradient reads.
        reads: The boxes that the gradient reads of each field.
        foreign: Copies of the NumPy arrays, exported fields and gradients that the gradient reads, because no tape can
            restore their earlier contents.
        before: Copies, made before the launch, of the needed parts of the arrays that the launch may have written.
        site: File and line of the call.
    """

    binding: Binding
    scalars: Scalars
    draws: Draws
    versions: dict[Array, int]
    reads: Mapping[Array, list[Box]]
    foreign: dict[str, BeforeContent]
    before: dict[str, BeforeContent]
    site: tuple[str, int] | None = None

    def run(self) -> None:
        """Run the gradient of the recorded launch with the present contents of the fields."""
        self.binding.launch_grad(self.scalars, self.draws, self._replaced, taped=True)

    def _replaced(self, direction: int | None) -> dict[str, np.ndarray]:
        """Return the saved contents, with tangents along `direction`, that a gradient reads in place of arrays."""
        backward = self.binding.prepare_taped()
        taken = backward.before
        kept = {**self.foreign, **{copy: self.before[name] for copy, name in taken.items()}}
        made = {name: one.primal.restored() for name, one in kept.items()}
        if direction is not None:
            # A gradient that no launch had given a tangent when it was copied was constant.
            made |= {f"{name}.dual": np.zeros_like(made[name]) for name in kept if backward.is_gradient(name)}
            made |= {f"{name}.dual": one.tangents[direction].restored() for name, one in kept.items() if one.tangents}
        return made


@dataclass(eq=False, slots=True)
class CustomRecord:
    """Record a call of a function with a custom gradient; the gradient reads the fields as they are when it runs."""

    run: Callable[[], Any]


@dataclass(eq=False, slots=True)
class PendingWrite:
    """Represent a launch or host write that is about to happen, with the boxes of each field that it may write.

    For a write by the host `binding` is None.
    """

    binding: Binding | None
    writes: Mapping[Array, list[Box]]

    def boxes(self, array: Array) -> list[Box]:
        """Return the boxes of an array that the launch or host write may change; the whole array if unknown."""
        found = self.writes.get(array)
        return [whole(array)] if found is None else found


@dataclass(eq=False, slots=True)
class SavedContent:
    """Hold earlier contents of a field or of a box of it; `undo` exchanges them with the present contents.

    `kept` holds the contents of the field and, in forward mode, of its tangents.
    """

    field: Array
    box: Box | None
    kept: list[SavedBox]
    version: int

    def undo(self) -> None:
        """Restore the contents from before the write, and keep the contents that they replace."""
        self._swap()
        if self.box is None:
            self.field.version, self.version = self.version, self.field.version
        else:
            # Only a part of the field is as it was, so the state is one that had no version yet.
            self.version, self.field.version = self.field.version, stamp()

    def redo(self) -> None:
        """Restore the contents from after the write; this is the inverse of `undo`."""
        self._swap()
        self.field.version, self.version = self.version, self.field.version

    def _swap(self) -> None:
        for one in self.kept:
            one.swap()

    @property
    def size(self) -> int:
        """Return the number of bytes of the saved contents."""
        return sum(one.content.nbytes for one in self.kept)


def whole(array: Array) -> Box:
    """Return the box of all elements of an array."""
    return tuple(slice(0, extent) for extent in array.shape)


TapeEvent = LaunchRecord | CustomRecord | SavedContent | HostWrite | UnannouncedWrite | ConstantLaunch
BoxKey = tuple[tuple[int, int], ...]


@dataclass
class StateLog:
    """Hold the events that one tape recorded, in order, and the contents that it saved.

    `budget` is the maximum of saved bytes, `used` the bytes saved so far. `guard` validates the log. `mode` is the
    forward mode in which the tape runs, whose tangents are part of the state. `shared` holds copies of exported arrays.
    """

    budget: int
    used: int = 0
    guard: Validation | None = None
    mode: ForwardMode | None = None
    shared: ExpectedContents = field(default_factory=ExpectedContents)
    events: list[TapeEvent] = field(default_factory=list)
    _watched: dict[Array, WatchedBoxes] = field(default_factory=dict)
    _loose: set[Array] = field(default_factory=set)
    _disturbed: dict[Array, SavedContent] = field(default_factory=dict)
    _opaque: set[Array] = field(default_factory=set)
    _gradients: dict[Array, tuple[int, BeforeContent]] = field(default_factory=dict)
    _touched: dict[Array, tuple[int, dict[BoxKey, Box]]] = field(default_factory=dict)

    # -- forward --------------------------------------------------------------------------------------------

    def add(self, event: LaunchRecord | CustomRecord | ConstantLaunch) -> None:
        """Append the record of a launch or call that has ended."""
        self.events.append(event)
        record = event.record if isinstance(event, ConstantLaunch) else event
        if isinstance(record, LaunchRecord):
            for array, boxes in record.reads.items():
                self._watch(array).add(boxes, record)
            if self.guard is not None:
                self.guard.seal(record)

    def _watch(self, array: Array) -> WatchedBoxes:
        """Return the boxes of an array that recorded gradients read."""
        watched = self._watched.get(array)
        if watched is None:
            watched = self._watched[array] = WatchedBoxes(array.shape)
        return watched

    def is_read(self, array: Array) -> bool:
        """Return True if the gradient of some recorded launch reads the contents of the array."""
        return array in self._watched

    def custom_use(self, arrays: Iterable[Array]) -> None:
        """Record that a function with a custom gradient uses these arrays, whose adjoints this gradient may touch."""
        self._opaque.update(arrays)

    def host_write(self, array: Array, box: Box) -> None:
        """Record that the host is about to overwrite a box of an array, so that adjoints in the box become zero."""
        if array.needs_grad:
            boxes = intersect_box_lists([box], self.touched(array))
            if boxes:
                self.events.append(HostWrite(array, boxes))

    def look(self, array: Array) -> None:
        """Copy an exported array when the tape first uses it, and count the copy against the tape's memory budget."""
        if array not in self.shared:
            self.reserve(array.buffer.nbytes, array.label, "others can write it unseen, for which the tape has a copy")
            self.shared.remember(array)

    def unseen_write(self, array: Array, changed: np.ndarray) -> None:
        """Record that outside code wrote, without notice, the elements of an exported array where `changed` is True."""
        places = common_indices(changed, self.touched(array))
        if places is not None:
            self.events.append(UnannouncedWrite(array, places))

    def touched(self, array: Array) -> list[Box]:
        """Return the boxes of an array whose adjoints recorded gradients read or write."""
        done, boxes = self._touched.get(array, (0, {}))
        if array in self._opaque:
            return [whole(array)]
        for event in self.events[done:]:
            if isinstance(event, LaunchRecord):
                for box in event.binding.prepare_taped().adjoint_boxes(array, event.scalars):
                    boxes.setdefault(tuple((s.start, s.stop) for s in box), box)
        self._touched[array] = len(self.events), boxes
        return list(boxes.values())

    def before_write(self, array: Array, launch: PendingWrite) -> None:
        """Save the contents that a launch will overwrite and that a recorded gradient reads."""
        watched = self._watched.get(array)
        if watched is None:
            return
        lost, reader = watched.endangered(launch.boxes(array))
        if reader is not None and box_covers(hull(lost), whole(array)):
            self._save(array, None, reader, launch)
        else:  # A part of the array is written without being saved, so its version no longer tells its content.
            self._loose.add(array)
            if reader is not None:
                self._save(array, hull(lost), reader, launch)

    def keep(self, launch: PendingWrite, arrays: Iterable[str]) -> dict[str, BeforeContent]:
        """Return copies of the elements of named arrays that a launch may overwrite, counted against the budget."""
        assert launch.binding is not None
        kept: dict[str, BeforeContent] = {}
        for name in dict.fromkeys(arrays):
            found = launch.binding.arrays[name]
            # The backward pass updates gradients, so it does not find the rest of one as the launch left it.
            seen = isinstance(found, Array) and not found.exported and not found.is_grad
            box = hull(launch.boxes(found)) if isinstance(found, Array) and seen and launch.boxes(found) else None
            why = f"kernel {launch.binding.program.label} overwrites what its own gradient reads"
            kept[name] = self.copied(launch.binding.arrays, name, box, why)
        return kept

    def unseen_content(self, backward: BoundGradient, name: str) -> BeforeContent:
        """Return a copy of an array that a gradient reads and that no saved contents can put back.

        Launches that read a gradient while it has the same contents share one copy of it.
        """
        array = backward.arrays.get(name)
        shared = isinstance(array, Array) and array.is_grad and not array.exported and self._mode is None
        known = self._gradients.get(array) if isinstance(array, Array) and shared else None
        if known is not None and isinstance(array, Array) and known[0] == array.version:
            return known[1]
        why = f"the gradient of kernel {backward.program.label} reads it, and others can write it unseen"
        made = self.copied(backward.arrays, name, None, why)
        if isinstance(array, Array) and shared:
            self._gradients[array] = array.version, made
        return made

    def keep_own(self, binding: Binding) -> None:
        """Count arrays that exist for this launch alone, such as records of atomics, against the memory budget."""
        size = sum(array.nbytes for array in binding.own.values())
        if size:
            why = f"the gradient of kernel {binding.program.label} needs the order in which its atomics ran"
            self.reserve(size, "what they returned or left", why, "launch it with fewer iterations")

    def copied(self, arrays: Mapping[str, Array | np.ndarray], name: str, box: Box | None, why: str) -> BeforeContent:
        """Return a copy of a box of an array and of its tangents, counted against the budget."""
        array = arrays[name]
        if isinstance(array, Array):
            return BeforeContent(*self._copies(array.memory, self._tangents(array), box, name, why))
        has_tangents = f"{name}.grad" in arrays or name.endswith(".grad")
        tangents = self._mode.tangents_beside(array) if self._mode is not None and has_tangents else []
        return BeforeContent(*self._copies(array, tangents, box, f"array {name!r}", why))

    def _copies(
        self, memory: np.ndarray, tangents: list[np.ndarray], box: Box | None, label: str, why: str
    ) -> tuple[SavedBox, list[SavedBox]]:
        size = (memory if box is None else memory[box]).nbytes
        self.reserve(size * (1 + len(tangents)), label, why)
        return SavedBox.of(memory, box), [SavedBox.of(one, box) for one in tangents]

    @property
    def _mode(self) -> ForwardMode | None:
        return self.mode if RUNTIME.forward is self.mode else None

    def _tangents(self, array: Array) -> list[np.ndarray]:
        return self._mode.tangents(array) if self._mode is not None else []

    def reserve(self, size: int, array: str, why: str, cure: str = "") -> None:
        """Count `size` bytes as memory that the tape uses; raise TapeError if this exceeds the tape's budget."""
        if self.used + size > self.budget:
            raise TapeError(
                f"the tape is over its budget: {why}; saving {array} takes {size} bytes, "
                f"{self.used} of {self.budget} are in use",
                "give Tape(..., budget_bytes=) more, or "
                + (cure or f"let time steps write different elements of {array}"),
            )
        self.used += size

    def _save(self, array: Array, box: Box | None, record: LaunchRecord, launch: PendingWrite) -> None:
        writer = "the host" if launch.binding is None else f"kernel {launch.binding.program.label}"
        reader = record.binding.program.label
        why = f"{writer} overwrites what the gradient of kernel {reader} reads"
        label = self._label(array, [record])
        primal, tangents = self._copies(array.memory, self._tangents(array), box, label, why)
        self.events.append(SavedContent(array, box, [primal, *tangents], array.version))

    def _label(self, array: Array, records: Iterable[LaunchRecord]) -> str:
        """Return the name of an array for messages, taken from the array or from a kernel that uses it."""
        if array.name:
            return array.label
        bound = (pair for record in records for pair in record.binding.arrays.items())
        return next((f"field {name!r}" for name, found in bound if found is array), array.label)

    def arrays(self) -> set[Array]:
        """Return the fields that were saved or that recorded gradients read, whose contents the backward pass needs."""
        found: set[Array] = set()
        for event in self.events:
            if isinstance(event, SavedContent):
                found.add(event.field)
            elif isinstance(event, LaunchRecord):
                found.update(event.versions)
            elif isinstance(event, ConstantLaunch):
                found.update(event.record.versions)
        return found

    # -- backward -------------------------------------------------------------------------------------------

    def run_backward(self) -> None:
        """Run the gradients of all records in reverse order, each with the contents right after its launch.

        The state of all fields is restored in the end.
        """
        undone: list[SavedContent] = []
        try:
            for event in reversed(self.events):
                if isinstance(event, SavedContent):
                    self._settle(event.field)
                    event.undo()
                    undone.append(event)
                    self._swapped(event)
                elif isinstance(event, LaunchRecord):
                    self._prepare(event)
                    event.run()
                else:
                    if isinstance(event, ConstantLaunch):
                        self._prepare(event.record)
                    event.run()
        finally:
            for array in list(self._disturbed):
                self._settle(array)
            for saved in reversed(undone):
                saved.redo()
                self._swapped(saved)

    def _swapped(self, saved: SavedContent) -> None:
        if self.guard is not None:
            self.guard.swapped(saved)

    def _prepare(self, record: LaunchRecord) -> None:
        """Restore primals that custom gradients wrote. Raise InternalError if fields are not as after the launch."""
        for array, version in record.versions.items():
            self._settle(array)
            if array.version != version and not array.exported and array not in self._loose:
                kernel = record.binding.program.label
                raise InternalError(f"{array.label} is not what it was right after the launch of kernel {kernel}")
        if self.guard is not None:
            self.guard.check(record)

    def disturb(self, array: Array) -> None:
        """Save the contents of a primal, unless they are saved already, before a user's gradient function writes it."""
        if array.is_grad or array in self._disturbed:
            return
        why = "a gradient function overwrites it"
        records = [event for event in reversed(self.events) if isinstance(event, LaunchRecord)]
        primal, tangents = self._copies(array.memory, self._tangents(array), None, self._label(array, records), why)
        self._disturbed[array] = SavedContent(array, None, [primal, *tangents], array.version)

    def _settle(self, array: Array) -> None:
        """Restore the contents of a primal array that a user's gradient function has overwritten."""
        saved = self._disturbed.pop(array, None)
        if saved is not None:
            RUNTIME.settle()
            for one in saved.kept:
                one.array[...] = one.content
            array.version = saved.version
            self.used -= saved.size
