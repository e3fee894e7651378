"""Run the frontend, or Python itself, on the text of a program, with fields that are NumPy memory and nothing else."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import math
from ...compiler.frontend.aggregates import MatrixType, NdarrayType, StructType, ViewType
from ...compiler.frontend.functions import EXPORTS
from ...compiler.frontend.infer import FrontendOptions
from ...compiler.frontend.trace import Traced, trace
from ...compiler.ir.nodes import Kernel
from ...compiler.ir.types import SCALARS
from . import nodes as m
from .guard import BUILTINS, guarded
from .memory import MemoryField, fields_of, stand_ins
from .source import arrays_given, definitions, viewed


def _dataclass(cls: type) -> StructType:
    return StructType(cls.__name__, tuple(cls.__annotations__.items()))


class _Views:
    def __getitem__(self, dtype: Any) -> ViewType:
        return ViewType(NdarrayType(dtype, 1))


TYPES = SimpleNamespace(
    vector=lambda n, dtype: MatrixType((n,), dtype),
    matrix=lambda n, m, dtype: MatrixType((n, m), dtype),
    ndarray=NdarrayType,
    struct=lambda **members: StructType("", tuple(members.items())),
)
PACKAGE = SimpleNamespace(
    **{
        **EXPORTS,
        **SCALARS,
        "kernel": lambda function: function,
        "types": TYPES,
        "math": math,
        "dataclass": _dataclass,
        "BufferView": _Views(),
        "Vector": SimpleNamespace(stackgrad_constructor="Vector"),
        "Matrix": SimpleNamespace(stackgrad_constructor="Matrix"),
    }
)
"""What `sg` means in the text: the functions and types of the language; a kernel stays a plain function."""

_COUNTER = itertools.count()


def function_of(program: m.Program, fields: Mapping[str, object]) -> Callable[..., None]:
    """The kernel as a plain Python function on these fields; its source can be read until `forget`.

    Only a text that `guarded` lets pass is run, with builtins that open nothing.
    """
    text = definitions(program)
    file = f"<program {next(_COUNTER)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"sg": PACKAGE, "__builtins__": dict(BUILTINS), "__name__": file, **fields}
    exec(compile(guarded(text, file, "sg", fields), file, "exec", dont_inherit=True), namespace)
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
    given = {f.name for f in arrays_given(program)} | {f.name for f, _ in viewed(program)}
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
