"""Define kernels in IR text that the tests of the runtime launch."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import stackgrad as sg


def over_array(name: str, params: str, array: str, body: str) -> str:
    """Return a kernel of one parallel task over the elements of a one-dimensional array; %2 is the index."""
    head = f"kernel {name}({params}) {{\n  bounds {{\n    %0: i32 = const 0\n    %1: i32 = shape {array}, 0\n"
    return head + "  } parallel %2: i32 in %0 .. %1 {\n" + textwrap.indent(body, "    ") + "\n  }\n}\n"


SQUARE = over_array(
    "square",
    "a: f64[1] grad, y: f64[1] grad",
    "a",
    """\
%3: f64 = load a[%2]
%4: f64 = mul %3, %3
store y[%2], %4""",
)
"""y[i] = a[i]**2; its gradient reads a."""

TOTAL = over_array(
    "total",
    "y: f64[1] grad, loss: f64[0] grad",
    "y",
    """\
%3: f64 = load y[%2]
%4: f64 = atomic add loss[], %3""",
)
"""loss += sum(y); its gradient reads nothing."""

SHIFT = over_array(
    "shift",
    "a: f64[1] grad, by: f64",
    "a",
    """\
%3: f64 = load a[%2]
%4: f64 = arg by
%5: f64 = add %3, %4
store a[%2], %5""",
)
"""a[i] += by, in place; its gradient reads nothing."""

POWER = over_array(
    "power",
    "x: f64[1] grad, n: i32[0], y: f64[1] grad",
    "x",
    """\
%3: f64 = load x[%2]
%4: i32 = const 0
%5: i32 = load n[]
local v: f64
set v, %3
for %6: i32 in %4 .. %5 {
  %7: f64 = get v
  %8: f64 = sin %7
  set v, %8
}
%9: f64 = get v
store y[%2], %9""",
)
"""y[i] = sin applied n times to x[i]; its gradient keeps n values of each iteration."""

RANDOM = over_array(
    "noise",
    "x: f64[1] grad, y: f64[1] grad, s: i32",
    "x",
    """\
%3: f64 = load x[%2]
%4: f64 = random
%5: f64 = mul %3, %4
store y[%2], %5""",
)
"""y[i] = x[i] * u, u random; s tells launches apart."""

LOOKUP = over_array(
    "lookup",
    "a: f64[1], at: i32",
    "a",
    """\
%3: i32 = arg at
%4: f64 = load a[%3]
store a[%2], %4""",
)
"""a[i] = a[at]; traps if `at` is outside."""

TYPES = """kernel types(flag: u1, k: u8, n: i64, h: f16, out: f64[1]) {
  serial {
    %0: u1 = arg flag
    %1: f64 = cast %0
    %2: i32 = const 0
    store out[%2], %1
    %3: u8 = arg k
    %4: f64 = cast %3
    %5: i32 = const 1
    store out[%5], %4
    %6: i64 = arg n
    %7: f64 = cast %6
    %8: i32 = const 2
    store out[%8], %7
    %9: f16 = arg h
    %10: f64 = cast %9
    %11: i32 = const 3
    store out[%11], %10
  }
}
"""
"""Writes each of its scalar arguments to an element of `out`."""


class Program:
    """Represent a program with loss = sum(y) and y = a**2 over three elements."""

    def __init__(self) -> None:
        self.a, self.y = (sg.field(sg.f64, 3, needs_grad=True, name=n) for n in "ay")
        self.loss = sg.field(sg.f64, (), needs_grad=True, name="loss")
        self.a.from_numpy([1.0, 2.0, 3.0])
        square, total, shift = (sg.kernel_from_text(text) for text in (SQUARE, TOTAL, SHIFT))
        self.square: Callable[[], None] = lambda: square(a=self.a, y=self.y)
        self.total: Callable[[], None] = lambda: total(y=self.y, loss=self.loss)
        self.shift: Callable[[float], None] = lambda by: shift(a=self.a, by=by)
        self.square_grad: Callable[[], None] = lambda: square.grad(a=self.a, y=self.y)

    def gradient(self) -> list[float]:
        values: list[float] = self.a.grad.to_numpy().tolist()
        return values
