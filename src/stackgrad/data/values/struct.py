"""Define structs for use outside of kernels, with members that are numbers, vectors, matrices or structs.

Invariant: a struct holds its own copy of each member that is a vector or matrix, so a later change of the object that
was assigned does not change the struct.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from ...compiler.frontend.aggregates import MatrixType, StructType
from ...runtime.usage_errors import StructError, close_names
from ..dtypes import scalar_type
from .makers import factory
from .matrix import Matrix, Vector
from .struct_types import struct_type

if TYPE_CHECKING:
    from ..fields import StructField
    from ..fields.kinds import CompoundOptions

ShapeLike = int | Sequence[int]


class Struct:
    """Represent a struct value, whose members can be read as attributes or as items.

        ball = sg.Struct(pos=[1, 2], m=1.0)
        ball.pos

    Types made by `sg.types.struct` and `@sg.dataclass` make these values too, with their members' types and methods.

    Args:
        given: Members by name.
        **named: Members by name.
    """

    __slots__ = ("type", "members")
    is_stackgrad_struct: ClassVar[bool] = True
    stackgrad_constructor: ClassVar[str] = "Struct"

    type: StructType
    members: dict[str, Any]

    # A member is Any: a number, a vector or matrix, or a struct, or a sequence or mapping that becomes one of them.
    def __init__(self, given: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        every = {**(given or {}), **named}
        methods = every.pop("__struct_methods", {})
        members = {name: _plain(value) for name, value in every.items()}
        kinds = tuple((name, _kind(name, value)) for name, value in members.items())
        self._set(StructType("", kinds, methods), members)

    @classmethod
    def of(cls, kind: StructType, members: dict[str, Any]) -> Struct:
        """Return a struct of this type, made of members that already have the right types."""
        made: Struct = object.__new__(cls)
        made._set(kind, members)
        return made

    def _set(self, kind: StructType, members: dict[str, Any]) -> None:
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "members", members)

    @staticmethod
    def field(
        members: Mapping[str, Any],
        shape: ShapeLike | None = None,
        methods: Mapping[str, Any] | None = None,
        **options: Unpack[CompoundOptions],
    ) -> StructField:
        """Return a new field of structs with these members.

        Args:
            members: The type of each member by name.
            shape: An extent or a tuple of extents; None for a field that is placed later.
            methods: Functions by name, which become methods of the elements.
            **options: needs_grad, needs_dual, name, layout; see `sg.field`.
        """
        made: StructField = factory("fields", "struct_field")(struct_type("", members, methods or {}), shape, **options)
        return made

    # -- members --------------------------------------------------------------------------------------------

    @property
    def keys(self) -> list[str]:
        """Return the names of the members in order."""
        return list(self.members)

    @property
    def items(self) -> ItemsView[str, Any]:
        """Return names and values of the members in order."""
        return self.members.items()

    def __reduce__(self) -> Any:
        return Struct.of, (self.type, {name: _plain(value) for name, value in self.members.items()})

    def __getattr__(self, name: str) -> Any:
        if name in ("type", "members"):  # The struct is being made, and has no such attribute yet.
            raise AttributeError(name)
        if name in self.members:
            return self.members[name]
        method = self.type.methods.get(name)
        if method is not None:
            return bound(method, self)
        raise AttributeError(f"the struct has no member {name!r}. {close_names(name, self.keys)}".rstrip(". "))

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __getitem__(self, name: str) -> Any:
        self._known(name)
        return self.members[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._known(name)
        self.members[name] = fit(dict(self.type.members)[name], value, name)

    def _known(self, name: str) -> None:
        if name not in self.members:
            hint = close_names(str(name), self.keys) or f"members: {', '.join(self.keys)}"
            raise StructError(f"the struct has no member {name!r}", hint)

    def to_dict(self, include_methods: bool = False) -> dict[str, Any]:
        """Return the members as a dict by name, with vectors and matrices as lists and structs as dicts.

        Args:
            include_methods: True to add the methods under the name `__struct_methods`.
        """
        made = {n: v.to_dict() if isinstance(v, Struct) else _listed(v) for n, v in self.members.items()}
        return {**made, "__struct_methods": dict(self.type.methods)} if include_methods else made

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.members.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self.members.items())
        return f"{self.type.name or 'Struct'}({inner})"


def bound(method: Any, receiver: Any) -> Callable[..., Any]:
    """Return a method of a struct type as a callable whose first argument is the struct `receiver`."""
    return partial(method, receiver)


def fit(kind: Any, value: Any, name: str) -> Any:
    """Return a value converted to the type of a struct member. Raise StructError if it does not fit.

    Args:
        kind: The type of the member.
        value: The value.
        name: The name of the member for messages.
    """
    if isinstance(kind, StructType):
        return as_struct(kind, value)
    if isinstance(kind, MatrixType):
        found = (Vector if len(kind.shape) == 1 else Matrix)(value, scalar_type(kind.dtype))
        if found.shape != kind.shape:
            raise StructError(f"the member {name!r} is {kind}, the value has shape {found.shape}", "give it that shape")
        return found
    if isinstance(value, (Matrix, Struct)) or hasattr(value, "__len__"):
        raise StructError(f"the member {name!r} is one number of {kind}, not {value!r}", "give a number")
    return scalar_type(kind)(value)


def as_struct(kind: StructType, value: Any) -> Struct:
    """Return a struct of this type, made of a struct, a mapping, or a sequence of members in order.

    Missing members are 0.

    Raises:
        StructError: A member is unknown, or does not fit.
    """
    given = value.members if isinstance(value, Struct) else value
    if not isinstance(given, Mapping):
        if not isinstance(given, (list, tuple)) or len(given) > len(kind.members):
            raise StructError(f"{value!r} is no {kind}", f"give {', '.join(kind.names)} by name")
        given = dict(zip(kind.names, given))
    unknown = [name for name in given if name not in kind.names]
    if unknown:
        hint = close_names(str(unknown[0]), list(kind.names)) or f"members: {', '.join(kind.names)}"
        raise StructError(f"{kind} has no member {unknown[0]!r}", hint)
    members = {n: fit(k, given[n], n) if n in given else zero(k) for n, k in kind.members}
    return Struct.of(kind, members)


def zero(kind: Any) -> Any:
    """Return the zero value of a type: the number 0, or a vector, matrix or struct of zeros."""
    if isinstance(kind, StructType):
        return as_struct(kind, {})
    if isinstance(kind, MatrixType):
        return Matrix.zero(scalar_type(kind.dtype), *kind.shape)
    return scalar_type(kind)(0)


def _plain(value: Any) -> Any:
    """Return a copy of a struct member; sequences and mappings become vectors, matrices and structs."""
    if isinstance(value, Matrix):
        return value.copy()
    if isinstance(value, Mapping):
        return Struct(value)
    if isinstance(value, Struct):
        return Struct.of(value.type, {name: _plain(member) for name, member in value.members.items()})
    if hasattr(value, "__len__") and not isinstance(value, str):
        found = Matrix(value)
        return Vector(found) if found.ndim == 1 else found
    return value.item() if hasattr(value, "item") else value


def _kind(name: str, value: Any) -> Any:
    """Return the type of a member's value. Raise StructError if a struct cannot have such a member."""
    if isinstance(value, Struct):
        return value.type
    if isinstance(value, Matrix):
        return MatrixType(value.shape, value.dtype or _number_type(value.data.dtype.kind))
    if isinstance(value, (bool, int, float)):
        return type(value)
    raise StructError(f"the member {name!r} cannot be {value!r}", "members are numbers, vectors, matrices and structs")


def _number_type(kind: str) -> Any:
    return {"f": float, "b": bool}.get(kind, int)


def _listed(value: Any) -> Any:
    return value.entries if isinstance(value, Matrix) else value
