"""Define scalar arrays: typed memory that kernels read and write, with an adjoint and a tangent array if asked.

Invariant: every write, by the host or by a kernel, gives the array a version that no contents had before; active tapes
are notified before the write. Memory is one C-contiguous NumPy array. An array whose memory other code can write
without notice is `exported`: its version changes each time the version is read.

On a device, launches go on after their call has returned: `memory` waits for them, and `buffer` does not. Elements and
whole contents are copied by the backend.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backends import words as w
from ...compiler.errors import short_repr
from ...compiler.ir.types import Scalar, adjoint_type
from ...runtime import first_use
from ...runtime.session import RUNTIME, stamp
from ...runtime.usage_errors import FieldError, GradientError, StaleFieldError
from .conversions import as_numpy, convert, zeros
from .copies import copy_if_watched
from .exchange import Exchange
from .offsets import place_of
from .unplaced import NoMemory

if TYPE_CHECKING:
    from typing import Self

    from ...runtime.thread_state import ThreadState

UNPLACED, DESTROYED = -1, -2
"""Generations of arrays without memory, and of arrays whose tree was destroyed; no runtime has these numbers."""

_KINDS: dict[tuple[str, int, bool, tuple[int, ...], bool], int] = {}
"""The number of each combination of what a standing launch depends on in an array: `sort` in `Array.describe`."""


class Array(Exchange):
    """Represent an array of one scalar type in memory of the runtime; base class of scalar fields and ndarrays.

    `shape` is () for a single number, and unset until `place` gives memory. `needs_grad` and `needs_dual` say that an
    adjoint or a tangent of the same shape exists and has memory; both have the dtype of the array, but the adjoint of
    an f16 array has f32. `offset` is the first index of each axis, () for 0. `words` is for machine code, see
    backends/words.py. `buffer` is the memory, which launches may be writing. `owner` used the adjoint last.
    """

    # Users may keep notes of their own at an array: `__dict__` is made when the first one is set.
    __slots__ = (
        "__dict__",
        "dtype",
        "shape",
        "needs_grad",
        "needs_dual",
        "name",
        "buffer",
        "is_grad",
        "layout",
        "words",
        "owner",
        "wanted",
        "automatic",
        "offset",
        "_grad",
        "_dual",
        "_generation",
        "_traced",
        "_companion",
        "__weakref__",
    )
    is_stackgrad_field = True

    shape: tuple[int, ...]
    buffer: np.ndarray

    def __init__(
        self, dtype: Scalar, shape: tuple[int, ...] | None, name: str | None = None, is_grad: bool = False
    ) -> None:
        self.dtype = dtype
        self.words = w.array_words()
        self.needs_grad = self.needs_dual = self._traced = self.automatic = False
        self.wanted: tuple[str, ...] = ()
        self.offset: tuple[int, ...] = ()
        self.name = name
        self.is_grad = is_grad
        self.layout: tuple[int, ...] | None = None
        self.words[w.VERSION] = stamp()
        self._grad: Self | None = None
        self._dual: Self | None = None
        self._companion: tuple[str, weakref.ref[Array]] | None = None  # weak, so that dropped fields free memory
        self.owner: weakref.ref[ThreadState] | None = None
        self._generation = UNPLACED
        if shape is None:
            self.shape = self.buffer = NoMemory(self)  # type: ignore[assignment]
        else:
            self.allocate(shape)

    # -- memory ---------------------------------------------------------------------------------------------

    @property
    def memory(self) -> np.ndarray:
        """Return the array's memory after all launches have ended. Raise the errors of these launches."""
        if RUNTIME.remote is not None:
            RUNTIME.settle()
        return self.buffer

    @property
    def version(self) -> int:
        """Return the array version; it changes at each read if code outside of the runtime can write the array."""
        return stamp() if self.words[w.EXPORTED] else self.words[w.VERSION]

    @version.setter
    def version(self, number: int) -> None:
        self.words[w.VERSION] = number

    @property
    def exported(self) -> bool:
        """Return True if code outside of the runtime can write the array's memory."""
        return self.words[w.EXPORTED] != 0

    @property
    def is_placed(self) -> bool:
        """Return True if the array has memory."""
        return self._generation != UNPLACED

    def allocate(self, shape: tuple[int, ...], memory: np.ndarray | None = None) -> None:
        """Give the array its shape and memory. Raise FieldError if it has memory, or if its primal does not fit."""
        if self.is_placed:
            raise FieldError(f"{self.label} has memory already", "place a field once")
        primal = self._companion[1]() if self._companion else None
        if primal is not None:
            self._join(primal, shape)
        self.buffer = zeros(shape, self.dtype) if memory is None else memory
        self.shape = shape
        self.words[w.EXPORTED] = memory is not None
        self._generation = RUNTIME.generation
        first_use.wait_for(self)
        if primal is not None:
            setattr(primal, f"needs_{self._companion[0]}", True)  # type: ignore[index]
            primal.describe()
        self.describe()

    def describe(self) -> None:
        """Store the address, shape and type of the array's memory in `words`, which machine code reads."""
        words, memory = self.words, self.buffer
        if not self.is_placed or memory.ndim > w.AXES:
            return
        words[w.LIVING] = self._generation
        words[w.ADDRESS], words[w.BYTES] = memory.__array_interface__["data"][0], memory.nbytes
        for axis, extent in enumerate(memory.shape):
            words[w.EXTENTS + axis] = extent
        words[w.GRADIENT] = w.address_of(self._grad.words) if self.needs_grad and self._grad is not None else 0
        own = RUNTIME.remote is None or (RUNTIME.remote.is_own(memory) and not self.exported)
        sort = (self.dtype.name, memory.ndim, self.needs_grad, self.offset, own)
        words[w.KIND] = _KINDS.setdefault(sort, len(_KINDS) + 1)

    def place_companions(self) -> None:
        """Allocate the adjoint and tangent arrays that were requested when the array was made."""
        for kind in self.wanted:
            found = self.companion(kind)
            if not found.is_placed:
                found.allocate(self.shape)
                found.automatic = True

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Return the scalar arrays that hold the contents: this array alone."""
        return (self,)

    def _join(self, primal: Array, shape: tuple[int, ...]) -> None:
        if primal._traced:
            raise FieldError(
                f"a kernel that uses {primal.label} was compiled before its gradient was placed",
                "place gradients before the first launch",
            )
        if primal.is_placed and primal.shape != shape:
            raise FieldError(f"{self.label} of shape {shape}, but its primal has {primal.shape}", "give both one shape")

    def companion(self, kind: str) -> Array:
        """Return the adjoint ("grad") or tangent ("dual") array; if it does not exist, make it, without memory."""
        found: Array | None = self._grad if kind == "grad" else self._dual
        if found is None:
            dtype = adjoint_type(self.dtype) if kind == "grad" else self.dtype
            found = type(self)(dtype, None, f"{self.name}.{kind}" if self.name else None, is_grad=True)
            found._companion = (kind, weakref.ref(self))
            found.layout, found.offset = self.layout, self.offset
            setattr(self, f"_{kind}", found)
        return found

    def _unusable(self) -> FieldError | StaleFieldError:
        if self._generation == DESTROYED:
            return StaleFieldError(f"{self.label} was destroyed with its tree", "make a field anew")
        if self.is_placed:
            return StaleFieldError(
                f"{self.label} is from before the last sg.init() or sg.reset()", "make fields after sg.init()"
            )
        cure = "place it: sg.root.dense(axes, shape).place(x), or give sg.field a shape"
        if self._companion:
            cure = "make the field with needs_grad=True, or place it: sg.root.lazy_grad(), or place(x, x.grad)"
        return FieldError(f"{self.label} has no memory yet", cure)

    def discard(self) -> None:
        """Mark the array, its adjoint and its tangent as destroyed, so that every later use raises an error."""
        for array in (self, self._grad, self._dual):
            if array is not None and array.is_placed:
                array._generation = array.words[w.LIVING] = DESTROYED

    def check_alive(self) -> None:
        """Raise StaleFieldError after an `init` or `reset` since the array was made, or FieldError without memory."""
        if self._generation != RUNTIME.generation and not first_use.begin(self):
            raise self._unusable()

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    @property
    def grad(self) -> Self:
        """Return the adjoint array. Raise GradientError if the array was made without needs_grad.

        While a kernel is traced, return None instead: the frontend asks every field, and reports a use at its line.
        """
        return self._companion_of("grad", self._grad)

    @property
    def dual(self) -> Self:
        """Return the tangent array of forward mode. Raise GradientError if the array was made without needs_dual."""
        return self._companion_of("dual", self._dual)

    def _companion_of(self, kind: str, found: Self | None) -> Self:
        if RUNTIME.tracing:
            self._traced = True
            return found if found is not None and found.is_placed else None  # type: ignore[return-value]
        if found is None:
            raise self._missing(kind)
        return found

    def _missing(self, kind: str) -> GradientError:
        what = "gradient" if kind == "grad" else "dual"
        cure = "it is a gradient itself" if self.is_grad else f"make it with needs_{kind}=True"
        return GradientError(f"{self.label} has no {what}", cure)

    @property
    def label(self) -> str:
        """Return the name of the array for messages."""
        if self.name:
            return f"field {self.name!r}"
        if self.is_placed:
            return f"the field of {self.dtype} and shape {self.shape}"
        return f"the {self._companion[0] if self._companion else 'field'} of {self.dtype} without a shape"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"{self.label} has no axes, so no length")
        return self.shape[0]

    # -- elements -------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        """Return an element as a Python number: `x[None]` of a 0-d field, else `x[i, j]`. Raise OutOfBounds."""
        if self._generation != RUNTIME.generation and not first_use.begin(self):
            raise self._unusable()
        place = place_of(self, index)
        if RUNTIME.words[w.WATCHED]:
            self.begin_read(place)
        return self.buffer.item(place) if RUNTIME.remote is None else RUNTIME.remote.item(self.buffer, place)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Overwrite an element with a number. Raise OutOfBounds for a bad index, FieldError for an unfit value."""
        if self._generation != RUNTIME.generation and not first_use.begin(self):
            raise self._unusable()
        place, element = place_of(self, index), self.element(value)
        if RUNTIME.words[w.WATCHED]:
            self.begin_write(place)
        self.put(place, element)
        self.words[w.VERSION] = stamp()

    def put(self, place: Any, value: Any) -> None:
        """Overwrite part of the memory after all earlier launches, without notifying tapes."""
        if RUNTIME.remote is None:
            self.buffer[place] = value
        else:
            RUNTIME.remote.assign(self.buffer, place, value)

    def element(self, value: Any) -> Any:
        """Return a number converted to the array's type. Raise FieldError if this loses a fraction or does not fit."""
        given = np.asarray(value)
        if given.ndim:
            raise FieldError(
                f"{self.label} holds numbers, not {short_repr(value)}", "use from_numpy() for whole arrays"
            )
        return convert(given, self.dtype, self.label)

    # -- whole content --------------------------------------------------------------------------------------

    def from_numpy(self, array: Any) -> None:
        """Overwrite the contents with an array of the field's shape. Raise FieldError if it does not fit.

        Its dtype is cast if no fraction and no range is lost: reals to reals, integers to reals and wider integers.
        """
        given = as_numpy(array)
        if given.shape != self.shape:
            raise FieldError(f"{self.label} has shape {self.shape}, the array has {given.shape}", "reshape the array")
        self.write(..., convert(given, self.dtype, self.label))

    def fill(self, value: Any) -> None:
        """Overwrite every element with one number."""
        converted = self.element(value)
        self.begin_write()
        (self.buffer.fill if RUNTIME.remote is None else partial(RUNTIME.remote.fill, self.buffer))(converted)
        self.words[w.VERSION] = stamp()

    def copy_from(self, other: Array) -> None:
        """Overwrite the contents with those of an array of the same shape. Derivatives flow through the copy."""
        if not isinstance(other, Array):
            raise FieldError(f"copy_from takes a field, not {type(other).__name__}", "use from_numpy() for arrays")
        other.check_alive()
        if other.shape != self.shape or not copy_if_watched(self, other, tuple(range(other.ndim))):
            self.from_numpy(other.values())

    def values(self) -> np.ndarray:
        """Return the contents, which the caller must not change; they are a copy if the memory is on a device."""
        self.check_alive()
        return self.buffer if RUNTIME.remote is None else RUNTIME.remote.fetch(self.buffer)

    def shared(self) -> np.ndarray:
        """Return the array's own memory, not a copy, after waiting until all launches have ended."""
        self.check_alive()
        return self.memory

    def in_place(self) -> np.ndarray:
        """Return the array's own memory without waiting for launches, which may still be writing it."""
        self.check_alive()
        return self.buffer

    def __reduce__(self) -> Any:
        self.check_alive()
        return remade, (type(self), self.name, self.layout, self.dtype, self.values().copy(), self.offset)

    # -- writes ---------------------------------------------------------------------------------------------

    def write(self, place: Any, value: Any) -> None:
        """Overwrite part of the memory with values of the array's type, and notify tapes."""
        self.begin_write(place)
        self.put(place, value)
        self.words[w.VERSION] = stamp()

    def begin_write(self, place: Any = ...) -> None:
        """Check that the array is alive, and notify tapes that the host is about to write it.

        `place` is the index of the elements to be replaced; None if the host gets a view, which it may write later.
        """
        self.check_alive()
        if RUNTIME.words[w.WATCHED]:
            own = RUNTIME.threads.own
            for seen in (*own.tapes, *((own.forward,) if own.forward is not None else ())):
                seen.before_host_write(self, place)
            if place is not None:
                RUNTIME.threads.wrote((self,), "the host")

    def begin_read(self, place: Any = ...) -> None:
        """Notify tapes and forward mode that the host is about to read the array. `place` is as in `begin_write`."""
        own = RUNTIME.threads.own
        if not own.tracing and not self.is_grad:
            for seen in (*reversed(own.tapes), own.forward):
                if seen is not None and seen.before_host_read(self, place):
                    break

    def mark_exported(self) -> None:
        """Record that from now on other code can write the memory on the device, in order with launches."""
        self.begin_write(None)
        self.words[w.VERSION] = stamp()
        self.words[w.EXPORTED] = 1

    def export(self) -> None:
        """Record that from now on other code can write the memory, so that its contents are no longer known."""
        self.mark_exported()
        if RUNTIME.remote is not None:
            RUNTIME.remote.share(self.buffer)
            self.describe()


def remade(
    kind: type[Array], name: str | None, layout: Any, dtype: Scalar, content: np.ndarray, offset: tuple[int, ...] = ()
) -> Array:
    """Return a new array with the given contents, without gradients; unpickling calls this function."""
    RUNTIME.ensure()
    made = kind(dtype, content.shape, name)
    made.layout, made.offset = layout, offset
    made.describe()
    made.put(..., content)
    RUNTIME.fields.add(made)
    return made
