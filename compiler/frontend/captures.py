"""Fields that a kernel captures, and their names in the IR.

Invariant: one object has one name, however many Python names it goes by, and the gradient of `x` is always `x.grad`,
so that aliasing between arrays of a kernel is visible from names alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..ir.nodes import ROLES, Atomic, Block, Load, Param, Shape, Stmt, Store
from ..ir.types import ArrayType
from .protocols import FieldLike
from .scope import Namer


@dataclass
class _Capture:
    """A field met in the kernel. `owner`: the field whose gradient it is. `used`: it is indexed or measured."""

    field: FieldLike
    name: str
    owner: _Capture | None = None
    used: bool = False


class Captures:
    """The fields of one kernel."""

    def __init__(self, namer: Namer) -> None:
        self._namer = namer
        self._found: dict[int, _Capture] = {}
        self._gradients: dict[int, FieldLike] = {}
        self._renamed: dict[str, str] = {}

    def array(self, field: FieldLike, hint: str) -> str:
        """The IR name of a field that is read, written or measured."""
        capture = self._capture(field, hint)
        capture.used = True
        return capture.name

    def gradient(self, field: FieldLike, hint: str) -> FieldLike | None:
        """The adjoint field of a field; the same object each time it is asked for."""
        if id(field) not in self._gradients:
            self._capture(field, hint)
        return self._gradients.get(id(field))

    def _capture(self, field: FieldLike, hint: str) -> _Capture:
        found = self._found.get(id(field))
        if found is None:
            found = self._found[id(field)] = _Capture(field, self._namer.unique(hint or "array"))
            self._own_gradient(found)
        return found

    def _own_gradient(self, owner: _Capture) -> None:
        gradient = owner.field.grad
        if gradient is None:
            return
        self._gradients[id(owner.field)] = gradient
        early = self._found.get(id(gradient))
        name = owner.name + ".grad"
        if early is not None:
            self._renamed[early.name] = name
            early.owner = owner
        else:
            self._found[id(gradient)] = _Capture(gradient, name, owner)

    def params(self) -> tuple[Param, ...]:
        """One parameter for each field that is used, in order of appearance."""
        return tuple(Param(self._final(c), _array_type(c.field)) for c in self._found.values() if c.used)

    def objects(self) -> dict[str, object]:
        """The field object behind each parameter."""
        return {self._final(c): c.field for c in self._found.values() if c.used}

    def _final(self, capture: _Capture) -> str:
        return self._renamed.get(capture.name, capture.name)

    def rename(self, block: Block) -> Block:
        """The block with gradients captured before their owners under their final names."""
        return rename_arrays(block, self._renamed) if self._renamed else block


def _array_type(field: FieldLike) -> ArrayType:
    return ArrayType(field.dtype, len(field.shape), bool(field.needs_grad) and field.dtype.is_real)


def rename_arrays(block: Block, names: Mapping[str, str]) -> Block:
    """The block with arrays renamed, nested blocks included."""
    return tuple(_rename(stmt, names) for stmt in block)


def _rename(stmt: Stmt, names: Mapping[str, str]) -> Stmt:
    new: dict[str, Any] = {}
    for name, role in ROLES[type(stmt)]:
        if role == "block":
            new[name] = rename_arrays(getattr(stmt, name), names)
    if isinstance(stmt, (Load, Store, Atomic, Shape)):
        new["array"] = names.get(stmt.array, stmt.array)
    return replace(stmt, **new) if new else stmt
