"""Match arguments to parameters: split them into numbers, arrays and the key of the specialization.

Invariant: `take` and `stand_in` of one matcher visit arrays and numbers in the same order, so that the number in an
`ArgumentArray` is the position of its array among the leaves of any call with the same key.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np

from ..compiler.errors import short_repr
from ..compiler.frontend.aggregates import ANY, MatrixType, NdarrayType, StructType, ViewType
from ..compiler.frontend.members import LaunchValue, MembersStandIn
from ..compiler.frontend.parameters import Parameter, annotated_parameter
from ..compiler.frontend.protocols import (
    LaunchShape,
    ViewOperand,
    is_host_matrix,
    is_host_struct,
    is_host_view,
    is_matrix_field,
    is_struct_field,
)
from ..compiler.frontend.type_inference import FrontendOptions
from ..compiler.ir.extents import NARROW
from ..compiler.ir.types import Scalar, i32
from ..data.fields.array import Array
from ..data.leaves import ArgumentMismatch, ForeignArray, Leaf, foreign, scalar_of
from .argument_kinds import is_array, is_dataclass, is_field
from .arguments import checker_of, flattener_of
from .calls import Call
from .frozen_arguments import FrozenArguments
from .stand_ins import StandInMaker, is_wide_leaf, matrix_field_stand_in, matrix_stand_in, struct_stand_in

# ---- parameters -----------------------------------------------------------------------------------------------------


class ScalarMatcher:
    """Match a parameter that takes a number, whose value may differ in each launch."""

    def __init__(self, dtype: Scalar) -> None:
        self.dtype = dtype
        self.check = checker_of(dtype)

    def take(self, value: Any, call: Call) -> None:
        """Append the number `value` to the scalars of the call. Raise ArgumentMismatch if it does not fit the type."""
        call.scalars.append(self.check(value))

    def stand_in(self, value: Any, make: StandInMaker) -> Any:
        """Return the stand-in that represents the number while the kernel is traced."""
        return LaunchValue(self.dtype)


class ValueMatcher:
    """Match a parameter that takes a vector, matrix or struct, which each launch passes as a list of numbers."""

    def __init__(self, kind: MatrixType | StructType) -> None:
        self.kind = kind
        self.reader = flattener_of(kind)

    def take(self, value: Any, call: Call) -> None:
        """Append the numbers of the value to the scalars of the call. Raise ArgumentMismatch if it does not fit."""
        self.reader(value, call.scalars)

    def stand_in(self, value: Any, make: StandInMaker) -> Any:
        """Return the stand-in that represents the vector, matrix or struct while the kernel is traced."""
        return LaunchValue(self.kind)


class ArrayMatcher:
    """Match a parameter that takes an array: a field, an ndarray, or an array of another library.

    Attributes:
        kind: The annotation, with fixed element types.
        fields_fixed: True if the shape of a field is part of the key of the specialization.
    """

    def __init__(self, kind: NdarrayType, options: FrontendOptions, fields_fixed: bool = False) -> None:
        self.kind = resolved(kind, options)
        self.fields_fixed = fields_fixed

    def take(self, value: Any, call: Call) -> None:
        """Append the array to the arrays of the call. Raise ArgumentMismatch if the annotation forbids it."""
        kind = self.kind
        if isinstance(value, Array):
            value.check_alive()
            leaf: Leaf = value
            element: MatrixType | None = None
            dtype, shape = value.dtype, value.shape
            grad = self._gradient(value)
        elif is_matrix_field(value):
            assert isinstance(value.storage, Array)
            leaf = value.storage
            leaf.check_alive()
            element, dtype, shape = value.element, value.element.dtype, value.shape
            grad = self._gradient(value)
            call.key.append(value.element_first)
        else:
            found = foreign(value, kind.needs_grad)
            if found is None:
                raise ArgumentMismatch(
                    f"{_describe(value)} is no array", "give a field, sg.ndarray, NumPy array or tensor"
                )
            call.is_volatile |= not isinstance(value, np.ndarray)
            leaf, dtype, grad = found, scalar_of(found.memory), found.grad is not None
            element, shape = self._element_of(found.memory.shape, dtype), found.memory.shape
            if element is not None:
                shape = shape[: -len(element.shape)]
        self._check(dtype, shape, element)
        call.leaves.append(leaf)
        offset = leaf.offset if isinstance(leaf, Array) else ()
        call.key.append((dtype.name, len(shape), grad, element, self._fixed(value), offset, is_wide_leaf(leaf)))

    def _fixed(self, value: Any) -> Any:
        """Return the shape of a field if kernels are specialized for the shapes of fields, else None."""
        return value.shape if self.fields_fixed and not isinstance(value, ForeignArray) and is_field(value) else None

    def _gradient(self, value: Any) -> bool:
        """Return True if the kernel uses the argument's gradient. Raise ArgumentMismatch if it is missing."""
        has: bool = value.needs_grad
        if self.kind.needs_grad and not has:
            label = value.label if isinstance(value, Array) else "the argument"
            raise ArgumentMismatch(f"{label} has no gradient", "make it with needs_grad=True")
        return has and self.kind.needs_grad is not False

    def _element_of(self, shape: tuple[int, ...], dtype: Scalar) -> MatrixType | None:
        """Return the vector or matrix type that the last axes of an external array form, or None for scalars."""
        wanted, count = self.kind.dtype, self.kind.element_ndim
        if count is not None:
            if len(shape) < count:
                raise ArgumentMismatch(
                    f"an array of shape {shape} has no elements of {_axes(count)}", "give an array of more axes"
                )
            return MatrixType(shape[-count:], dtype)
        if not isinstance(wanted, MatrixType):
            return None
        count = len(wanted.shape)
        if shape[-count:] != wanted.shape:
            raise ArgumentMismatch(
                f"an array of shape {shape} does not hold {wanted}", f"its last axes must be {wanted.shape}"
            )
        return MatrixType(wanted.shape, dtype) if wanted.dtype is ANY else wanted

    def _check(self, dtype: Scalar, shape: tuple[int, ...], element: MatrixType | None) -> None:
        """Raise ArgumentMismatch if dtype, number of axes or element type differ from the annotation."""
        wanted = self.kind.dtype
        scalar = wanted.dtype if isinstance(wanted, MatrixType) else wanted
        self._check_element(element)
        if scalar is not None and dtype != scalar:
            raise ArgumentMismatch(
                f"an array of {dtype} is given where {scalar} is asked for",
                f"convert it, as in x.astype(numpy.{scalar.dtype})",
            )
        shapes = wanted.shape if isinstance(wanted, MatrixType) else None, element.shape if element else None
        if wanted is not None and self.kind.element_ndim is None and shapes[0] != shapes[1]:
            raise ArgumentMismatch(
                f"elements are {element or dtype}, {wanted} is asked for", "give an array of such elements"
            )
        if self.kind.ndim is not None and len(shape) != self.kind.ndim:
            raise ArgumentMismatch(
                f"an array with {_axes(len(shape))} is given where {self.kind.ndim} is asked for",
                "reshape it, or change the annotation's ndim",
            )

    def _check_element(self, element: MatrixType | None) -> None:
        """Raise ArgumentMismatch if the annotation asks for elements of another number of axes."""
        wanted, found = self.kind.element_ndim, len(element.shape) if element is not None else 0
        if wanted is not None and found != wanted:
            what = f"elements have {_axes(found)}" if found else "elements are numbers"
            raise ArgumentMismatch(
                f"{what}, elements of {_axes(wanted)} are asked for", "give an array of such elements"
            )

    def stand_in(self, value: Any, make: StandInMaker) -> Any:
        """Return the stand-in that represents the call's next array while the kernel is traced."""
        leaf = make.leaves[make.next]
        if isinstance(leaf, Array):
            dtype, memory_shape = leaf.dtype, leaf.shape
            grad = leaf.needs_grad and self.kind.needs_grad is not False
        else:
            dtype, memory_shape, grad = scalar_of(leaf.memory), leaf.memory.shape, leaf.grad is not None
        fixed = self.fields_fixed and isinstance(leaf, Array) and is_field(value)
        storage = make.array(dtype, memory_shape if fixed else LaunchShape(len(memory_shape)), grad)
        if is_matrix_field(value):
            return matrix_field_stand_in(value, storage)
        element = self._element_of(memory_shape, dtype) if isinstance(leaf, ForeignArray) else None
        return storage if element is None else matrix_stand_in(element, storage, False)


