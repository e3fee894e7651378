"""This module defines a ready launch: a handle of the trampoline together with its argument block.

Invariant: a standing launch is valid only while its block holds what Python established for this very state: the sizes
for these versions, numbers and extents, and the heap's present addresses. `stand` establishes it, anything that fails
on the way leaves the handle invalid.

Who owns what: the object owns the handle's words and the block, and keeps the executable, whose code the handle names.
Arrays and objects that the handle names by address are referred to weakly; when one dies, the handle becomes invalid
before the memory is given back. The object must not be dropped while `is_taken`.
"""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ...compiler.ir.types import Scalar
from .. import words as w
from ..base import Arrays, Scalars, Sizes
from ..codegen.layout import BlockLayout
from . import handles as h
from .block import ArgumentBlock
from .pinned_names import PinnedName


class ReadyExecutable(Protocol):
    """Define the interface of an executable that the trampoline can launch without Python."""

    layout: BlockLayout

    @property
    def heap(self) -> HeapLike:
        """Return the adstack heap whose addresses the launches use."""

    @property
    def address(self) -> int:
        """Return the address of the machine code `launch(block)`."""

    @property
    def is_bound(self) -> bool:
        """Return True if argument blocks hold heap addresses, which a change of the heap's epoch invalidates."""

    @property
    def calls_back(self) -> bool:
        """Return True if a launch runs Python code."""

    def new_block(self) -> ArgumentBlock:
        """Return a new argument block that is not yet filled for a launch."""

    def stand(self, block: Any, arrays: Arrays, scalars: Scalars, sizes: Sizes) -> bool:
        """Prepare an argument block for launches without Python; return False if each launch still needs Python."""

    def refuse(self, block: Any, sizes: Sizes) -> bool:
        """Raise the error of a failed ready launch, or repeat the launch. Return True if the block is still ready."""


def launchable(executable: object) -> ReadyExecutable | None:
    """Return the executable if machine code can launch it without Python, else None."""
    found: Any = executable
    return None if getattr(executable, "stand", None) is None else found


class HeapLike(Protocol):
    """Define the part of a heap that ready launches read: the epoch, a number that changes when its memory moves."""

    words: array[int]

    @property
    def epoch(self) -> int:
        """Return a number that changes whenever an address of the heap does."""


class ExpectedArgument(NamedTuple):
    """Represent the condition that one argument of a call must meet so that the trampoline may launch.

    Attributes:
        kind: Kind of the argument; see handles.py.
        thing: The object, or the class that it must have.
        scalar: Name of the number that the argument gives.
        decides: Another number means other sizes.
    """

    kind: int
    thing: Any = None
    scalar: str = ""
    decides: bool = False


class LaunchArray(NamedTuple):
    """Represent an array of a ready launch: the part of the call that holds it, its address and its extents.

    Attributes:
        name: Name in the kernel; "" for an array that it does not use, which must only be other memory.
        source: Where the array is found; see handles.py.
        axes: Number of axes.
        flags: Flags of the array; see handles.py.
        bytes: Bytes of the array.
        address: Address of the array.
        run: Words of the array.
        owner: Owner of the words of an array at a fixed address.
        argument: Number of the argument that leads to the array.
        offset: Offset in that object of the pointer to the words.
        sort: Kind that the array must have, 0 for any; address of a NumPy dtype that lives as long as the process.
        version: Version that the sizes are known for.
        item: Bytes of an element.
    """

    name: str
    source: int
    axes: int
    flags: int
    bytes: int
    address: int
    run: array[int] | None = None
    owner: Any = None
    argument: int = 0
    offset: int = 0
    sort: int = 0
    version: int = 0
    item: int = 0


