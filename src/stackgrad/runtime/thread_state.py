"""Hold the state of each thread: its active tapes, its forward mode, and whether it is tracing a kernel.

Invariant: only the thread itself adds and removes its watchers. A launch, or a write by the host, is recorded by the
tapes of the thread that makes it, and by no others. The derivatives of an array belong to the thread that used them
last: a tape of another thread neither sets them to 0 nor, while both threads compute derivatives, adds to them. A write
of another thread to an array that a tape uses is no part of the program that the tape differentiates; the tape is
notified of it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ..backends.forks import free_in_child, renew_in_child

if TYPE_CHECKING:
    import numpy as np

    from ..backends.base import Draws, Scalars
    from .protocols import Array, Backward, Binding, Replaced

T = TypeVar("T")


class Watcher(Protocol):
    """Declare the notifications that an active tape or backward pass gets of launches, host writes and host reads.

    Attributes:
        recording: True if launches are recorded, so that `after_launch` and `add_custom` have an effect.
        constant: True if values that unrecorded launches write are constant.
    """

    recording: bool
    constant: bool

    def admit_inner(self) -> None:
        """Raise an error unless a tape may be entered while this watcher is active."""

    def instead(self, binding: Binding, scalars: Scalars) -> Binding | None:
        """Return a binding to launch in place of the given one, or None to launch the given one."""

    def before_launch(self, binding: Binding, scalars: Scalars) -> None:
        """Receive the notification that a kernel is about to run; errors raised here prevent the launch."""

    def after_launch(self, binding: Binding, scalars: Scalars, draws: Draws) -> None:
        """Receive the notification that a launch has ended, and record it if needed."""

    def launch_failed(self, binding: Binding, scalars: Scalars) -> None:
        """Receive the notification that a launch raised an error; the launch may have written some results."""

    def before_host_write(self, array: Array, place: Any) -> None:
        """Receive the notification that the host is about to write a part of a field; errors prevent the write.

        Args:
            array: The field.
            place: The index of the part; None if the host gets a view, through which it may write any element later.
        """

    def before_host_read(self, array: Array, place: Any) -> bool:
        """Receive the notification that the host is about to read a part of a field; errors prevent the read.

        Args:
            array: The field.
            place: The index of the part; None if the host gets a view, through which it may read any element later.

        Returns:
            True if no other watcher needs to know of the read.
        """

    def before_result(self, binding: Binding, scalars: Scalars) -> bool:
        """Receive the notification that the host reads a launch's result. Return True to notify no other watcher."""

    def copy(self, target: Array, source: Array, axes: tuple[int | None, ...]) -> None:
        """Launch a copy of the array `source` to the array `target`; see `data.fields.copies` for `axes`."""

    def before_custom(self) -> None:
        """Receive the notification that a function with a custom gradient, or with none, is about to run."""

    def add_custom(self, gradient: Callable[[], Any] | None, again: Callable[[], Any]) -> None:
        """Record a call of a function with a custom gradient, or with none, that has ended.

        Args:
            gradient: A function that runs the gradient, or None if the function is constant.
            again: A function that runs the function again.
        """


class ForwardMode(Protocol):
    """Declare the methods of an active forward mode, which runs launches with tangents.

    Attributes:
        constant: True if values that launches write have no tangent.
    """

    constant: bool

    def run(self, binding: Binding, scalars: Scalars, draws: Draws) -> None:
        """Launch the tangent kernel of a binding's kernel, which computes the tangents of the binding's arrays."""

    def run_gradient(
        self, binding: Binding, backward: Backward, scalars: Scalars, draws: Draws, replaced: Replaced
    ) -> None:
        """Launch the tangent kernel of a binding's gradient, which computes the tangents of the adjoints.

        Args:
            binding: The kernel with its memory.
            backward: The gradient of the binding.
            scalars: The scalar arguments by name.
            draws: The key of the random numbers of the forward launch.
            replaced: A function that returns the arrays to use in place of bound ones.
        """

    def tangents(self, array: Array) -> list[np.ndarray]:
        """Return the tangents of a field, one for each direction, or an empty list if it has none."""

    def tangents_beside(self, memory: np.ndarray) -> list[np.ndarray]:
        """Return the tangents of an array of another library, given by its memory, one for each direction."""

    def before_host_write(self, array: Array, place: Any) -> None:
        """Receive the notification that the host is about to write a part of a field; `place` None means unknown."""

    def before_host_read(self, array: Array, place: Any) -> bool:
        """Receive the notification that the host reads a part of a field; `place` None means an unknown, later read.

        Return True if no other watcher needs to know of the read.
        """

    def before_result(self, binding: Binding, scalars: Scalars) -> bool:
        """Receive the notification that the host reads a launch's result. Return True to notify no other watcher."""

    def copy(self, target: Array, source: Array, axes: tuple[int | None, ...]) -> None:
        """Launch a copy of the array `source` to the array `target`; see `data.fields.copies` for `axes`."""


