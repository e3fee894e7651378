"""Trace, print and execute functions over fields of NumPy memory, and compare them with Python."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from recorded_support import near
from stackgrad.compiler.errors import LocatedError
from stackgrad.compiler.frontend.trace import FrontendOptions, Traced, trace
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.compiler.ir.types import Scalar, f64, i32
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.passes.split_tasks import split_tasks
from stackgrad.harness.testing.bounds import run_bounded
from stackgrad.reference.launch import run

DOUBLE = FrontendOptions(default_fp=f64)


class Field:
    """A field with only the attributes that the frontend needs; plain Python can index it and loop over it."""

    is_stackgrad_field = True

    def __init__(self, dtype: Scalar, shape: tuple[int, ...] | int = (), needs_grad: bool = False) -> None:
        self.dtype = dtype
        self.shape = shape if isinstance(shape, tuple) else (shape,)
        self.needs_grad = needs_grad
        self.data = np.zeros(self.shape, dtype.dtype)
        self.grad = Field(dtype, self.shape) if needs_grad else None

    def __getitem__(self, index: Any) -> Any:
        return self.data[() if index is None else index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data[() if index is None else index] = value

    def __iter__(self) -> Iterator[Any]:
        points = itertools.product(*map(range, self.shape))
        return (p[0] for p in points) if len(self.shape) == 1 else points


def real(*values: float, needs_grad: bool = False) -> Field:
    """Return a one-dimensional f32 field with these contents."""
    made = Field(f64, len(values), needs_grad)
    made.data[:] = values
    return made


def integers(*values: int, dtype: Scalar = i32) -> Field:
    """Return a one-dimensional integer field with these contents."""
    made = Field(dtype, len(values))
    made.data[:] = values
    return made


def number(value: int, dtype: Scalar = i32) -> Field:
    """Return a 0-d field that holds this number."""
    made = Field(dtype)
    made.data[()] = value
    return made


def traced(function: Callable[..., Any], options: FrontendOptions = DOUBLE) -> Traced:
    """Trace a function, check the kernel, and return it."""
    made = trace(function, options)
    verify(made.kernel, "source")
    assert parse_kernel(print_kernel(made.kernel)) == made.kernel
    assert set(made.arrays) == set(made.kernel.array_types())
    return made


def text(function: Callable[..., Any], options: FrontendOptions = DOUBLE) -> str:
    """Return the IR text of a function."""
    return print_kernel(traced(function, options).kernel)


def body(function: Callable[..., Any], options: FrontendOptions = DOUBLE) -> str:
    """Return the IR text without the header and the closing brace, dedented."""
    return textwrap.dedent("\n".join(text(function, options).splitlines()[1:-1]))


def check_text(found: str, expected: str) -> None:
    """Compare two texts of several lines, except for the indentation of the literal."""
    assert found.strip() == textwrap.dedent(expected).strip()


def execute(function: Callable[..., Any], *args: Any, options: FrontendOptions = DOUBLE) -> Traced:
    """Run the traced function on the reference, on the memory of its captured fields."""
    made = traced(function, options)
    memory = {k: f.data for k, f in made.arrays.items()}
    run(split_tasks(made.kernel), memory, dict(zip((a.name for a in made.arguments), args)))
    return made


def agree(function: Callable[..., Any], *args: Any, options: FrontendOptions = DOUBLE) -> None:
    """Assert that the kernel writes the same values as the function run by Python."""
    made = traced(function, options)
    before = {k: f.data.copy() for k, f in made.arrays.items()}
    function(*args)
    expected = {k: f.data.copy() for k, f in made.arrays.items()}
    assert any((before[k] != expected[k]).any() for k in before), "the function changes nothing: the test says nothing"
    known = run_bounded(split_tasks(made.kernel), before, dict(zip((a.name for a in made.arguments), args)))
    for name in made.arrays:
        near(known, name, expected[name])


def failure(function: Callable[..., Any], kind: type[LocatedError], options: FrontendOptions = DOUBLE) -> LocatedError:
    """Return the error that tracing raises; assert its class, and a place and cure for each diagnostic."""
    with pytest.raises(LocatedError) as caught:
        trace(function, options)
    error = caught.value
    assert type(error) is kind, error
    for diagnostic in error.diagnostics:
        assert diagnostic.span is not None and diagnostic.cure and diagnostic.reason
    return error


def marked(error: LocatedError, position: int = 0) -> str:
    """Return the source text under the carets of a diagnostic."""
    span = error.diagnostics[position].span
    assert span is not None
    return span.text[span.column : span.end_column]
