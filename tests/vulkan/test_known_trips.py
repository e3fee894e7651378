"""Loops that end where a number reaches the larger of another and its negative: NVIDIA's driver ran
`while n < abs(w - i)` once, or any number of times (backends/spirv/opaque_values.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from known_support import Recorded, fields, recorded
from quirks_support import with_quirks
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.spirv.decode import instructions
from stackgrad.backends.spirv.emit import ShaderFeatures
from stackgrad.backends.spirv.quirks import Quirks
from stackgrad.backends.spirv.shaders import generate
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.driver import prepare_forward
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference.launch import run as interpret

__all__ = ["recorded"]

DISTANCES = {
    "abs": "%10: T = sub %9, %7 %11: T = abs %10",
    "max": "%10: T = sub %9, %7 %12: T = neg %10 %11: T = max %10, %12",
    "select": "%10: T = sub %9, %7 %12: T = neg %10 %13: u1 = cmp_lt %10, %12 %11: T = select %13, %12, %10",
    "difference": "%11: T = sub %9, %7",
}
"""Each defines %11, of %9 and the index %7."""

LESS = "%20: T = get n %21: u1 = cmp_lt %20, %11"
STEP = "%30: T = get n %31: T = const 1 %32: T = add %30, %31 set n, %32"
WAYS = {
    "n < E": f"while {{ D {LESS} }} test %21 {{ {STEP} }}",
    "n + 1 <= E": f"while {{ D %22: T = get n %23: T = const 1 %20: T = add %22, %23 %21: u1 = cmp_le %20, %11 }} "
    f"test %21 {{ {STEP} }}",
    "E > n": f"while {{ D %20: T = get n %21: u1 = cmp_gt %11, %20 }} test %21 {{ {STEP} }}",
    "E before": f"D while {{ {LESS} }} test %21 {{ {STEP} }}",
    "n < E and n < 4": f"while {{ D {LESS} %22: T = const 4 %23: u1 = cmp_lt %20, %22 "
    f"%24: u1 = logical_and %21, %23 }} test %24 {{ {STEP} }}",
    "n < E or n < 2": f"while {{ D {LESS} %22: T = const 2 %23: u1 = cmp_lt %20, %22 "
    f"%24: u1 = logical_or %21, %23 }} test %24 {{ {STEP} }}",
    "not n >= E": f"while {{ D %20: T = get n %22: u1 = cmp_ge %20, %11 %23: u1 = const false "
    f"%21: u1 = cmp_eq %22, %23 }} test %21 {{ {STEP} }}",
    "break": f"while {{ %24: u1 = const true }} test %24 {{ D %20: T = get n %22: u1 = cmp_ge %20, %11 "
    f"if %22 {{ break 1 }} {STEP} }}",
    "break from 0 .. 9": f"%24: T = const 0 %25: T = const 9 for %26: T in %24 .. %25 {{ D %22: u1 = cmp_ge %26, %11 "
    f"if %22 {{ break 1 }} {STEP} }}",
    "0 .. E": f"D %24: T = const 0 for %25: T in %24 .. %11 {{ {STEP} }}",
}
"""Each adds 1 to n for each trip. D: what defines %11."""

UNHIDDEN = ("0 .. E",)
"""Those whose trips are a number that is computed before the loop."""


@pytest.fixture(params=[False, True], ids=["as it is", "hidden"])
def device(request: pytest.FixtureRequest, vulkan: VulkanBackend) -> Iterator[VulkanBackend]:
    with with_quirks(vulkan, known_trips=True) if request.param else nullcontext():
        yield vulkan


def kernel_of(distance: str, way: str, word: str) -> Kernel:
    """Stores the trips of each iteration of a box of two axes."""
    loop = WAYS[way].replace("D ", DISTANCES[distance] + " ")
    text = f"""kernel k(w: T, y: T[2]) {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape y, 0 %2: i32 = shape y, 1 }}
  parallel %4: i32, %5: i32 in %0 .. %1, %0 .. %2 {{
    %7: T = CAST %9: T = arg w local n: T {loop} %40: T = get n store y[%4, %5], %40 }} }}"""
    text = text.replace("CAST", "cast %4" if word == "i64" else "bit_or %4, %0")
    return prepare_forward(parse_kernel(text.replace("T", word))).kernel


@pytest.mark.rotating
@pytest.mark.parametrize("word", ["i32", "i64"])
@pytest.mark.parametrize("way", WAYS)
def test_as_the_reference(device: VulkanBackend, way: str, word: str) -> None:
    for distance in DISTANCES:
        kernel = kernel_of(distance, way, word)
        made = device.compile(kernel, Options(precise=False))
        for w in (3, 4, 5):
            ours = {"y": np.zeros((6, 2), word.replace("i", "int"))}
            theirs = {"y": ours["y"].copy()}
            made.run(ours, {"w": w}, Sizes(), Draws())
            interpret(kernel, theirs, {"w": w})
            assert len(np.unique(theirs["y"])) > 1
            np.testing.assert_array_equal(ours["y"], theirs["y"], f"{way}, E: {distance} of {w}")


def hidden_ends(kernel: Kernel, known_trips: bool, **features: bool) -> list[bool]:
    """Of each branch out of a loop of the last function: whether it goes by a word that was hidden."""
    made = generate(kernel, Options(), ShaderFeatures(quirks=Quirks(known_trips=known_trips), **features))
    found: list[bool] = []
    by_id: dict[int, tuple[str, list[int]]] = {}
    leaves: set[int] = set()
    for name, operands in instructions(made.words):
        if name == "Function":
            found, leaves = [], set()
        elif name == "LoopMerge":
            leaves.add(operands[0])
        elif name == "BranchConditional" and leaves & set(operands[1:]):
            test = by_id[operands[0]]
            found.append(test[0] == "INotEqual" and by_id[test[1][2]][0] == "BitwiseXor")
        elif len(operands) > 1:
            by_id[operands[1]] = name, operands
    return found


@pytest.mark.parametrize("features", [{}, {"buffer_addresses": False}, {"int64": False}], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_hidden(way: str, features: dict[str, bool]) -> None:
    """The test, or the break, of the loop; not what ends the loop over iterations, nor a number of trips."""
    kernel = kernel_of("abs", way, "i32")
    with_it, without = (hidden_ends(kernel, known, **features) for known in (True, False))
    assert sum(with_it) == (way not in UNHIDDEN) and not any(without)


def test_sweeps_stay_as_they_are() -> None:
    """Loops over a number of trips cost no instruction more."""
    kernel = kernel_of("abs", "0 .. E", "i32")
    with_it, without = (
        generate(kernel, Options(), ShaderFeatures(quirks=Quirks(known_trips=known))).words for known in (True, False)
    )
    assert with_it == without


def by_abs(x, y, w):
    @sg.kernel
    def k():
        for i, j in y:
            v = x[i]
            n = 0
            while n < abs(w[i] - i):
                n += 1
                v = v * sg.cos(v)
            y[i, j] += v * (1.0 + j)

    return k


def by_max(x, y, w):
    @sg.kernel
    def k():
        for i, j in y:
            v = x[i]
            n = 0
            while n + 1 <= max(w[i] - i, i - w[i]) and v > -4.0:
                n += 1
                v = v * sg.cos(v)
            y[i, j] += v * (1.0 + j)

    return k


def by_break(x, y, w):
    @sg.kernel
    def k():
        for i, j in y:
            v = x[i]
            n = 0
            while True:
                if n >= abs(w[i] - i):
                    break
                n += 1
                v = v * sg.cos(v)
            y[i, j] += v * (1.0 + j)

    return k


@pytest.mark.rotating
@pytest.mark.parametrize("make", [by_abs, by_max, by_break])
def test_gradients(device: VulkanBackend, recorded: Recorded, make: Callable[..., Any]) -> None:
    """Trips counted forward are those that the gradient goes back."""
    x, y = fields(7, (7, 3))
    w = sg.field(sg.i32, shape=7)
    kernel = make(x, y, w)
    start, numbers = 0.25 + 0.125 * np.arange(7), np.array([3, 1, 2, 7, 0, 4, 5], np.int32)
    x.from_numpy(start)
    w.from_numpy(numbers)
    kernel()
    y.grad.fill(1.0)
    kernel.grad()
    value, slope = start.copy(), np.ones(7)
    trips = np.abs(numbers - np.arange(7))
    for step in range(trips.max()):
        goes = step < trips
        slope = np.where(goes, slope * (np.cos(value) - value * np.sin(value)), slope)
        value = np.where(goes, value * np.cos(value), value)
    recorded.near("y", np.outer(value, [1.0, 2.0, 3.0]))
    recorded.near("x.grad", 6.0 * slope)
    recorded.all_near()
