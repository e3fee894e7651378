"""Struct types from what users write: members by name, checked.

Invariant: Python's float, int and bool stay in a type until a kernel is traced or memory is made, when the defaults of
`sg.init` say what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..compiler.frontend.aggregates import TYPE_ATTRIBUTE, MatrixType, StructType
from ..dtypes import is_default, scalar_type
from ..usage import FieldError, StructError

RESERVED = ("type", "members", "keys", "items", "to_dict", "field", "grad", "dual", "shape")


def struct_type(name: str, members: Mapping[str, Any], methods: Mapping[str, Any]) -> StructType:
    """The frontend's type of a struct. Raises StructError for members that are no types or have reserved names."""
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
    """A scalar type; Python's types stay for the defaults of the time when they are used."""
    return dtype if is_default(dtype) else scalar_type(dtype)
