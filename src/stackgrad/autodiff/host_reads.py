"""Warn if the host reads a value that has a derivative, because the derivative is lost in a plain number.

An example is `m[None]`, given to the next kernel. What the host does with a value is not seen, so the warning comes
where it is read: inside the block, if a recorded launch wrote it and what was written depends on something with a
gradient. This launch is found from the boxes that launches write and read, backward from the present. The search is not
exact: a launch that may have skipped an element counts as having written it, and a chain of more than DEPTH launches
counts as beginning at something with a gradient.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.ad.activity import sources_of
from ..compiler.errors import outer_frame, warn
from ..compiler.frontend.returns import RETURN
from ..compiler.ir import nodes as n
from ..compiler.sizing.regions import Box, intersect_boxes
from ..data.fields import Array
from ..launch.bound import shapes_of
from ..launch.saved_boxes import box_covers
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import TapeError
from .overwrites import ConstantLaunch, HostWrite, box_of
from .tape_state import LaunchRecord, StateLog

if TYPE_CHECKING:
    from ..backends.base import Scalars
    from ..launch.program import Binding, Program

DEPTH = 16
"""Number of launches in a chain after which the search ends."""
CURE = (
    "give the next kernel the field itself, and read the element there; or read it after the block; or, where it is to"
    " count as a constant, as to be printed or compared, in a function decorated with sg.ad.no_grad"
)
RESULT_CURE = (
    "store it to a field with needs_grad=True that the next kernel reads; or, where it is to count as a constant, as to"
    " be printed or compared, call the kernel in a function decorated with sg.ad.no_grad"
)


class LostGradientWarning(UserWarning):
    """Warn that the host read a value with a derivative inside a tape or forward mode, which ends the derivative."""


UserLine = tuple[str, int]
"""File and line of the user's program."""

Written = tuple[int, LaunchRecord | None, list[Box]]
"""The number of an event; its launch, or None for a write of constants; and the boxes that it wrote."""


class HostReads:
    """Check the reads by the host inside one tape, and warn if they end a derivative.

    Attributes:
        log: The log of the tape.
        constants: Arrays that hold constants when the block begins: the losses.
        strict: True to raise TapeError instead of warning.
    """

    def __init__(self, log: StateLog, constants: Iterable[Array], strict: bool) -> None:
        self.log = log
        self.constants = set(constants)
        self.strict = strict
        self._places: set[UserLine | None] = set()
        self._written: dict[Array, list[Written]] = {}
        self._sources: dict[tuple[Program, str], frozenset[str]] = {}
        self._done = 0

    def read(self, array: Array, at: Any) -> bool:
        """Warn, or raise TapeError if `strict`, if the host reads elements with a derivative; `at` None means all.

        Return True if a warning has told the program that the derivative of these elements ends at this read.
        """
        place = site()
        if place in self._places:
            return True
        self._index()
        record = self._writer(array, _box(array, at))
        if record is not None:
            wrote = f"{described(record.binding, record.site)} wrote it"
            reason = f"the host reads {array.label} inside a tape: {wrote}, {ENDS}"
            self._tell(place, reason, CURE, self.strict and at is not None)
        return record is not None

    def result(self, binding: Binding) -> bool:
        """Warn if the result of the launch that has just ended, and that the host reads, has a derivative."""
        place, record = site(), self.log.events[-1] if self.log.events else None
        names = results(binding)
        if place in self._places or not isinstance(record, LaunchRecord) or not names:
            return place in self._places
        if record.binding.arrays.get(names[0]) is not binding.arrays[names[0]]:
            return False
        self._index()
        at = len(self.log.events) - 1
        is_active = any(self._depends(record, name, at, 0) for name in names) and not is_discarded()
        if is_active:
            launch = described(record.binding, record.site)
            reason = f"the host takes the result of {launch} inside a tape{RESULT_ENDS}"
            self._tell(place, reason, RESULT_CURE, self.strict)
        return is_active

    def _tell(self, place: UserLine | None, reason: str, cure: str, strict: bool) -> None:
        """Warn that a derivative ends, once for each line of the user's program; raise TapeError if `strict`."""
        if strict:
            raise TapeError(reason, cure)
        self._places.add(place)
        tell(reason, cure)

    # -- who wrote it -----------------------------------------------------------------------------------------

    def _index(self) -> None:
        """Record which boxes of arrays were written by the events logged since the last call of this method."""
        for number, event in enumerate(self.log.events[self._done :], self._done):
            if isinstance(event, LaunchRecord):
                for array, boxes in event.binding.write_boxes(event.scalars).items():
                    self._written.setdefault(array, []).append((number, event, boxes))
            elif isinstance(event, HostWrite):
                self._written.setdefault(event.array, []).append((number, None, event.boxes))
            elif isinstance(event, ConstantLaunch):
                for array, boxes in event.touched.items():
                    self._written.setdefault(array, []).append((number, None, list(boxes)))
        self._done = len(self.log.events)

    def _writer(self, array: Array, box: Box) -> LaunchRecord | None:
        """Return the last launch that wrote values with a derivative to elements of a box, or None if there is none.

        A value has a derivative if it depends on an array with a gradient that is not constant in the block.
        """
        for number, record, boxes in reversed(self._written.get(array, ())):
            if not _meet(boxes, box):
                continue
            if record is not None and any(self._depends(record, name, number, 0) for name in _names(record, array)):
                return record
            if _replaces(record, array, boxes, box):
                return None
        return None

    def _depends(self, record: LaunchRecord, name: str, number: int, depth: int) -> bool:
        """Return True if the values that a launch wrote to an array depend on values with a derivative.

        Args:
            record: The launch.
            name: The name of the array in the kernel.
            number: The number of the launch among the events.
            depth: Number of launches that the search has followed backward so far.
        """
        if depth > DEPTH:
            return True
        binding = record.binding
        shapes = shapes_of(binding.memory)
        reads = binding.program.forward_regions().read_boxes(record.scalars, shapes)
        known = binding.program, name
        if known not in self._sources:
            self._sources[known] = sources_of(binding.program.kernel, name)
        for source in self._sources[known]:
            found = binding.arrays[source]
            boxes = reads.get(source, [])
            if not isinstance(found, Array) or any(self._is_active(found, box, number, depth + 1) for box in boxes):
                return True
        return False

    def _is_active(self, array: Array, box: Box, before: int, depth: int) -> bool:
        """Return True if elements of a box had a derivative before the logged event whose number is `before`."""
        for number, record, boxes in reversed(self._written.get(array, ())):
            if number >= before or not _meet(boxes, box):
                continue
            if record is not None and any(self._depends(record, name, number, depth) for name in _names(record, array)):
                return True
            if _replaces(record, array, boxes, box):
                return False
        return array not in self.constants


