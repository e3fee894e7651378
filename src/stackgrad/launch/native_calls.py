"""Describe calls for the trampoline: how it recognizes their arguments, and where it finds each array.

Invariant: two calls with equal keys differ in numbers and in the contents and extents of their arrays, and in nothing
that the specialization depends on. An array that is itself an argument is recognized by its kind. Everything else (an
object, an array in an object, arrays that are the same memory under two names) is recognized by identity.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.host import handles as h
from ..backends.host.ready_launch import ExpectedArgument, LaunchArray, launchable, takes
from ..backends.words import AXES, KIND, LIVING, VERSION
from ..compiler.frontend.aggregates import MatrixType
from ..data.fields import ScalarField, ScalarNdarray
from ..data.fields.array import Array
from ..data.leaves import Leaf, scalar_of
from ..runtime.session import RUNTIME
from .aliasing import is_among
from .bound import GRAD
from .matching import ArrayMatcher, Matcher, ObjectMatcher, ScalarMatcher
from .native_launches import NativeCall
from .stand_ins import identity_of

if TYPE_CHECKING:
    from ..backends.host.pinned_names import PinnedName
    from ..backends.host.ready_launch import ReadyExecutable
    from ..runtime.guards import Guard
    from .calls import Call
    from .directions import ProgramSide
    from .program import Binding
    from .specializations import Specialization

MOST = 64
"""Number of arrays of a launch that may be other ones in each call, since each pair is compared then.

