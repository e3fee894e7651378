"""Define fields of structs, which store one field of the same shape for each member.

Invariant: memory, versions and gradients belong to the members; `grad` holds the adjoints of the members that have one.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from ...compiler.frontend.aggregates import StructType, adjoint_element
from ...runtime.usage_errors import FieldError, GradientError, close_names
from ..values import Struct
from ..values.struct import as_struct
from .array import Array
from .elements import StructElement
from .kinds import Field, Layout
from .offsets import place_of
from .scalar import describe


class StructField(Field):
    """Represent a field of structs, whose attributes are the fields of its members; `sg.Struct.field` makes it.

    Attributes:
        type: The type of the elements.
        members: The field of each member by name.
        name: The name for messages, or None.
        layout: The layout of members that are vectors or matrices.
    """

    __slots__ = ("type", "members", "name", "layout", "_grad", "_dual", "__dict__", "__weakref__")
    is_stackgrad_struct_field = True

    # The field of a member is Any: each member has a kind of field of its own. Values and contents are Any as in
    # `Tensor`: numbers, structs and mappings of them, and arrays of NumPy, torch and JAX.
    def __init__(self, kind: StructType, members: Mapping[str, Any], name: str | None, layout: Layout) -> None:
        self.type = kind
        self.members = dict(members)
        self.name = name  # type: ignore[misc]
        self.layout = layout
        self._grad: StructField | None = None
        self._dual: StructField | None = None

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents of the field's axes."""
        found: tuple[int, ...] = self._first.shape
        return found

    @property
    def offset(self) -> tuple[int, ...]:
        """Return the first index along each axis, or () if indices begin at 0."""
        found: tuple[int, ...] = self._first.offset
        return found

    @property
    def ndim(self) -> int:
        """Return the number of axes of the field."""
        return len(self.shape)

    @property
    def keys(self) -> list[str]:
        """Return the names of the members in order."""
        return list(self.members)

    @property
    def _first(self) -> Any:
        return next(iter(self.members.values()))

    @property
    def needs_grad(self) -> bool:
        """Return True if any member has an adjoint with memory."""
        return any(member.needs_grad for member in self.members.values())

    @property
    def needs_dual(self) -> bool:
        """Return True if any member has a tangent with memory."""
        return any(member.needs_dual for member in self.members.values())

    @property
    def grad(self) -> StructField:
        """Return a struct field of the members' adjoints. Raise GradientError if no member has one."""
        self._grad = self._beside("grad", self._grad)
        return self._grad  # type: ignore[return-value]

    @property
    def dual(self) -> StructField:
        """Return a struct field of the members' tangents. Raise GradientError if no member has one."""
        self._dual = self._beside("dual", self._dual)
        return self._dual  # type: ignore[return-value]

    def _beside(self, kind: str, known: StructField | None) -> StructField | None:
        found = {name: _companion(member, kind) for name, member in self.members.items()}
        members = {name: member for name, member in found.items() if member is not None}
        if not members:
            from ...runtime.session import RUNTIME

            if RUNTIME.tracing:
                return None
            raise self._missing(kind)
        if known is not None and all(known.members.get(n) is m for n, m in members.items()):
            return known
        kept = StructType(self.type.name, tuple(entry for entry in self.type.members if entry[0] in members))
        element = adjoint_element(kept) if kind == "grad" else kept
        return StructField(element, members, self.name and f"{self.name}.{kind}", self.layout)

    def _missing(self, kind: str) -> GradientError:
        return GradientError(f"{self.label} has no {kind}", f"make it with needs_{kind}=True")

    @property
    def label(self) -> str:
        """Return the name of the field for messages."""
        return f"field {self.name!r}" if self.name else f"the field of {self.type}"

    def __repr__(self) -> str:
        return describe("sg.Struct.field", [", ".join(self.keys)], self)

    def __len__(self) -> int:
        return len(self._first)

    def __reduce__(self) -> Any:
        return StructField, (self.type, self.members, self.name, self.layout)

    def __getattr__(self, name: str) -> Any:
        if name in StructField.__slots__:
            raise AttributeError(name)
        if name in ("grad", "dual"):  # The property raised GradientError, which is an AttributeError too.
            raise self._missing(name)
        if name in self.members:
            return self.members[name]
        hint = close_names(name, self.keys)
        raise AttributeError(f"{self.label} has no member {name!r}. {hint}".rstrip(". "))

    def get_member_field(self, name: str) -> Any:
        """Return the field of one member. Raise FieldError if there is none."""
        if name not in self.members:
            hint = close_names(name, self.keys) or f"members: {', '.join(self.keys)}"
            raise FieldError(f"{self.label} has no member {name!r}", hint)
        return self.members[name]

    # -- memory ---------------------------------------------------------------------------------------------

    @property
    def is_placed(self) -> bool:
        """Return True if the field has memory."""
        placed: bool = self._first.is_placed
        return placed

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Return the scalar arrays that store the contents of all members."""
        return tuple(array for member in self.members.values() for array in member.arrays)

    def allocate(self, shape: tuple[int, ...]) -> None:
        """Allocate memory for all members. Raise FieldError if they have memory already."""
        for member in self.members.values():
            member.allocate(shape)

    def check_alive(self) -> None:
        """Raise StaleFieldError or FieldError unless the field can be used."""
        self._first.check_alive()

    # -- elements and content -------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> StructElement:
        """Return an element; a write to its members writes the field. Raise OutOfBounds for a bad index."""
        self.check_alive()
        return StructElement.at(self, self._indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        """Overwrite an element with a struct, mapping or sequence of members. Raise OutOfBounds or StructError."""
        self.check_alive()
        place = self._indices(index)
        given = value.members if isinstance(value, Struct) else value
        element = as_struct(self.type, given)
        for name, member in element.members.items():
            self.members[name][place] = member

    def _indices(self, index: Any) -> tuple[int, ...]:
        """Return an index as a tuple of integers for the fields of the members. Raise OutOfBounds for a bad index."""
        place = place_of(self, index)
        return tuple(map(operator.add, place, self.offset)) if self.offset else place

    def to_numpy(self, dtype: Any = None) -> dict[str, Any]:
        """Return copies of the members' contents by name."""
        return {name: member.to_numpy(dtype) for name, member in self.members.items()}

    def from_numpy(self, arrays: Mapping[str, Any]) -> None:
        """Overwrite members with arrays, given by member name. Raise FieldError for an unknown member."""
        for name in arrays:
            self.get_member_field(name)
        for name, array in arrays.items():
            self.members[name].from_numpy(array)

    def to_torch(self, device: Any = None) -> dict[str, Any]:
        """Return copies of the members' contents by name, as torch tensors."""
        return {name: member.to_torch(device) for name, member in self.members.items()}

    def from_torch(self, tensors: Mapping[str, Any]) -> None:
        """Overwrite members with tensors, given by member name. Raise FieldError for an unknown member."""
        self.from_numpy(tensors)

    def to_jax(self) -> dict[str, Any]:
        """Return copies of the members' contents by name, as JAX arrays."""
        return {name: member.to_jax() for name, member in self.members.items()}

    from_jax = from_numpy

    def fill(self, value: Any) -> None:
        """Overwrite all elements with one struct, or all entries of all members with one number."""
        if isinstance(value, (Struct, Mapping)):
            for name, member in as_struct(self.type, value).members.items():
                self.members[name].fill(member)
        else:
            for field in self.members.values():
                field.fill(value)

    def copy_from(self, other: StructField) -> None:
        """Overwrite the contents with those of a field of the same members. Raise FieldError if they differ."""
        if not isinstance(other, StructField) or other.keys != self.keys:
            raise FieldError(f"{self.label} cannot be copied from {other!r}", "give a field with the same members")
        for name, member in self.members.items():
            member.copy_from(other.members[name])


def _companion(member: Any, kind: str) -> Any:
    """Return the adjoint or tangent of a member, or None if the member has none."""
    try:
        return getattr(member, kind)
    except GradientError:
        return None