class ViewMatcher:
    """Match a parameter that takes a view, which a launch passes as an array and two numbers: offset and size."""

    def __init__(self, kind: ViewType, options: FrontendOptions) -> None:
        self.array = ArrayMatcher(kind.array, options)

    def take(self, value: Any, call: Call) -> None:
        """Append the array, offset and size of a view to the call. Raise ArgumentMismatch if they do not fit."""
        self.take_part(value, call)
        self.array.take(value.arr, call)

    def take_part(self, value: Any, call: Call) -> None:
        """Append only offset and size of a view to the call. Raise ArgumentMismatch if they do not fit."""
        if not is_host_view(value):
            raise ArgumentMismatch(
                f"{_describe(value)} is no view", "give sg.BufferView(array, offset, size), or array[a:b]"
            )
        offset, size = value.offset, value.size
        if offset + size > value.arr.shape[0]:
            raise ArgumentMismatch(
                f"a view of {size} elements from {offset} on is given, and its array now has {value.arr.shape[0]}",
                "make the view anew",
            )
        if offset + size >= NARROW:
            raise ArgumentMismatch(
                f"a view of {size} elements from {offset} on is given, and views end before element {NARROW}",
                "give the array itself, or split it",
            )
        call.scalars += (offset, size)

    def stand_in(self, value: Any, make: StandInMaker) -> Any:
        """Return the stand-in that represents a view while the kernel is traced."""
        return ViewOperand(self.array.stand_in(value.arr, make), LaunchValue(i32), LaunchValue(i32))