class ThreadState:
    """Hold the active tapes, the forward mode and the tracing flag of one thread.

    Attributes:
        tapes: The tapes, and backward passes, that see the launches and writes of the thread.
        forward: The forward mode of the thread, or None.
        tracing: True while the thread traces a kernel, so that fields answer as in kernels.
        used: Arrays that the tapes and the forward mode of the thread have used since the first of them was entered.
        disturbed: The arrays among `used` that another thread wrote meanwhile, each with a text that names the writer.
        depth: Number of active tapes and forward modes.
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
        """Return True if the thread has an active tape or forward mode, or is tracing."""
        return bool(self.tapes) or self.forward is not None or self.tracing


class ThreadStates:
    """Hold the ThreadState of each thread, and which thread has reserved the derivatives of each array."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._lock = free_in_child(threading.Lock())
        self._watched: weakref.WeakSet[ThreadState] = weakref.WeakSet()
        self._busy: weakref.WeakSet[ThreadState] = weakref.WeakSet()
        self._clearing: dict[Array, ThreadState] = {}
        self._cleared = threading.Condition(self._lock)
        renew_in_child(self._forget_others)

    @property
    def own(self) -> ThreadState:
        """Return the ThreadState of the calling thread."""
        try:
            return self._local.own  # type: ignore[no-any-return]
        except AttributeError:
            made = self._local.own = ThreadState()
            return made

    def note(self, own: ThreadState) -> bool:
        """Record whether the thread of state `own` is watched. Return True if any thread is."""
        with self._lock:
            (self._watched.add if own.is_watched else self._watched.discard)(own)
            return len(self._watched) > 0

    def begin(self) -> ThreadState:
        """Start differentiation in this thread: until `end`, arrays that it reserves are closed to other threads."""
        own = self.own
        with self._lock:
            own.depth += 1
            self._busy.add(own)
        return own

    def end(self, own: ThreadState) -> None:
        """End the differentiation that `begin` started, and release the reserved arrays."""
        with self._lock:
            own.depth -= 1
            if own.depth <= 0:
                own.used.clear()
                own.disturbed.clear()
                self._busy.discard(own)

    def claim(self, array: Array) -> bool:
        """Reserve the derivatives of an array for this thread. Return False if another thread has reserved them.

        The call waits while another thread sets the derivatives to 0; it does so only with derivatives that no thread
        has reserved.
        """
        own = self.own
        with self._cleared:
            while self._clearing.get(array, own) is not own:
                self._cleared.wait()
            other = array.owner() if array.owner is not None else None
            if other is not None and other is not own and array in other.used:
                return False
            array.owner = weakref.ref(own)
            own.used.add(array)
            return True

    def _forget_others(self) -> None:
        """Forget, in a forked child, the arrays whose derivatives other threads of the parent were setting to 0."""
        self._clearing.clear()

    @contextmanager
    def clearing(self, group: Collection[Array]) -> Iterator[bool]:
        """Reserve arrays while their derivatives are set to 0; yield False, without reserving, if one is in use."""
        own = self.own
        with self._lock:
            is_free = not any(self.is_foreign(one) or one in self._clearing for one in group)
            if is_free:
                self._clearing.update(dict.fromkeys(group, own))
        try:
            yield is_free
        finally:
            if is_free:
                with self._cleared:
                    for one in group:
                        self._clearing.pop(one, None)
                    self._cleared.notify_all()

    def is_foreign(self, array: Array) -> bool:
        """Return True if the derivatives of an array are reserved by another thread that is alive."""
        other = array.owner() if array.owner is not None else None
        return other is not None and other is not self.own

    def wrote(self, arrays: Iterable[Array], who: str) -> None:
        """Record for other threads which of the arrays that they differentiate this thread is about to write.

        Args:
            arrays: The arrays.
            who: A text that names the writer, such as a kernel, for messages.
        """
        own = self.own
        with self._lock:
            for other in self._busy:
                if other is not own:
                    other.disturbed.update((array, who) for array in arrays if array in other.used)


class WeakCollection(Generic[T]):
    """Represent a set of objects held by weak references; threads may add objects while others iterate."""

    def __init__(self) -> None:
        self._known: weakref.WeakSet[T] = weakref.WeakSet()
        self._lock = free_in_child(threading.Lock())

    def add(self, one: T) -> None:
        """Add an object to the collection, which does not keep it alive."""
        with self._lock:
            self._known.add(one)

    def __iter__(self) -> Iterator[T]:
        with self._lock:
            return iter(list(self._known))
