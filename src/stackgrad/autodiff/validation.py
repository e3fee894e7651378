"""Implement `Tape(..., validation=True)`: detect writes, unknown to the tape, to memory that gradients read.

A tape saves what launches and the host overwrite, because it is told of them. Nobody tells it of a write through an
exported view, a DLPack capsule, a NumPy array or tensor that a kernel was given, or a pointer. Such a write is no part
of the program that the tape differentiates: the adjoint of the written value would pass to the launch that computed the
earlier value. For exported arrays the tape itself looks for such writes and sets the adjoints to 0 (see
`unannounced_writes.py`); then validation only warns. So

* what a launch touched is compared, before the next launch or write of the host that touches it and at the end of the
  block, with a copy of the contents that the launch left in it: the *expected* contents;
* what the gradient of a launch reads is hashed right after the launch, and again before that gradient runs.

Invariant: `ExpectedContent.content` is what memory holds if nothing was written without notice, also while the tape
swaps states.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.errors import InternalError, warn
from ..compiler.frontend.refused_names import caller_span
from ..compiler.sizing.regions import Box
from ..data.fields import Array
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import TapeError
from .overwrites import box_of

if TYPE_CHECKING:
    from ..backends.base import Scalars
    from ..launch.program import Binding
    from .tape_state import LaunchRecord, SavedContent

CURE = (
    "write it by a kernel, or as x[i] = v, x.fill(v) or x.from_numpy(a), which a tape sees; or before the block;"
    " or give each launch an array of its own"
)


class ValidationError(TapeError):
    """Signal that memory on which a gradient depends was written without a notification of the tape.

    Attributes:
        array: The name of the array.
        element: The index of the element.
        launch: The number of the last launch that touched the array.
    """

    def __init__(self, reason: str, array: str, element: tuple[int, ...], launch: int) -> None:
        super().__init__(reason, CURE)
        self.array = array
        self.element = element
        self.launch = launch


class ValidationWarning(UserWarning):
    """Warn that memory was written without a notification of the tape, although gradients are still right.

    Gradients read a copy that the tape took before; the adjoints of the overwritten elements, if any, become zero.
    """


@dataclass(eq=False, slots=True)
class ExpectedContent:
    """Hold a copy of the contents that an array should have, and which of its elements were used.

    Attributes:
        label: The name for messages.
        carries: True if the memory has an adjoint.
        memory: The memory.
        content: The copy of what the memory should hold.
        used: A mask of the elements that launches have touched.
        by: A description of the last launch that touched the memory.
        launch: The number of this launch.
        pending: Boxes that the host was about to write.
    """

    label: str
    carries: bool
    memory: np.ndarray
    content: np.ndarray
    used: np.ndarray
    by: str
    launch: int
    pending: list[Box] = field(default_factory=list)

    def settle(self) -> None:
        """Wait for all launches, then copy the boxes that the host announced it would write."""
        RUNTIME.settle()
        for box in self.pending:
            self.content[box] = self.memory[box]
        self.pending.clear()

    def changed(self, boxes: Iterable[Box]) -> tuple[int, ...] | None:
        """Return the index of the first used element in these boxes with an unexpected value; None if there is none."""
        self.settle()
        for box in boxes:
            differs = (_bits(self.memory[box]) != _bits(self.content[box])) & self.used[box]
            if differs.any():
                inside = np.unravel_index(int(np.argmax(differs)), differs.shape)
                return tuple(int(k) + side.start for k, side in zip(inside, box))
        return None


class Validation:
    """Check at each launch of one tape that no memory was written without a notification of the tape.

    Attributes:
        launches: Number of launches so far.
    """

    def __init__(self) -> None:
        self.launches = 0
        self._expected: dict[object, ExpectedContent] = {}
        self._seals: dict[LaunchRecord, bytes] = {}
        self._numbers: dict[LaunchRecord, int] = {}

    # -- forward --------------------------------------------------------------------------------------------

    def before_launch(self, binding: Binding, scalars: Scalars) -> None:
        """Raise ValidationError if a launch is about to use memory that was written without notice."""
        self.launches += 1
        at = f"before launch {self.launches}, of kernel {binding.program.label}"
        for key, (_, boxes) in _touched(binding, scalars).items():
            self._compare(key, boxes, at)

    def after_launch(self, binding: Binding, scalars: Scalars) -> None:
        """Record the arrays that a kernel has written, also if it failed after it wrote."""
        RUNTIME.settle()
        written = binding.write_boxes(scalars)
        place = caller_span()
        line = f", called at {place.file}:{place.line}" if place else ""
        by = f"launch {self.launches} (kernel {binding.program.label}{line})"
        for key, (name, boxes) in _touched(binding, scalars).items():
            found = self._expected.get(key) or self._meet(key, binding, name, by)
            found.by, found.launch = by, self.launches
            for box in written.get(key, []) if isinstance(key, Array) else boxes:
                found.content[box] = found.memory[box]
            for box in boxes:
                found.used[box] = True
        writes = binding.program.forward_side().writes
        self._follow_aliases([a for name in writes if isinstance(a := binding.arrays.get(name), np.ndarray)])

    def _meet(self, key: object, binding: Binding, name: str, by: str) -> ExpectedContent:
        """Store and return the expected contents of an array that is used for the first time: a copy of its memory."""
        array = binding.arrays[name]
        if isinstance(array, Array):
            known, memory = (array.label, array.needs_grad), array.memory
        else:
            label = f"argument {name!r} of kernel {binding.program.label}"
            known, memory = (label, f"{name}.grad" in binding.arrays), array
        found = ExpectedContent(*known, memory, memory.copy(), np.zeros(memory.shape, bool), by, self.launches)
        self._expected[key] = found
        return found

    def _follow_aliases(self, written: list[np.ndarray]) -> None:
        """Update the expected contents of all NumPy arrays that overlap memory that a launch wrote."""
        for key, found in self._expected.items():
            if not isinstance(key, Array) and any(np.may_share_memory(found.memory, w) for w in written):
                found.content[...] = found.memory

    def before_host_write(self, array: Array, place: Any) -> None:
        """Record that the host is about to write to an index of an array; None means an index not known yet."""
        found = self._expected.get(array)
        if found is not None:
            if not found.pending:
                self._compare(array, [_all(found.memory)], "before the host wrote to it")
            if place is not None:
                found.pending.append(box_of(place, found.memory.shape))

    def end(self) -> None:
        """Raise ValidationError, or warn, if memory was written without notice by the end of the tape's block.

        A write without notice does no harm if gradients read a copy of the memory and no launch uses it any more.
        """
        for key, found in self._expected.items():
            self._compare(key, [_all(found.memory)], "when the tape's block ended", harmless=_is_copied(key))

    def _compare(self, key: object, boxes: Iterable[Box], when: str, harmless: bool | None = None) -> None:
        """Raise ValidationError if memory differs from its expected contents; only warn if gradients stay right.

        Args:
            key: The memory.
            boxes: The boxes to look at.
            when: A text that says when the comparison takes place, for the message.
            harmless: True to warn, False to raise; None to warn only if gradients stay right.
        """
        found = self._expected.get(key)
        element = found.changed(boxes) if found else None
        if found is None or element is None:
            return
        shown = _place(key, element)
        reason = (
            f"{found.label} was written behind the tape's back: element {list(shown)} was {found.content[element]}"
            f" after {found.by}, and is {found.memory[element]} {when}"
        )
        if not (_is_followed(key, found) if harmless is None else harmless):
            raise ValidationError(reason, found.label, shown, found.launch)
        does = "has a copy, and ends the adjoint of what was there" if found.carries else "has a copy"
        warn(f"{reason}; the tape {does}", ValidationWarning)
        found.content[...] = found.memory

    # -- backward -------------------------------------------------------------------------------------------

    def seal(self, record: LaunchRecord) -> None:
        """Store a hash of the memory that a recorded launch's gradient will read, to detect later changes."""
        self._seals[record] = _hash(record)
        self._numbers[record] = self.launches

    def swapped(self, saved: SavedContent) -> None:
        """Update the expected contents after the tape has restored saved contents."""
        found = self._expected.get(saved.field)
        if found is not None:
            RUNTIME.settle()
            place = ... if saved.box is None else saved.box
            found.content[place] = found.memory[place]

    def check(self, record: LaunchRecord) -> None:
        """Raise ValidationError if memory that this launch's gradient will read was written without notice.

        Raises:
            ValidationError: The content was written without notice.
            InternalError: The content is wrong by a fault of the tape.
        """
        if record not in self._seals or _hash(record) == self._seals[record]:
            return
        which = f"the gradient of launch {self._numbers[record]}, of kernel {record.binding.program.label}"
        for array, boxes in record.reads.items():
            found = self._expected.get(array)
            if found is not None:
                found.used[...] = True
                self._compare(array, boxes, f"before {which}, which reads it", harmless=False)
        raise InternalError(f"{which}, is not at the state right after the launch")