class ObjectMatcher:
    """Match a template parameter: an object that the traced kernel treats as constant, except for arrays in it."""

    def __init__(self, options: FrontendOptions, kind: type | None = None) -> None:
        self.options = options
        self.kind = kind
        self.inner = self if kind is None else ObjectMatcher(options)
        self.any_array = ArrayMatcher(NdarrayType(), options, fields_fixed=True)
        self.any_view = ViewMatcher(ViewType(), options)
        self.members: dict[type, tuple[tuple[str, Matcher], ...]] = {}
        self.frozen = FrozenArguments()

    def take(self, value: Any, call: Call) -> None:
        """Append the key, arrays and numbers of an object to the call. Raise ArgumentMismatch if it does not fit."""
        if self.kind is not None and not isinstance(value, self.kind):
            raise ArgumentMismatch(f"{_describe(value)} is no {self.kind.__name__}", f"give a {self.kind.__name__}")
        self._take(value, call)

    def _take(self, value: Any, call: Call) -> None:
        """Append the key, arrays and numbers of an object to the call, according to its type."""
        if self.frozen.known and (part := self.frozen.parts(value)) is not None:
            call.join(part)
            return
        if isinstance(value, np.generic):
            value = value.item()
        kind, key = type(value), call.key
        if is_array(value):
            self.any_array.take(value, call)
        elif is_host_view(value):
            key.append(ViewOperand)
            call.is_volatile = True
            self.any_view.take(value, call)
        elif is_struct_field(value):
            key.append((value.type, value.shape))
            for member in value.members.values():
                self._take(member, call)
        elif kind in _BY_VALUE:
            key.append((kind, value.hex() if kind is float else value))
        elif kind in (tuple, list, dict):
            key.append((kind, tuple(value) if kind is dict else len(value)))
            call.is_volatile = True
            for item in value.values() if kind is dict else value:
                self._take(item, call)
        elif is_host_struct(value):
            key.append((kind, value.type))
            call.is_volatile = True
            for member in value.members.values():
                self._take(member, call)
        elif is_host_matrix(value):
            call.is_volatile = True
            key.append((kind, value.dtype, value.to_numpy().shape, value.to_numpy().tobytes()))
        elif is_dataclass(value):
            self._take_dataclass(value, call)
        else:
            call.know(value)

    def _take_dataclass(self, value: Any, call: Call) -> None:
        """Append the class and the members of a Python dataclass; what cannot change is taken apart once."""
        if type(value).__dataclass_params__.frozen:
            self.frozen.take(value, call, self._take_members)
        else:
            self._take_members(value, call)
            call.is_volatile = True

    def _take_members(self, value: Any, call: Call) -> None:
        """Append the class and the members of a Python dataclass to the call."""
        call.key.append(type(value))
        count = len(call.scalars)
        for name, matcher in self._members(type(value)):
            _nested(name, matcher, getattr(value, name), call)
        if len(call.scalars) > count:
            call.is_volatile = True

    def stand_in(self, value: Any, make: StandInMaker) -> Any:
        """Return the object with stand-ins in place of the arrays and numbers that may differ in each launch."""
        if is_array(value):
            return self.any_array.stand_in(value, make)
        if is_host_view(value):
            return self.any_view.stand_in(value, make)
        if is_struct_field(value):
            members = {name: self.stand_in(member, make) for name, member in value.members.items()}
            return struct_stand_in(value, members)
        if type(value) in (tuple, list):
            return tuple(self.stand_in(item, make) for item in value)
        if type(value) is dict:
            return {name: self.stand_in(item, make) for name, item in value.items()}
        if is_dataclass(value):
            parts = {name: m.stand_in(getattr(value, name), make) for name, m in self._members(type(value))}
            return MembersStandIn(type(value), parts)
        return value

    def _members(self, kind: type) -> tuple[tuple[str, Matcher], ...]:
        """Return the matcher of each member of a Python dataclass, chosen by the annotation of the member."""
        found = self.members.get(kind)
        if found is None:
            made = [(f.name, self._member(kind, f)) for f in dataclasses.fields(kind)]
            found = self.members[kind] = tuple(made)
        return found

    def _member(self, kind: type, member: dataclasses.Field[Any]) -> Matcher:
        """Return the matcher of one member of a Python dataclass."""
        annotation = member.type
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, vars(sys.modules[kind.__module__]), dict(vars(kind)))
            except Exception:
                annotation = annotation.strip()
        if annotation in (int, float, bool, str) or annotation in ("int", "float", "bool", "str"):
            return self.inner  # Such a member is a constant of the program, for example a size or a switch.
        parameter = annotated_parameter(member.name, annotation, None, self.options)
        return matcher_of(parameter, self.options) if parameter.kind in _TAKEN_AS_ANNOTATED else self.inner


