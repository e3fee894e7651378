"""This module implements fields and arrays over NumPy memory with only the attributes that the frontend needs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ....compiler.frontend.aggregates import MatrixType, StructType, adjoint_element
from ....compiler.frontend.members import LaunchValue
from ....compiler.frontend.protocols import AnyField, ArgumentArray, ArgumentMatrixArray, LaunchShape, ViewOperand
from ....compiler.ir.types import Scalar, adjoint_type, i32
from . import nodes as m
from .source import arrays_given, viewed_arrays


class MemoryField:
    """Represent a field over NumPy memory with only the attributes that the frontend and plain Python need."""

    is_stackgrad_field = True

    def __init__(
        self, dtype: Scalar, memory: np.ndarray, needs_grad: bool = False, offset: tuple[int, ...] = ()
    ) -> None:
        self.dtype = dtype
        self.offset = offset
        self.shape: tuple[int, ...] = memory.shape
        self.needs_grad = needs_grad
        self.memory = memory
        kept = adjoint_type(dtype)
        self.grad = MemoryField(kept, np.zeros(memory.shape, kept.dtype), offset=offset) if needs_grad else None

    def __getitem__(self, index: Any) -> Any:
        return self.memory[self._place(index)].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self.memory[self._place(index)] = value

    def _place(self, index: Any) -> tuple[int, ...]:
        found = () if index is None else index if isinstance(index, tuple) else (index,)
        return tuple(k - first for k, first in zip(found, self.offset or (0,) * len(found)))

    def __iter__(self) -> Iterator[Any]:
        firsts = self.offset or (0,) * len(self.shape)
        points = itertools.product(*(range(k, k + n) for k, n in zip(firsts, self.shape)))
        return (p[0] for p in points) if len(self.shape) == 1 else points


class MemoryMatrixField:
    """Represent a field of vectors or matrices with only the attributes that the frontend needs."""

    is_stackgrad_matrix_field = True
    element_first = False

    def __init__(self, element: tuple[int, ...], storage: MemoryField) -> None:
        self.element = MatrixType(element, storage.dtype)
        self.storage = storage
        self.shape = storage.shape[: len(storage.shape) - len(element)]
        self.offset = storage.offset
        self.needs_grad = storage.needs_grad
        self.grad = MemoryMatrixField(element, storage.grad) if storage.grad else None


class MemoryStructField:
    """Represent a field of structs with only the attributes that the frontend needs."""

    is_stackgrad_struct_field = True

    def __init__(self, kind: StructType, members: Mapping[str, Any]) -> None:
        self.type = kind
        self.members = members
        first = next(iter(members.values()))
        self.shape: tuple[int, ...] = first.shape
        self.offset: tuple[int, ...] = first.offset
        grads = {name: member.grad for name, member in members.items() if member.grad is not None}
        # The adjoint of a struct has only the members that have a gradient.
        kept = StructType(kind.name, tuple(pair for pair in kind.members if pair[0] in grads))
        self.grad = MemoryStructField(adjoint_element(kept), grads) if grads else None


AnyMemory = MemoryField | MemoryMatrixField | MemoryStructField


def fields_of(program: m.Program) -> dict[str, AnyMemory]:
    """Return the fields of a program by the names that the kernel uses, filled with the inputs."""
    arrays = program.arrays()
    made = {f.name: _memory(f, arrays[f.name]) for f in program.fields}
    roots = {f.owner: f for f in program.fields}
    return {owner: _structs(program, f.struct, owner, made) if f.struct else made[f.name] for owner, f in roots.items()}


def _memory(field: m.Field, memory: np.ndarray) -> AnyMemory:
    if not field.element:
        return MemoryField(field.dtype, memory, field.grad, field.offset)
    return MemoryMatrixField(field.element, MemoryField(field.dtype, memory, field.grad, field.offset))


def _structs(program: m.Program, kind: str, name: str, made: Mapping[str, AnyMemory]) -> AnyMemory:
    members = {
        p.name: _structs(program, p.struct, f"{name}.{p.name}", made) if p.struct else made[f"{name}.{p.name}"]
        for p in program.struct(kind).members
    }
    return MemoryStructField(struct_type(program, kind), members)


def struct_type(program: m.Program, name: str) -> StructType:
    """Return a struct type of the program as a type of the frontend."""
    kind = program.struct(name)
    members = tuple((p.name, struct_type(program, p.struct) if p.struct else _type_of(p)) for p in kind.members)
    return StructType(name if kind.decorated else "", members)


def _type_of(member: m.Param) -> Scalar | MatrixType:
    assert member.dtype is not None
    return MatrixType(member.shape, member.dtype) if member.shape else member.dtype


def stand_ins(program: m.Program) -> dict[str, Any]:
    """Return the stand-ins for array arguments and views, by name.

    Views of the same array share one stand-in of the array, as at a call.
    """
    arrays = [*arrays_given(program), *dict.fromkeys(f for f, _ in viewed_arrays(program))]
    made = {field.name: _stand_in(field, slot) for slot, field in enumerate(arrays)}
    found: dict[str, Any] = {f.name: made[f.name] for f in arrays_given(program)}
    for field, view in viewed_arrays(program):
        found[view.name] = ViewOperand(made[field.name], LaunchValue(i32), LaunchValue(i32), field.name)
    return found


def _stand_in(field: m.Field, slot: int) -> AnyField:
    shape = LaunchShape(len(field.storage))
    grad = ArgumentArray(adjoint_type(field.dtype), shape, False, slot, is_grad=True) if field.grad else None
    array = ArgumentArray(field.dtype, shape, field.grad, slot, grad)
    if field.element:
        return ArgumentMatrixArray(MatrixType(field.element, field.dtype), array)  # type: ignore[return-value]
    # The class is frozen, but the protocol has attributes that could be assigned.
    return array  # type: ignore[return-value]
