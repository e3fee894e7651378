"""Fields: typed arrays that kernels read and write, with an adjoint array beside them where asked.

Invariant: every write, by the host or by a kernel, gives the field a version that no content had before; a tape
that watches is told before the write. Memory is one C-contiguous NumPy array owned by the field.
"""
from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from .compiler.errors import OutOfBounds
from .compiler.ir.types import SCALARS, Scalar, from_dtype
from .session import RUNTIME, stamp
from .usage import FieldError, GradientError, StaleFieldError

if TYPE_CHECKING:
    from collections.abc import Sequence

Number = int | float | bool


class Field:
    """An array in runtime memory. Made by `sg.field`.

    dtype: scalar type. shape: extents, () for a single number. needs_grad: a `grad` field of the same shape and
    dtype exists. version: changes with every write. name: for messages; the frontend fills it in where it can.
    """

    __slots__ = (
        "dtype", "shape", "needs_grad", "name", "version", "memory", "is_grad", "_grad", "_generation", "__weakref__",
    )  # fmt: skip
    is_stackgrad_field = True

    def __init__(self, dtype: Scalar, shape: tuple[int, ...], name: str | None, is_grad: bool = False) -> None:
        self.dtype = dtype
        self.shape = shape
        self.needs_grad = False
        self.name = name
        self.version = stamp()
        self.is_grad = is_grad
        self.memory = _zeros(shape, dtype)
        self._grad: Field | None = None
        self._generation = RUNTIME.generation

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def grad(self) -> Field:
        """The adjoint field. Raises GradientError if the field was made without needs_grad.

        While a kernel is traced the answer is None instead: the frontend asks every field, and reports a use in the
        kernel's text at its line.
        """
        if self._grad is None:
            if RUNTIME.tracing:
                return None  # type: ignore[return-value]
            raise GradientError(
                f"{self.label} has no gradient",
                "it is a gradient itself" if self.is_grad else "make it with needs_grad=True",
            )
        return self._grad

    @property
    def label(self) -> str:
        """How messages name the field."""
        return f"field {self.name!r}" if self.name else f"the field of {self.dtype} and shape {self.shape}"

    def __repr__(self) -> str:
        parts = [str(self.dtype), f"shape={self.shape}"]
        parts += ["needs_grad=True"] if self.needs_grad else []
        parts += [f"name={self.name!r}"] if self.name else []
        return f"<sg.field({', '.join(parts)})>"

    def check_alive(self) -> None:
        """Raise StaleFieldError if `init` or `reset` ran since the field was made."""
        if self._generation != RUNTIME.generation:
            raise StaleFieldError(
                f"{self.label} is from before the last sg.init() or sg.reset()", "make fields after sg.init()"
            )

    # -- elements -------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Number:
        """An element as a Python number: `x[None]` of a 0-d field, else `x[i, j]`. Raises OutOfBounds."""
        self.check_alive()
        return self.memory[self._index(index)].item()  # type: ignore[no-any-return]

    def __setitem__(self, index: Any, value: Any) -> None:
        """Overwrite an element with a number of a kind that fits. Raises OutOfBounds and FieldError."""
        self.check_alive()
        place, element = self._index(index), self._element(value)
        self.begin_write()
        self.memory[place] = element
        self.version = stamp()

    def _index(self, index: Any) -> tuple[int, ...]:
        indices = () if index is None else index if isinstance(index, tuple) else (index,)
        if len(indices) != len(self.shape):
            want = "x[None]" if not self.shape else f"{len(self.shape)} indices"
            raise FieldError(f"{self.label} got {len(indices)} indices", f"it takes {want}")
        try:
            place = tuple(map(operator.index, indices))
        except TypeError:
            raise FieldError(
                f"{self.label} got the index {index!r}", "indices are integers; use to_numpy() for slices"
            ) from None
        for axis, (i, extent) in enumerate(zip(place, self.shape)):
            if not 0 <= i < extent:
                raise OutOfBounds(f"index {i} of axis {axis} is outside {self.label}, whose shape is {self.shape}")
        return place

    def _element(self, value: Any) -> Any:
        """The value, checked: no real for an integer field, no integer that does not fit."""
        given = np.asarray(value)
        if given.ndim:
            raise FieldError(f"{self.label} holds numbers, not {value!r}", "use from_numpy() for whole arrays")
        return convert(given, self.dtype, self.label)

    # -- whole content --------------------------------------------------------------------------------------

    def to_numpy(self) -> np.ndarray:
        """A copy of the content, of the field's shape and dtype."""
        self.check_alive()
        return self.memory.copy()

    def from_numpy(self, array: Any) -> None:
        """Overwrite the content. The array has the field's shape; its dtype is cast if no fraction and no range
        is lost: reals to any real, integers to reals and to integers that hold them. Raises FieldError.
        """
        given = np.asarray(array)
        if given.shape != self.shape:
            raise FieldError(f"{self.label} has shape {self.shape}, the array has {given.shape}", "reshape the array")
        converted = convert(given, self.dtype, self.label)
        self.begin_write()
        self.memory[...] = converted
        self.version = stamp()

    def fill(self, value: Any) -> None:
        """Overwrite every element with one number."""
        converted = self._element(value)
        self.begin_write()
        self.memory.fill(converted)
        self.version = stamp()

    def copy_from(self, other: Field) -> None:
        """Overwrite the content with that of a field of the same shape."""
        if not isinstance(other, Field):
            raise FieldError(f"copy_from takes a field, not {type(other).__name__}", "use from_numpy() for arrays")
        other.check_alive()
        self.from_numpy(other.memory)

    # -- writes ---------------------------------------------------------------------------------------------

    def begin_write(self) -> None:
        """What precedes every write by the host: is the field alive, and does a tape need the old content?"""
        self.check_alive()
        for tape in RUNTIME.tapes:
            tape.before_host_write(self)


