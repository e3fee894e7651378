"""Run the frontend, or Python itself, on the text of a program, with fields that are NumPy memory and nothing else."""
from __future__ import annotations

import builtins
import itertools
import linecache
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...compiler.frontend.functions import EXPORTS
from ...compiler.frontend.infer import FrontendOptions
from ...compiler.frontend.trace import Traced, trace
from ...compiler.ir.nodes import Kernel
from ...compiler.ir.types import SCALARS, Scalar
from . import nodes as m
from .source import definitions

PACKAGE = SimpleNamespace(**{**EXPORTS, **SCALARS, "kernel": lambda function: function})
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


def fields_of(program: m.Program) -> dict[str, MemoryField]:
    """The fields of a program, filled with its inputs."""
    arrays = program.arrays()
    return {f.name: MemoryField(f.dtype, arrays[f.name], f.grad) for f in program.fields}


def function_of(program: m.Program, fields: dict[str, MemoryField]) -> Callable[..., None]:
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
        return trace(function, FrontendOptions(default_fp=program.default_fp))
    finally:
        forget(function)


def load(program: m.Program) -> tuple[Kernel, dict[str, np.ndarray], dict[str, bool | int | float]]:
    """(kernel of stage source traced by the frontend, new arrays of the inputs by name, arguments by name)."""
    traced = trace_program(program)
    memory = {name: field.memory for name, field in traced.arrays.items()}  # type: ignore[attr-defined]
    return traced.kernel, memory, program.scalars()


def run_python(program: m.Program) -> dict[str, np.ndarray]:
    """The final content of all fields after Python executed the kernel as an ordinary function."""
    fields = fields_of(program)
    function = function_of(program, fields)
    try:
        function(*(program.scalars()[p.name] for p in program.arguments))
    finally:
        forget(function)
    return {name: field.memory for name, field in fields.items()}
