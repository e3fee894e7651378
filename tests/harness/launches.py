"""Make recorded launches by hand, and executors that are wrong in a known way."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from stackgrad.backends.base import Draws
from stackgrad.compiler.driver import prepare_forward
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.executors import LaunchExecutor
from stackgrad.harness.testing.outcome import Arrays
from stackgrad.reference.launch import run


@dataclass(frozen=True)
class Launch:
    """Represent a recorded launch that a test makes by hand."""

    kernel: Kernel
    kind: str
    scalars: Mapping[str, Any]
    draws: Draws
    before: Mapping[str, np.ndarray]
    after: Mapping[str, np.ndarray]
    error: str | None = None


def recorded(kernel: Kernel, arrays: Arrays, draws: Draws = Draws(), **scalars: Any) -> Launch:  # noqa: B008
    """Return a recorded forward launch of this kernel, run on the reference."""
    after = {name: array.copy() for name, array in arrays.items()}
    run(prepare_forward(kernel).kernel, after, scalars, draws=draws)
    return Launch(kernel, "forward", scalars, draws, arrays, after)


def over(params: str, body: str, name: str = "k", array: str = "x") -> Kernel:
    """Return a kernel of one parallel task over an array; %2 is the index, %0 is 0."""
    head = f"kernel {name}({params}) {{\n  bounds {{\n    %0: i32 = const 0\n    %1: i32 = shape {array}, 0\n"
    return parse_kernel(head + "  } parallel %2: i32 in %0 .. %1 {\n" + textwrap.indent(body, "    ") + "\n  }\n}\n")


def pointwise(body: str, dtype: str = "f64", name: str = "k") -> Kernel:
    """Return a kernel y[i] = %9, computed from %3 = x[i] by `body`, in which T stands for the dtype."""
    text = f"%3: T = load x[%2]\n{textwrap.dedent(body).strip()}\nstore y[%2], %9"
    return over("x: T[1] grad, y: T[1] grad".replace("T", dtype), text.replace("T", dtype), name)


def of(values: Any, dtype: str = "f64") -> dict[str, np.ndarray]:
    """Return arrays for the kernels of `pointwise`."""
    x = np.array(values, {"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype])
    return {"x": x, "y": np.zeros_like(x)}


SINES = """\
local v: T
set v, %3
%4: i32 = const 0
%5: i32 = const 5
for %6: i32 in %4 .. %5 {
  %7: T = get v
  %8: T = sin %7
  set v, %8
}
%9: T = get v"""
"""sin, five times: its gradient keeps a history."""

RELU = """\
%4: T = const 0.0
%9: T = max %3, %4"""


@dataclass
class Spoiled(LaunchExecutor):
    """Represent an executor whose results, in one direction, are changed by the function `spoil`."""

    direction: str = "reverse"
    spoil: Callable[[Arrays], Arrays] = field(default=lambda arrays: arrays)

    def forward(self, *args: Any) -> Arrays:
        found = super().forward(*args)
        return self.spoil(found) if self.direction == "forward" else found

    def gradient(self, *args: Any) -> Arrays:
        found = super().gradient(*args)
        return self.spoil(found) if self.direction == "reverse" else found


@dataclass
class Silent:
    """Represent an oracle that fails the test if it is asked."""

    name: str = "jax"
    seconds: float | None = None
    reason: str = "absent"

    def supports(self, kernel: Kernel) -> str | None:
        return self.reason

    def forward(self, *args: Any) -> Arrays:
        raise AssertionError("asked")

    def gradient(self, *args: Any) -> Arrays:
        raise AssertionError("asked")
