"""Run the frontend, or Python itself, on the text of a program, with fields that are NumPy memory and nothing else."""
from __future__ import annotations

import builtins
import itertools
import linecache
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import math
from ...compiler.frontend.aggregates import MatrixType, NdarrayType
from ...compiler.frontend.functions import EXPORTS
from ...compiler.frontend.infer import FrontendOptions
from ...compiler.frontend.protocols import AnyField, ArgumentArray, ArgumentMatrixArray, LaunchShape
from ...compiler.frontend.trace import Traced, trace
from ...compiler.ir.nodes import Kernel
from ...compiler.ir.types import SCALARS, Scalar
from . import nodes as m
from .source import arrays_given, definitions

TYPES = SimpleNamespace(
    vector=lambda n, dtype: MatrixType((n,), dtype), matrix=lambda n, m, dtype: MatrixType((n, m), dtype),
    ndarray=NdarrayType,
)  # fmt: skip
PACKAGE = SimpleNamespace(**{
    **EXPORTS, **SCALARS, "kernel": lambda function: function, "types": TYPES, "math": math,
    "Vector": SimpleNamespace(stackgrad_constructor="Vector"),
    "Matrix": SimpleNamespace(stackgrad_constructor="Matrix"),
})  # fmt: skip
"""What `sg` means in the text: the functions and types of the language; a kernel stays a plain function."""

_COUNTER = itertools.count()


class MemoryField:
    """The least that the frontend asks of a field; plain Python can index it and loop over it too."""

    is_stackgrad_field = True

    def __init__(self, dtype: Scalar, memory: np.ndarray, needs_grad: bool = False) -> None:
        self.dtype = dtype
        self.shape: tuple[int, ...] = memory.shape
        self.needs_grad = needs_grad
        self.memory = memory
        self.grad = MemoryField(dtype, np.zeros_like(memory)) if needs_grad else None

    def __getitem__(self, index: Any) -> Any:
        return self.memory[() if index is None else index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self.memory[() if index is None else index] = value

    def __iter__(self) -> Iterator[Any]:
        points = itertools.product(*map(range, self.shape))
        return (p[0] for p in points) if len(self.shape) == 1 else points


class MemoryMatrixField:
    """The least that the frontend asks of a field of vectors or matrices."""

    is_stackgrad_matrix_field = True
    element_first = False

    def __init__(self, element: tuple[int, ...], storage: MemoryField) -> None:
        self.element = MatrixType(element, storage.dtype)
        self.storage = storage
        self.shape = storage.shape[: len(storage.shape) - len(element)]
        self.needs_grad = storage.needs_grad
        self.grad = MemoryMatrixField(element, storage.grad) if storage.grad else None


def fields_of(program: m.Program) -> dict[str, MemoryField | MemoryMatrixField]:
    """The fields of a program, filled with its inputs."""
    arrays = program.arrays()
    found = {f: MemoryField(f.dtype, arrays[f.name], f.grad) for f in program.fields}
    return {f.name: MemoryMatrixField(f.element, storage) if f.element else storage for f, storage in found.items()}


def stand_ins(program: m.Program) -> dict[str, AnyField]:
    """What arrays given at the call are while the kernel is traced."""
    found: dict[str, AnyField] = {}
    for slot, field in enumerate(arrays_given(program)):
        shape = LaunchShape(len(field.storage))
        grad = ArgumentArray(field.dtype, shape, False, slot, is_grad=True) if field.grad else None
        array = ArgumentArray(field.dtype, shape, field.grad, slot, grad)
        if field.element:
            found[field.name] = ArgumentMatrixArray(MatrixType(field.element, field.dtype), array)  # type: ignore[assignment]
        else:
            found[field.name] = array  # type: ignore[assignment]  # frozen, where the protocol could be assigned
    return found


def function_of(program: m.Program, fields: Mapping[str, object]) -> Callable[..., None]:
    """The kernel as a plain Python function on these fields; its source can be read until `forget`."""
    text = definitions(program)
    file = f"<program {next(_COUNTER)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"sg": PACKAGE, "__builtins__": builtins, **fields}
    exec(compile(text, file, "exec"), namespace)
    return namespace[program.kernel.name]  # type: ignore[no-any-return]


def forget(function: Callable[..., None]) -> None:
    """Drop the source of a function made by `function_of`."""
    linecache.cache.pop(function.__code__.co_filename, None)


def trace_program(program: m.Program) -> Traced:
    """The program's text through the frontend. Raises what the frontend raises."""
    function = function_of(program, fields_of(program))
    try:
        return trace(function, FrontendOptions(default_fp=program.default_fp), given=stand_ins(program))
    finally:
        forget(function)


def load(program: m.Program) -> tuple[Kernel, dict[str, np.ndarray], dict[str, bool | int | float]]:
    """(kernel of stage source traced by the frontend, new arrays of the inputs by name, arguments by name)."""
    traced = trace_program(program)
    arrays = program.arrays()
    given = {f.name for f in arrays_given(program)}
    memory = {name: arrays[name] if name in given else field.memory for name, field in traced.arrays.items()}  # type: ignore[attr-defined]
    if program.kernel.result is not None:
        memory[m.RESULT] = arrays[m.RESULT]
    return traced.kernel, memory, program.scalars()


def run_python(program: m.Program) -> dict[str, np.ndarray]:
    """The final content of all fields after Python executed the kernel, one without vectors, as a plain function."""
    fields = {name: f for name, f in fields_of(program).items() if isinstance(f, MemoryField)}
    function = function_of(program, fields)
    given = [fields[f.name] for f in arrays_given(program)]
    try:
        function(*(program.scalars()[p.name] for p in program.arguments), *given)
    finally:
        forget(function)
    return {name: field.memory for name, field in fields.items()}