class ReadyLaunch:
    """Represent a handle and its argument block; `number` distinguishes the handles of one launcher."""

    __slots__ = (
        "words",
        "block",
        "executable",
        "number",
        "sizes",
        "_entries",
        "_kept",
        "_pinned",
        "_pins",
        "__weakref__",
    )

    def __init__(
        self,
        executable: ReadyExecutable,
        counters: array[int],
        number: int,
        is_sized: bool,
        patience: int,
        arguments: Sequence[ExpectedArgument],
        held: Sequence[LaunchArray],
    ) -> None:
        """Create the handle that describes calls with the given arguments and arrays.

        Raise KeyError if a scalar has a type that the trampoline does not support.
        """
        self.executable, self.number = executable, number
        self.block = executable.new_block()
        self.sizes = Sizes()
        self._kept: list[Any] = []
        self._pinned, self._pins = w.words(()), list[Any]()
        entries = h.HEAD + len(arguments) * h.ARGUMENT + len(held) * h.ARRAY
        self.words = w.words(bytes(8 * (entries + sum([1 + one.axes for one in held]))))
        words = self.words
        words[h.LAUNCH], words[h.BLOCK] = executable.address, self.block.address
        words[h.ARGUMENTS], words[h.ARRAYS] = len(arguments), len(held)
        words[h.COUNTERS], words[h.NUMBER], words[h.PATIENCE] = w.address_of(counters), number, patience
        words[h.SIZED] = is_sized
        words[h.HEAP] = w.address_of(executable.heap.words) if executable.is_bound else 0
        for k, argument in enumerate(arguments):
            self._enter_argument(h.HEAD + k * h.ARGUMENT, argument)
        self._entries = h.HEAD + len(arguments) * h.ARGUMENT
        spare = entries
        for k, one in enumerate(held):
            spare = self._enter_array(self._entries + k * h.ARRAY, one, spare)

    def _enter_argument(self, at: int, argument: ExpectedArgument) -> None:
        """Write the condition on one argument into the handle's words, beginning with word number `at`."""
        words = self.words
        words[at + h.A_KIND] = argument.kind
        if argument.scalar:
            slot, dtype = self.executable.layout.scalars[argument.scalar]
            words[at + h.A_KIND] = _NUMBERS[kind_of(dtype)]
            words[at + h.A_SLOT] = self.block.address + slot
            words[at + h.A_LOW], words[at + h.A_HIGH], words[at + h.A_MASK] = _range(dtype)
            words[at + h.A_FIXED] = argument.decides
        else:
            words[at + h.A_IS] = id(argument.thing)
            self.watch(argument.thing)

    def _enter_array(self, at: int, one: LaunchArray, spare: int) -> int:
        """Write an array that the call must have into the handle's words; return the next unused word's number."""
        words, base = self.words, w.address_of(self.words)
        words[at + h.E_SOURCE], words[at + h.E_ARGUMENT], words[at + h.E_OFFSET] = one.source, one.argument, one.offset
        if one.source == h.FIXED and one.run is not None:
            words[at + h.E_WORDS] = w.address_of(one.run)
            self.watch(one.owner)
        words[at + h.E_IS], words[at + h.E_AXES], words[at + h.E_ITEM] = one.sort, one.axes, one.item
        words[at + h.E_FLAGS] = one.flags
        if one.name:
            slot = self.executable.layout.arrays[one.name]
            words[at + h.E_SLOT] = self.block.address + slot.address_at
            words[at + h.E_EXTENTS] = self.block.address + slot.shape_at
            return spare
        words[at + h.E_SLOT], words[at + h.E_EXTENTS] = base + 8 * spare, base + 8 * (spare + 1)
        words[spare] = one.address
        return spare + 1 + one.axes

    def watch(self, thing: Any, kept: list[Any] | None = None) -> None:
        """Invalidate the handle when an object is deleted; an object that allows no weak reference is kept alive."""
        kept = self._kept if kept is None else kept
        # The function must not look up globals: this module may be gone before the object.
        words, valid, orphan = self.words, h.VALID, h.ORPHAN

        def invalidate(_: object) -> None:
            words[valid] = orphan

        try:
            kept.append(weakref.ref(thing, invalidate))
        except TypeError:
            kept.append(thing)

    def pin(self, pins: Sequence[PinnedName]) -> None:
        """Set the pinned names that the trampoline compares; the handle must be invalid during this call."""
        kept: list[Any] = []
        pairs: dict[tuple[int, int], None] = {}
        if pins:
            for thing in {id(thing): thing for one in pins for thing in (one.owner, *one.named)}.values():
                self.watch(thing, kept)
            # The words that lead to an object are read once, before the first of its parts.
            pairs = dict.fromkeys([pair for one in pins for pair in one.words])
        found = [word for pair in pairs for word in pair]
        self._pinned, self._pins = w.words(found), kept
        self.words[h.PINS], self.words[h.PINNED] = len(found) // 2, w.address_of(self._pinned)

    def stand(
        self,
        generation: int,
        held: Sequence[LaunchArray],
        arrays: Arrays,
        scalars: Scalars,
        sizes: Sizes,
        pins: Sequence[PinnedName] = (),
    ) -> bool:
        """Fill the argument block and make the handle valid, or return False if each launch still needs Python.

        Args:
            generation: Number of the runtime, which changes when it is started again.
            held: Arrays as when the handle was made, except for versions.
            arrays: Arrays by parameter name.
            scalars: Numbers by parameter name.
            sizes: Capacities and rows of the adstacks.
            pins: Pinned names that must denote the same objects as now.
        """
        words = self.words
        if self.is_orphan or self.is_taken:
            return False
        # The handle is invalid while its block changes.
        words[h.VALID] = 0
        # The epoch is read first: if it changes meanwhile, the handle fits no call.
        epoch = self.executable.heap.epoch
        if not self.executable.stand(self.block, arrays, scalars, sizes):
            return False
        self.pin(pins)
        self.sizes = sizes
        words[h.BORN], words[h.HEAP_EPOCH] = generation, epoch
        words[h.LAUNCHED] = 0
        self._note_arrays(held)
        if not self.is_orphan:
            words[h.VALID] = h.READY
        return True

    def _note_arrays(self, held: Sequence[LaunchArray]) -> None:
        """Write the present version and size of each array into the handle."""
        words, at = self.words, self._entries
        words[h.MOVED] = 0
        for one in held:
            words[at + h.E_VERSION], words[at + h.E_BYTES] = one.version, one.bytes
            # Python has found arrays that are always the same to be different memory.
            if one.source != h.FIXED:
                words[h.MOVED] = 1
            at += h.ARRAY

    @property
    def is_orphan(self) -> bool:
        """Return True if the handle can never be valid again: it was retired, or an object that it needs is deleted."""
        return self.words[h.VALID] == h.ORPHAN

    def retire(self) -> None:
        """Make the handle invalid forever."""
        self.words[h.VALID] = h.ORPHAN

    def refuse(self) -> None:
        """Raise the error of the failed launch and invalidate the handle, unless a retry succeeds."""
        is_ready = False
        try:
            is_ready = self.executable.refuse(self.block, self.sizes)
        finally:
            self.words[h.TAKEN] = 0
            if not is_ready and not self.is_orphan:
                self.words[h.VALID] = 0

    @property
    def is_taken(self) -> bool:
        """Return True if a thread is launching with the handle now."""
        return self.words[h.TAKEN] != 0

    @property
    def launched(self) -> int:
        """Return the number of launches by the trampoline since the last `stand`; very long launches do not count."""
        return self.words[h.LAUNCHED]


def kind_of(dtype: Scalar) -> str:
    """Return the trampoline's name for a number type: the name of a real type, or `int` or `bool`."""
    return dtype.name if dtype.is_real else "int" if dtype.is_int else "bool"


_NUMBERS = {"f64": h.REAL64, "f32": h.REAL32, "int": h.INTEGER, "bool": h.BOOLEAN}


def takes(dtype: Scalar) -> bool:
    """Return True if the trampoline accepts numbers of this type as arguments."""
    return kind_of(dtype) in _NUMBERS


def _range(dtype: Scalar) -> tuple[int, int, int]:
    """Return (least, greatest, bit mask) of an integer type; the mask -1 means all bits."""
    if not dtype.is_int:
        return 0, 0, 0
    low, high = dtype.limits
    return low, min(high, (1 << 63) - 1), -1 if dtype.bits == 64 else (1 << dtype.bits) - 1
