"""Run the frontend or plain Python on the text of a program, with fields that are NumPy arrays."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from .... import math
from ....compiler.frontend.aggregates import MatrixType, NdarrayType, StructType, ViewType
from ....compiler.frontend.functions import EXPORTS
from ....compiler.frontend.trace import Traced, trace
from ....compiler.frontend.type_inference import FrontendOptions
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.types import SCALARS
from . import nodes as m
from .guard import BUILTINS, checked_tree
from .memory import MemoryField, fields_of, stand_ins
from .source import arrays_given, definitions, viewed_arrays


def _dataclass(cls: type) -> StructType:
    """Return the struct type that a decorated class of the text declares."""
    return StructType(cls.__name__, tuple(cls.__annotations__.items()))


class _Views:
    """Represent `sg.BufferView` while a program's text is loaded, so that annotations `BufferView[f32]` work."""

    def __getitem__(self, dtype: Any) -> ViewType:
        return ViewType(NdarrayType(dtype, 1))


TYPES = SimpleNamespace(
    vector=lambda n, dtype: MatrixType((n,), dtype),
    matrix=lambda n, m, dtype: MatrixType((n, m), dtype),
    ndarray=NdarrayType,
    struct=lambda **members: StructType("", tuple(members.items())),
)
"""Stand-in for `sg.types` in the text of a program."""
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
"""Stand-in for `sg` in the text of a program.

It has the functions and types of the language; `kernel` returns the plain Python function.
"""

_COUNTER = itertools.count()


def function_of(program: m.Program, fields: Mapping[str, object]) -> Callable[..., None]:
    """Return the kernel as a plain Python function on the given fields.

    Its source can be read until `forget`. Only a text that `checked_tree` accepts is run, with builtins that give
    access to nothing outside.

    Args:
        program: The program to load.
        fields: The objects that the fields' names mean, by name.
    """
    text = definitions(program)
    file = f"<program {next(_COUNTER)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"sg": PACKAGE, "__builtins__": dict(BUILTINS), "__name__": file, **fields}
    exec(compile(checked_tree(text, file, "sg", fields), file, "exec", dont_inherit=True), namespace)
    return namespace[program.kernel.name]  # type: ignore[no-any-return]


def forget(function: Callable[..., None]) -> None:
    """Remove the cached source text of a function that `function_of` made."""
    linecache.cache.pop(function.__code__.co_filename, None)


def trace_program(program: m.Program) -> Traced:
    """Return the result of tracing the text of a program by the frontend.

    Raises:
        Exception: Any error that the frontend raises.
    """
    function = function_of(program, fields_of(program))
    try:
        return trace(function, FrontendOptions(default_fp=program.default_fp), given=stand_ins(program))
    finally:
        forget(function)


def load(program: m.Program) -> tuple[Kernel, dict[str, np.ndarray], dict[str, bool | int | float]]:
    """Return the traced kernel of a program with new arrays and arguments for one launch.

    Returns:
        The kernel of stage `source`, the arrays of the inputs by name, and the arguments by name.
    """
    traced = trace_program(program)
    arrays = program.arrays()
    given = {f.name for f in arrays_given(program)} | {f.name for f, _ in viewed_arrays(program)}
    # An array that is an argument is traced without memory, so the inputs give its content.
    memory = {name: arrays[name] if name in given else field.memory for name, field in traced.arrays.items()}  # type: ignore[attr-defined]
    if program.kernel.result is not None:
        memory[m.RESULT] = arrays[m.RESULT]
    return traced.kernel, memory, program.scalars()


def run_python(program: m.Program) -> dict[str, np.ndarray]:
    """Run the kernel as a plain Python function and return the final contents of all fields.

    The kernel must not use vectors, matrices or structs.
    """
    fields = {name: f for name, f in fields_of(program).items() if isinstance(f, MemoryField)}
    function = function_of(program, fields)
    given = [fields[f.name] for f in arrays_given(program)]
    try:
        function(*(program.scalars()[p.name] for p in program.arguments), *given)
    finally:
        forget(function)
    return {name: field.memory for name, field in fields.items()}