class TangentReads:
    """Check the reads by the host inside forward mode, and warn if a tangent that is not 0 ends there."""

    def __init__(self) -> None:
        self._writers: dict[Array, str] = {}
        self._places: set[UserLine | None] = set()

    def wrote(self, binding: Binding) -> None:
        """Record that a launch is about to write its arrays, and from which line it was called."""
        self._writers.update(dict.fromkeys(binding.written, described(binding, site())))

    def read(self, array: Array, tangents: Iterable[np.ndarray], at: Any) -> bool:
        """Warn if elements that the host reads have a tangent that is not 0. Return True if there was a warning.

        Args:
            array: The array.
            tangents: Its tangents.
            at: The index that the host reads, or None for a view of all.
        """
        place, writer = site(), self._writers.get(array)
        if writer is None or place in self._places:
            return place in self._places
        RUNTIME.settle()
        if not any(one[_box(array, at)].any() for one in tangents):
            return False
        self._places.add(place)
        tell(f"the host reads {array.label} inside forward mode: {writer} wrote it, {ENDS}", CURE)
        return True

    def result(self, binding: Binding, scalars: Scalars, tangents: Mapping[str, list[np.ndarray]]) -> bool:
        """Warn if the result of a launch, read by the host, has a tangent that is not 0."""
        place = site()
        if place in self._places:
            return True
        RUNTIME.settle()
        reads = binding.program.forward_regions().read_boxes(scalars, shapes_of(binding.memory))
        moved = {n for n, found in tangents.items() for box in reads.get(n, ()) if any(t[box].any() for t in found)}
        is_active = any(moved & sources_of(binding.program.kernel, name) for name in results(binding))
        is_active = is_active and not is_discarded()
        if is_active:
            self._places.add(place)
            launch = described(binding, place)
            tell(f"the host takes the result of {launch} inside forward mode{RESULT_ENDS}", RESULT_CURE)
        return is_active


ENDS = "and it depends on values with gradients; as a number of the host it has no derivative, so gradients end here"
RESULT_ENDS = f": {ENDS.removeprefix('and ')}"


def results(binding: Binding) -> list[str]:
    """Return the names of the arrays in which a launch stores the values that its kernel returns."""
    return [name for name in binding.arrays if name.startswith(f"{RETURN}.")]


def tell(reason: str, cure: str) -> None:
    """Issue a LostGradientWarning at the line of the user's program that led to this call."""
    warn(f"{reason}\n    cure: {cure}", LostGradientWarning)


def described(binding: Binding, site: UserLine | None) -> str:
    """Return a description of a launch for messages: its kernel and the line of its call."""
    return f"kernel {binding.program.label}, launched at {site[0]}:{site[1]}," if site else binding.program.label


def site() -> UserLine | None:
    """Return file and line of the user's program that led to this call."""
    frame = outer_frame()
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def is_discarded() -> bool:
    """Return True if the user's program drops the result of the call that led here."""
    frame = outer_frame()
    steps = list(dis.get_instructions(frame.f_code)) if frame is not None else []
    following = {step.offset: after.opname for step, after in pairwise(steps)}
    return frame is not None and following.get(frame.f_lasti) == "POP_TOP"


def _box(array: Array, place: Any) -> Box:
    """Return the box of elements that an index selects; None means the whole array."""
    return box_of(... if place is None else place, array.shape)


def _names(record: LaunchRecord, array: Array) -> list[str]:
    """Return the parameter names under which a recorded launch uses an array."""
    return [name for name, found in record.binding.arrays.items() if found is array]


def _meet(boxes: Iterable[Box], box: Box) -> bool:
    """Return True if at least one of the boxes shares an element with `box`."""
    return any(intersect_boxes(one, box) is not None for one in boxes)


def _replaces(record: LaunchRecord | None, array: Array, boxes: list[Box], box: Box) -> bool:
    """Return True if a recorded launch, or a host write (`record` None), surely overwrites all elements of a box."""
    if not any(box_covers(one, box) for one in boxes):
        return False
    return record is None or all(_stores(record.binding.program, name) for name in _names(record, array))


def _stores(program: Program, name: str) -> bool:
    """Return True if a kernel stores to an array unconditionally."""
    top = [s for task in program.kernel.tasks for s in task.body]
    return any(isinstance(s, n.Store) and s.array == name for s in top)
