"""Define fixtures that launch kernels given as IR text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference.launch import LaunchReport, run


@pytest.fixture
def launch() -> Callable[..., LaunchReport]:
    """Return launch(text, x=array, n=3, options...), which parses and runs a kernel and writes arrays in place.

    Options of `launch.run` are given with a leading underscore.
    """

    def call(text: str, **given: Any) -> LaunchReport:
        options = {name[1:]: value for name, value in given.items() if name.startswith("_")}
        given = {name: value for name, value in given.items() if not name.startswith("_")}
        arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
        scalars = {name: value for name, value in given.items() if name not in arrays}
        return run(parse_kernel(text), arrays, scalars, **options)

    return call


@pytest.fixture
def each() -> Callable[[str, str], str]:
    """Return each(params, body), a kernel whose task runs the body for every %0 in 0 .. extent of x."""

    def text(params: str, body: str) -> str:
        return (
            f"kernel f({params}) {{ bounds {{ %90: i32 = const 0 %91: i32 = shape x, 0 }}"
            f" parallel %0: i32 in %90 .. %91 {{ {body} }} }}"
        )

    return text


@pytest.fixture
def silent() -> Iterator[None]:
    """Turn every warning of NumPy into an error."""
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        yield
