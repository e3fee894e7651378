"""What belongs to one thread: the tapes and the forward mode that see its launches, and whether it traces a kernel.

Invariant: nobody but the thread itself changes what its launches are recorded by. A launch, or a write of the host, is
recorded by the tapes of the thread that makes it, and by no others. Derivatives of an array belong to the thread that
used them last, so that a tape of another one neither clears them nor, while both are at work, adds to them. A write of
another thread to what a tape uses is no part of the program that the tape differentiates, and is reported to it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from .backends.forks import free_in_child

if TYPE_CHECKING:
    import numpy as np

    from .backends.base import Draws, Scalars
    from .directions import Backward
    from .fields import Array
    from .program import Binding, Replaced

T = TypeVar("T")


class Watcher(Protocol):
    """Who is told of launches and host writes while it is in `RUNTIME.tapes`: a tape, or its backward pass.

    recording: launches are recorded, so that `after_launch` and `add_custom` do something. constant: what is written
    without being recorded is constant.
    """

    recording: bool
    constant: bool

    def admit_inner(self) -> None:
        """A tape is about to be entered inside; may refuse."""

    def instead(self, binding: Binding, scalars: Scalars) -> Binding | None:
        """What to launch in place of a binding; None for the binding itself. May raise."""

    def before_launch(self, binding: Binding, scalars: Scalars) -> None:
        """A kernel is about to run; may raise."""

    def after_launch(self, binding: Binding, scalars: Scalars, draws: Draws) -> None:
        """A kernel has run."""

    def launch_failed(self, binding: Binding, scalars: Scalars) -> None:
        """A kernel raised while it ran; it may have written part of what it writes."""

    def before_host_write(self, array: Array, place: Any) -> None:
        """The host is about to write this place of a field's memory, or, with None, could later on; may raise."""

    def before_host_read(self, array: Array, place: Any) -> bool:
        """The host is about to read this place of a field's memory, or, with None, could later on. True if no one else
        needs to know; may raise.
        """

    def before_result(self, binding: Binding, scalars: Scalars) -> bool:
        """The host is about to read the result of the launch that has just ended. True if no one else needs to know."""

    def copy(self, target: Array, source: Array, axes: tuple[int | None, ...]) -> None:
        """Launch a copy of one array to another; see `fields.copies`."""

    def before_custom(self) -> None:
        """A function with a gradient of its own, or with none, is about to run."""

    def add_custom(self, gradient: Callable[[], Any] | None, again: Callable[[], Any]) -> None:
        """A function with a gradient of its own, or with none, has run."""


class ForwardMode(Protocol):
    """Runs launches with tangents while it is `RUNTIME.forward`. constant: what launches write has none."""

    constant: bool

    def run(self, binding: Binding, scalars: Scalars, draws: Draws) -> None:
        """Launch the kernel with tangents beside what it computes."""

    def run_gradient(
        self, binding: Binding, backward: Backward, scalars: Scalars, draws: Draws, replaced: Replaced
    ) -> None:
        """Launch a gradient with tangents beside what it computes."""

    def tangents(self, array: Array) -> list[np.ndarray]:
        """The tangents of a field, one for each direction; none if it carries none."""

    def tangents_beside(self, memory: np.ndarray) -> list[np.ndarray]:
        """The tangents of memory of another library."""

    def before_host_write(self, array: Array, place: Any) -> None:
        """The host is about to write this place of a field's memory; None for nothing yet."""

    def before_host_read(self, array: Array, place: Any) -> bool:
        """The host is about to read this place of a field's memory, or, with None, could later on. True if no one else
        needs to know; may raise.
        """

    def before_result(self, binding: Binding, scalars: Scalars) -> bool:
        """The host is about to read the result of the launch that has just ended. True if no one else needs to know."""

    def copy(self, target: Array, source: Array, axes: tuple[int | None, ...]) -> None:
        """Launch a copy of one array to another; see `fields.copies`."""


class Own:
    """What one thread does. tapes, forward: who sees its launches and writes. tracing: fields answer as in kernels.

    used: arrays that its tapes and its forward mode have met since the first of them was entered. disturbed: those of
    them that another thread wrote meanwhile, with what wrote them. depth: how many tapes and modes are at work.
    """

    __slots__ = ("tapes", "forward", "tracing", "used", "disturbed", "depth", "__weakref__")

    def __init__(self) -> None:
        self.tapes: tuple[Watcher, ...] = ()
        self.forward: ForwardMode | None = None
        self.tracing = False
        self.used: set[Array] = set()
        self.disturbed: dict[Array, str] = {}
        self.depth = 0

    @property
    def is_watched(self) -> bool:
        """Whether something must see its launches, or forbids them."""
        return bool(self.tapes) or self.forward is not None or self.tracing


class Threads:
    """The threads of one runtime, each known by its `Own`, which ends with it."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._lock = free_in_child(threading.Lock())
        self._watched: weakref.WeakSet[Own] = weakref.WeakSet()
        self._busy: weakref.WeakSet[Own] = weakref.WeakSet()

    @property
    def own(self) -> Own:
        """That of the thread that asks."""
        try:
            return self._local.own  # type: ignore[no-any-return]
        except AttributeError:
            made = self._local.own = Own()
            return made

    def note(self, own: Own) -> bool:
        """After a change: whether any thread has something that must see its launches."""
        with self._lock:
            (self._watched.add if own.is_watched else self._watched.discard)(own)
            return len(self._watched) > 0

    def begin(self) -> Own:
        """The thread begins to take derivatives; until `end` nobody else uses those that it claims."""
        own = self.own
        with self._lock:
            own.depth += 1
            self._busy.add(own)
        return own

    def end(self, own: Own) -> None:
        """The thread has what it began to take."""
        with self._lock:
            own.depth -= 1
            if own.depth <= 0:
                own.used.clear()
                own.disturbed.clear()
                self._busy.discard(own)

    def claim(self, array: Array) -> bool:
        """The thread is about to use derivatives of an array. False if another one is using them.

        They belong to the thread from now on.
        """
        own = self.own
        with self._lock:
            other = array.owner() if array.owner is not None else None
            if other is not None and other is not own and array in other.used:
                return False
            array.owner = weakref.ref(own)
            own.used.add(array)
            return True

    def is_foreign(self, array: Array) -> bool:
        """Whether derivatives of an array belong to another thread, one that lives."""
        other = array.owner() if array.owner is not None else None
        return other is not None and other is not self.own

    def wrote(self, arrays: Iterable[Array], who: str) -> None:
        """The thread is about to write arrays: whatever another one takes derivatives of there is told."""
        own = self.own
        with self._lock:
            for other in self._busy:
                if other is not own:
                    other.disturbed.update((array, who) for array in arrays if array in other.used)


class Living(Generic[T]):
    """Objects as long as they live. Threads may add some while others look at all."""

    def __init__(self) -> None:
        self._known: weakref.WeakSet[T] = weakref.WeakSet()
        self._lock = free_in_child(threading.Lock())

    def add(self, one: T) -> None:
        """From now on it is among them."""
        with self._lock:
            self._known.add(one)

    def __iter__(self) -> Iterator[T]:
        with self._lock:
            return iter(list(self._known))