A launch with more arrays is for these arrays alone, which Python has found to be different memory.
"""


class _LeafPlace:
    """Represent where machine code finds an array of a call: in an argument, or fixed because it never changes.

    Attributes:
        leaf: The array.
        argument: The number of the argument that is the array, or None if the array stays the same.
    """

    __slots__ = ("leaf", "argument")

    def __init__(self, leaf: Leaf, argument: int | None) -> None:
        self.leaf = leaf
        self.argument = argument


def situation_of(
    matchers: Sequence[Matcher],
    args: tuple[Any, ...],
    call: Call,
    special: Specialization,
    side: ProgramSide,
    binding: Binding,
) -> NativeCall | None:
    """Return how the trampoline recognizes and repeats calls like this one, or None if it cannot repeat them.

    Args:
        matchers: The matchers of the parameters.
        args: The arguments of the call.
        call: The parts of the call.
        special: The specialization that was launched.
        side: The direction that was launched.
        binding: The specialization with the memory that it ran on.
    """
    launcher, program = side.launcher, special.program
    if special.reader is not None or program.has_random or launcher.lowered.before or launcher.lowered.states:
        return None
    executable = launchable(launcher.compile())
    if executable is None or executable.calls_back or call.is_volatile:
        return None
    deciders = launcher.deciding_scalars
    taken = _CallParts(special, call, deciders)
    taken.is_apart &= len(call.leaves) + len(special.captured) <= MOST
    try:
        taken.take(matchers, args)
        held = list(_LaunchArrays(special, side, executable, taken.places).held())
    except _NotNative:
        return None
    scalars = dict(zip(special.scalars, call.scalars))
    memory = {name: _memory(binding.lookup(name)) for name in side.arrays}
    sizes = launcher.known_sizes(memory, scalars, _versions(launcher.versioned, binding))
    if sizes is None:
        return None
    deciding = tuple([_word(scalars[name]) for name in sorted(deciders)])
    key = (id(launcher), *_forms(taken.arguments, held), deciding)
    return NativeCall(key, launcher, taken.arguments, held, memory, scalars, sizes, *_pinned(special))


def _pinned(special: Specialization) -> tuple[tuple[Guard, ...], list[PinnedName]]:
    """Return the guards that Python must check, and the pinned names, which machine code checks in place of guards."""
    pins = {guard: pin for guard in special.guards if (pin := guard.pin()) is not None}
    return tuple([guard for guard in special.guards if guard not in pins]), list(pins.values())


def _forms(arguments: Sequence[ExpectedArgument], held: Sequence[LaunchArray]) -> tuple[object, object]:
    """Return a key that is equal for calls that the trampoline recognizes alike and whose arrays have equal types."""
    forms = tuple([(a.kind, id(a.thing), a.scalar) for a in arguments])
    return forms, tuple([(one.sort, one.axes, id(one.run) if one.flags & h.VERSIONED else 0) for one in held])


class _NotNative(Exception):
    """Signal that machine code cannot repeat a call, so that each such call runs in Python."""


class _CallParts:
    """Collect, for the trampoline, how to recognize each argument of a call, and where each array is found.

    Attributes:
        arguments: The arguments that were described.
        places: Where the arrays of these arguments are found.
        is_apart: True if a call with other arrays may be recognized too, since all arrays of this call are different.
    """

    def __init__(self, special: Specialization, call: Call, deciding: frozenset[str]) -> None:
        self.special = special
        self.call = call
        self.deciding = deciding
        self.arguments: list[ExpectedArgument] = []
        self.places: list[_LeafPlace] = []
        self.is_apart = self._are_apart()

    def take(self, matchers: Sequence[Matcher], args: tuple[Any, ...]) -> None:
        """Describe each argument of a call for the trampoline. Raise _NotNative if the trampoline cannot read one."""
        call, begin = self.call, (0, 0)
        for k, (matcher, value, end) in enumerate(zip(matchers, args, call.ends)):
            self._take(k, matcher, value, call.leaves[begin[0] : end[0]], end[1] - begin[1])
            begin = end

    def _are_apart(self) -> bool:
        """Return True if no array of the call is the same as another one or as one that the kernel captured."""
        call, own = self.call, self.special.own
        return call.shared is None and not (own and any([is_among(leaf, own) for leaf in call.leaves]))

    def _take(self, k: int, matcher: Matcher, value: Any, leaves: list[Leaf], scalars: int) -> None:
        """Describe one argument for the trampoline, with its numbers and arrays.

        Args:
            k: The number of the argument.
            matcher: The matcher of its parameter.
            value: The argument.
            leaves: The arrays in the argument.
            scalars: The number of scalars in the argument.
        """
        if isinstance(matcher, ScalarMatcher):
            if not takes(matcher.dtype):
                raise _NotNative
            name = self.special.scalars[sum(1 for a in self.arguments if a.scalar)]
            self.arguments.append(ExpectedArgument(h.INTEGER, scalar=name, decides=name in self.deciding))
            return
        if scalars or not isinstance(matcher, (ArrayMatcher, ObjectMatcher)):
            raise _NotNative
        kind = _kind_of(matcher, value, leaves) if self.is_apart else h.OBJECT
        if kind == h.OBJECT and not all(isinstance(leaf, Array) for leaf in leaves):
            raise _NotNative
        self.arguments.append(ExpectedArgument(kind, value if kind == h.OBJECT else type(value)))
        self.places += [_LeafPlace(leaf, None if kind == h.OBJECT else k) for leaf in leaves]


def _kind_of(matcher: Matcher, value: Any, leaves: list[Leaf]) -> int:
    """Return the code that tells the trampoline how to recognize an argument: as an array of a kind, or by identity."""
    if not isinstance(matcher, ArrayMatcher):
        return h.OBJECT
    if type(value) is np.ndarray and not isinstance(matcher.kind.dtype, MatrixType):
        return h.NUMPY_ARRAY
    if type(value) is ScalarNdarray or (type(value) is ScalarField and not matcher.fields_fixed):
        return h.RUNTIME_ARRAY if value.words[KIND] else h.OBJECT
    return h.OBJECT


class _LaunchArrays:
    """Describe the arrays of a launch for the trampoline, including unused ones that must not overlap with others."""

    def __init__(
        self, special: Specialization, side: ProgramSide, executable: ReadyExecutable, places: Sequence[_LeafPlace]
    ) -> None:
        self.special, self.executable, self.places = special, executable, places
        self.written, self.shaped = frozenset(side.writes), side.launcher.deciding_shapes
        self.versioned = frozenset(side.launcher.versioned)
        self.seen: set[tuple[int, bool]] = set()

    def held(self) -> Iterator[LaunchArray]:
        """Yield the description of each array of the launch; raise _NotNative if machine code cannot find one.

        Raises:
            _NotNative: An array cannot be found by machine code, or there are too many.
        """
        named = self._named()
        for name in self.executable.layout.arrays:
            if name not in named:
                raise _NotNative
            yield self._held(name, *named[name])
        if any(place.argument is not None for place in self.places):
            yield from self._others()
            # Adjoints are arrays, too.
            if len(self.seen) > MOST:
                raise _NotNative

    def _named(self) -> Mapping[str, tuple[_LeafPlace, bool]]:
        """Return, for each array name, where machine code finds the array, and True for the adjoint of this array."""
        named = {name: (_LeafPlace(array, None), False) for name, array in self.special.captured.items()}
        for name, slot, is_grad in self.special.slots:
            named[name] = self.places[slot], is_grad
        beside = {name + GRAD: (place, True) for name, (place, is_grad) in named.items() if not is_grad}
        return beside | named

    def _others(self) -> Iterator[LaunchArray]:
        """Yield the arrays of a call that the kernel does not use but that must not overlap with those it uses."""
        every = [*self.places, *(_LeafPlace(array, None) for array in self.special.captured.values())]
        for place in every:
            for is_grad in (False, True) if isinstance(place.leaf, Array) and place.leaf.needs_grad else (False,):
                if (identity_of(place.leaf), is_grad) not in self.seen:
                    yield self._held("", place, is_grad)

    def _held(self, name: str, place: _LeafPlace, is_grad: bool) -> LaunchArray:
        """Return the description of an array or of its adjoint; if the kernel does not use it, `name` is empty."""
        self.seen.add((identity_of(place.leaf), is_grad))
        flags = h.WRITTEN * (name in self.written) | h.SHAPED * (name in self.shaped)
        flags |= h.VERSIONED * (name in self.versioned)
        leaf = place.leaf
        if not isinstance(leaf, Array):
            return self._held_numpy(name, place, is_grad, flags)
        found = leaf.grad if is_grad else leaf
        if found.buffer.ndim > AXES or not found.words[LIVING]:
            raise _NotNative
        memory, version = found.buffer, found.words[VERSION]
        common = (name, memory.ndim, flags, memory.nbytes, memory.__array_interface__["data"][0])
        if place.argument is None:
            sort = 0 if is_grad else found.words[KIND]
            return LaunchArray(
                common[0], h.FIXED, *common[1:], run=found.words, owner=found, sort=sort, version=version
            )
        source, sort = (h.GRADIENT_OF, 0) if is_grad else (h.OF_ARGUMENT, found.words[KIND])
        return LaunchArray(
            common[0],
            source,
            *common[1:],
            run=found.words,
            argument=place.argument,
            offset=_offset_of(leaf),
            sort=sort,
            version=version,
        )

    def _held_numpy(self, name: str, place: _LeafPlace, is_grad: bool, flags: int) -> LaunchArray:
        leaf = place.leaf
        memory = leaf.memory
        if RUNTIME.remote is not None:  # Each launch works on a copy of the array on the device.
            raise _NotNative
        # The trampoline compares dtypes by address, so a dtype object that may die cannot be used.
        is_strange = memory.dtype is not scalar_of(memory).dtype
        if is_strange or is_grad or leaf.grad is not None or place.argument is None or flags & h.VERSIONED:
            raise _NotNative
        address, sort = memory.__array_interface__["data"][0], id(memory.dtype)
        return LaunchArray(
            name,
            h.OF_NUMPY,
            memory.ndim,
            flags & ~h.WRITTEN,
            memory.nbytes,
            address,
            argument=place.argument,
            sort=sort,
            item=memory.itemsize,
        )


_OFFSETS: dict[type, int] = {}
"""Offsets that `_offset_of` has found, by class."""


def _offset_of(leaf: Array) -> int:
    """Return the byte offset, in an array object, of the pointer to the words that describe its memory."""
    kind = type(leaf)
    if kind not in _OFFSETS:
        at, words = 16, id(leaf.words)
        while ctypes.c_int64.from_address(id(leaf) + at).value != words:
            at += 8
        assert at < kind.__basicsize__, "an array refers to its words"
        _OFFSETS[kind] = at
    return _OFFSETS[kind]


def _versions(names: Sequence[str], binding: Binding) -> tuple[int, ...] | None:
    """Return the versions of arrays that decide adstack sizes, or None if an array has no version."""
    found = [binding.lookup(name) for name in names]
    arrays = [one for one in found if isinstance(one, Array)]
    return tuple(one.version for one in arrays) if len(arrays) == len(found) else None


def _memory(found: Array | np.ndarray) -> np.ndarray:
    return found.buffer if isinstance(found, Array) else found


def _word(number: Any) -> tuple[type, Any]:
    """Return a key of a number that distinguishes types and bits, so that 0.0 and -0.0 differ."""
    return type(number), number.hex() if isinstance(number, float) else number