_TAKEN_AS_ANNOTATED = ("scalar", "aggregate", "array", "view")
"""Kinds of members of a Python dataclass that each launch gives anew."""

Matcher = ScalarMatcher | ValueMatcher | ArrayMatcher | ViewMatcher | ObjectMatcher


def matcher_of(parameter: Parameter, options: FrontendOptions) -> Matcher:
    """Return the matcher of a parameter, chosen by its annotation."""
    if parameter.kind == "scalar":
        assert isinstance(parameter.wanted, Scalar)
        return ScalarMatcher(parameter.wanted)
    if parameter.kind == "aggregate":
        assert isinstance(parameter.wanted, (MatrixType, StructType))
        return ValueMatcher(parameter.wanted)
    if parameter.kind in ("array", "either"):
        assert isinstance(parameter.wanted, NdarrayType)
        return ArrayMatcher(parameter.wanted, options, fields_fixed=parameter.kind == "either")
    if parameter.kind == "view":
        assert isinstance(parameter.wanted, ViewType)
        return ViewMatcher(parameter.wanted, options)
    return ObjectMatcher(options, parameter.members)


def resolved(kind: NdarrayType, options: FrontendOptions) -> NdarrayType:
    """Return an array annotation in which `float` and `int` are replaced by scalar types."""
    from ..compiler.frontend.aggregates import find_type

    if kind.dtype is None:
        return kind
    found = find_type(kind.dtype, options, is_open=True)
    assert not isinstance(found, StructType)
    return dataclasses.replace(kind, dtype=found)


# ---- helpers --------------------------------------------------------------------------------------------------------

_BY_VALUE = frozenset([int, float, bool, str, type(None), Scalar])
"""Types of objects whose value is part of the key."""


def _nested(name: str, matcher: Matcher, value: Any, call: Call) -> None:
    try:
        matcher.take(value, call)
    except ArgumentMismatch as misfit:
        raise ArgumentMismatch(f"its member {name}: {misfit.reason}", misfit.cure) from None


def _axes(count: int) -> str:
    return f"{count} {'axis' if count == 1 else 'axes'}"


def _describe(value: Any) -> str:
    return f"{type(value).__name__} {short_repr(value)}"[:80]