def field(
    dtype: Scalar | type,
    shape: int | Sequence[int] = (),
    needs_grad: bool = False,
    name: str | None = None,
) -> Field:
    """A new field of zeros.

    dtype: a scalar type (`sg.f32`), or Python's float or int, which mean the defaults of `sg.init`. shape: extents,
    an int for one axis, () for a single number `x[None]`. needs_grad: make an adjoint field `x.grad` too; real
    types only. Raises FieldError.
    """
    RUNTIME.ensure()
    scalar = scalar_type(dtype)
    if needs_grad and not scalar.is_real:
        raise FieldError(f"a field of {scalar} cannot have a gradient", "use sg.f16, sg.f32 or sg.f64")
    extents = _shape(shape)
    made = Field(scalar, extents, name)
    if needs_grad:
        made._grad = Field(scalar, extents, f"{name}.grad" if name else None, is_grad=True)
        made.needs_grad = True
    RUNTIME.fields.add(made)
    return made


def scalar_type(dtype: object) -> Scalar:
    """The scalar type that a user's dtype means: one of ours, float, int, bool or a NumPy dtype."""
    settings = RUNTIME.settings
    named = {float: settings.default_fp, int: settings.default_ip, bool: SCALARS["u1"]}
    try:
        if dtype in named:
            return named[dtype]
        return dtype if isinstance(dtype, Scalar) else from_dtype(np.dtype(dtype))  # type: ignore[call-overload]
    except (TypeError, KeyError):
        raise FieldError(f"{dtype!r} is not a scalar type", f"one of {', '.join('sg.' + s for s in SCALARS)}") from None


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    try:
        extents = tuple(map(operator.index, shape if isinstance(shape, (tuple, list)) else (shape,)))
    except TypeError:
        raise FieldError(f"{shape!r} is not a shape", "give an int or a tuple of ints") from None
    if any(extent < 0 for extent in extents):
        raise FieldError(f"the shape {extents} has a negative extent", "extents are 0 or more")
    return extents


def _zeros(shape: tuple[int, ...], dtype: Scalar) -> np.ndarray:
    try:
        return np.zeros(shape, dtype.dtype)
    except (MemoryError, ValueError):
        gib = np.prod([float(extent) for extent in shape]) * dtype.size / 2**30
        raise FieldError(f"a field of {dtype} and shape {shape} takes {gib:.1f} GiB", "make it smaller") from None


def convert(given: np.ndarray, dtype: Scalar, label: str) -> np.ndarray:
    """The array in this type. Raises FieldError where a fraction, or the value of an integer, would be lost."""
    if given.dtype == dtype.dtype:
        return given
    if given.dtype.kind not in "fiub":
        raise FieldError(f"{label} holds {dtype}, not {given.dtype}", "give real, integer or boolean numbers")
    if given.dtype.kind == "f" and not dtype.is_real:
        raise FieldError(f"{label} holds {dtype}; reals would lose their fraction", "round and cast the values first")
    if given.dtype.kind in "iu" and dtype.is_int and given.size:
        limits = np.iinfo(dtype.dtype)
        low, high = int(given.min()), int(given.max())
        if low < limits.min or high > limits.max:
            raise FieldError(f"{label} holds {dtype}; the values {low} .. {high} do not fit", "use a wider type")
    with np.errstate(over="ignore"):
        return given.astype(dtype.dtype)