# ---- helpers --------------------------------------------------------------------------------------------------------


def _touched(binding: Binding, scalars: Scalars) -> dict[object, tuple[str, list[Box]]]:
    """Return the boxes of each array that a launch uses, adjoints excluded, with the parameter's name."""
    boxes = binding.touched_boxes(scalars)
    found: dict[object, tuple[str, list[Box]]] = {}
    for name, array in binding.arrays.items():
        if name.endswith(".grad") or name.startswith("$"):
            continue
        if isinstance(array, Array):
            if not array.is_grad and boxes.get(array):
                found[array] = name, boxes[array]
        elif array.flags.writeable:  # A read-only array is a copy made for this launch.
            found[_identity(array)] = name, [_all(array)]
    return found


def _is_copied(key: object) -> bool:
    """Return True if gradients read the tape's copy of an array instead of the array's own memory."""
    return not isinstance(key, Array) or key.exported


def _is_followed(key: object, found: ExpectedContent) -> bool:
    """Return True if a write without notice to this memory leaves gradients right, so that a warning is enough."""
    return key.exported if isinstance(key, Array) else not found.carries


def _identity(array: np.ndarray) -> object:
    return array.__array_interface__["data"][0], array.shape, array.dtype.str


def _all(array: np.ndarray) -> Box:
    return tuple(slice(0, extent) for extent in array.shape)


def _bits(array: np.ndarray) -> np.ndarray:
    """Return the bits of each element as unsigned integers, so that NaN equals NaN, and -0.0 differs from 0.0."""
    return np.ascontiguousarray(array).reshape(array.shape).view(f"u{array.dtype.itemsize}")


def _hash(record: LaunchRecord) -> bytes:
    """Return a hash of the bits that the gradient of a launch reads."""
    made = hashlib.blake2b(digest_size=16)
    for array, boxes in record.reads.items():
        for box in boxes:
            made.update(np.ascontiguousarray(array.memory[box]).data)
    for copy in (*record.foreign.values(), *record.before.values()):
        made.update(np.ascontiguousarray(copy.primal.content).data)
    return made.digest()


def _place(key: object, element: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of an element as the user writes it, that is, with the index offset of the field added."""
    offset = key.offset if isinstance(key, Array) else ()
    return tuple(i + o for i, o in zip(element, offset)) if offset else element
