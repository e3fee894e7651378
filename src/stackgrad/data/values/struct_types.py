"""Make struct types from the members and methods that a user declares, after checking them.

Invariant: a struct type keeps Python's float, int and bool until a kernel is traced or memory is allocated, because the
options of `sg.init` decide what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...compiler.frontend.aggregates import TYPE_ATTRIBUTE, MatrixType, StructType
from ...runtime.usage_errors import FieldError, StructError
from ..dtypes import is_default, scalar_type

RESERVED = ("type", "members", "keys", "items", "to_dict", "field", "grad", "dual", "shape")
"""Names that a member cannot have, because structs or their fields use them."""


def struct_type(name: str, members: Mapping[str, Any], methods: Mapping[str, Any]) -> StructType:
    """Return the compiler frontend's type for a struct with these members and methods.

    Args:
        name: The name of the type.
        members: The type of each member by name.
        methods: The functions that become methods of the structs, by name.

    Raises:
        StructError: A member is no type, or has a reserved name.
    """
    found = []
    for member, kind in members.items():
        if member in RESERVED or not member.isidentifier() or member.startswith("__"):
            raise StructError(f"a member cannot be called {member!r}", "give it another name")
        try:
            found.append((member, _member_type(kind)))
        except FieldError as problem:
            raise StructError(f"the member {member!r}: {problem.reason}", problem.cure) from None
    return StructType(name, tuple(found), dict(methods))


def _member_type(kind: Any) -> Any:
    carried = getattr(kind, TYPE_ATTRIBUTE, kind)
    return carried if isinstance(carried, (MatrixType, StructType)) else element_type(carried)


def element_type(dtype: Any) -> Any:
    """Return the scalar type for a dtype; Python's float, int and bool are returned unchanged."""
    return dtype if is_default(dtype) else scalar_type(dtype)
