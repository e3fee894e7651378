"""This module records the fields that a kernel reads or writes, and their names in the IR.

Invariant: one object has one name, however many Python names refer to it, and the gradient of `x` is always `x.grad`.
Names alone therefore show which arrays of a kernel are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..ir.kernels import Param
from ..ir.nodes import ROLES
from ..ir.roles import ARRAY_USES
from ..ir.statement import Block, Stmt
from ..ir.types import ArrayType
from .protocols import ArgumentArray, FieldLike
from .reads import PartRead, Read
from .scope import Namer


@dataclass
class _CapturedField:
    """Represent a field that the kernel uses, with its name in the IR.

    Attributes:
        field: the field.
        name: its name in the IR.
        owner: the captured field whose gradient this field is, or None if it is no gradient.
        used: True if the field is indexed or its shape is read.
    """

    field: FieldLike
    name: str
    owner: _CapturedField | None = None
    used: bool = False


class CapturedFields:
    """Collect the fields that one kernel uses while it is traced, and name them in the IR."""

    def __init__(self, namer: Namer) -> None:
        self._namer = namer
        self._found: dict[int, _CapturedField] = {}
        self._gradients: dict[int, FieldLike] = {}
        self._renamed: dict[str, str] = {}

    def array(self, field: FieldLike, hint: str) -> str:
        """Return the IR name of a field that the kernel reads, writes or takes the shape of.

        Args:
            field: the field.
            hint: Python name from which the IR name is made.
        """
        capture = self._capture(field, hint)
        capture.used = True
        return capture.name

    def gradient(self, field: FieldLike, hint: str) -> FieldLike | None:
        """Return the gradient field of a field, always the same object, or None if the field has no gradient."""
        if id(field) not in self._gradients:
            self._capture(field, hint)
        return self._gradients.get(id(field))

    def _capture(self, field: FieldLike, hint: str) -> _CapturedField:
        found = self._found.get(id(field))
        if found is None:
            found = self._found[id(field)] = _CapturedField(field, self._namer.unique(hint or "array"))
            self._own_gradient(found)
        return found

    def _own_gradient(self, owner: _CapturedField) -> None:
        """Record the gradient of a field under the field's IR name with the suffix `.grad`.

        A gradient that was captured before its owner has a name of its own, which is replaced at the end.
        """
        gradient = owner.field.grad
        if gradient is None:
            return
        self._gradients[id(owner.field)] = gradient
        early = self._found.get(id(gradient))
        name = owner.name + ".grad"
        if early is not None:
            # The statements emitted so far use the early name; `rename` corrects them at the end.
            self._renamed[early.name] = name
            early.owner = owner
        else:
            self._found[id(gradient)] = _CapturedField(gradient, name, owner)

    def params(self) -> tuple[Param, ...]:
        """Return one kernel parameter for each field that is used, in order of first use."""
        return tuple(Param(self._final(c), _array_type(c.field)) for c in self._found.values() if c.used)

    def objects(self) -> dict[str, object]:
        """Return a mapping from the name of each parameter to its field object."""
        return {self._final(c): c.field for c in self._found.values() if c.used}

    def reads(self) -> list[Read]:
        """Return a guard for each field that the kernel uses, which fails if, say, the field gets a gradient later.

        The stand-in for an array argument has no guard, because each launch compares type and rank of its arrays
        anyway.
        """
        fields = [c.field for c in self._found.values() if not isinstance(c.field, ArgumentArray)]
        return [PartRead(field, "form", _form, _form(field)) for field in fields]

    def _final(self, capture: _CapturedField) -> str:
        return self._renamed.get(capture.name, capture.name)

    def rename(self, block: Block) -> Block:
        """Return the block with final array names for gradients that were recorded before their fields."""
        return rename_arrays(block, self._renamed) if self._renamed else block


def _form(field: FieldLike) -> tuple[Any, ...]:
    return field.dtype, bool(field.needs_grad)


def _array_type(field: FieldLike) -> ArrayType:
    return ArrayType(field.dtype, len(field.shape), bool(field.needs_grad) and field.dtype.is_real)


def rename_arrays(block: Block, names: Mapping[str, str]) -> Block:
    """Return the block with arrays renamed, also in nested blocks."""
    return tuple(_rename(stmt, names) for stmt in block)


def _rename(stmt: Stmt, names: Mapping[str, str]) -> Stmt:
    new: dict[str, Any] = {}
    for name, role in ROLES[type(stmt)]:
        if role == "block":
            new[name] = rename_arrays(getattr(stmt, name), names)
    if isinstance(stmt, ARRAY_USES):
        new["array"] = names.get(stmt.array, stmt.array)
    return replace(stmt, **new) if new else stmt
