"""Subnormal f32, bit by bit as the reference has them: on the device as it is, and with shaders for one that may take
them for zeros (backends/spirv/subnormals.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest
from quirks_support import with_quirks
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.spirv.emit import ShaderFeatures
from stackgrad.backends.spirv.quirks import Quirks
from stackgrad.backends.spirv.shaders import generate
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference.launch import run as interpret

NUMBERS = (
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    1e-40,
    -1e-40,
    1.1754942e-38,
    -1.1754942e-38,
    1.17549435e-38,
    -1.17549435e-38,
    2e-38,
    1.0,
    -1.0,
    3e38,
    np.inf,
    -np.inf,
    np.nan,
)
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
ZERO, ONE = "%6: f32 = const 0", "%6: f32 = const 1"

EXACT = {
    **{f"x {op} y": f"%7: u1 = cmp_{op} %3, %4 %5: f32 = cast %7" for op in COMPARISONS},
    **{f"x {op} 0": f"{ZERO} %7: u1 = cmp_{op} %3, %6 %5: f32 = cast %7" for op in COMPARISONS},
    **{f"0 {op} x": f"{ZERO} %7: u1 = cmp_{op} %6, %3 %5: f32 = cast %7" for op in COMPARISONS},
    **{f"x {op} 1e-45": f"%6: f32 = const 1e-45 %7: u1 = cmp_{op} %3, %6 %5: f32 = cast %7" for op in COMPARISONS},
    **{op: f"%5: f32 = {op} %3" for op in ("neg", "abs", "sgn", "floor", "ceil", "round", "sqrt")},
    **{op: f"%5: f32 = {op} %3, %4" for op in ("add", "sub", "mul", "div", "min", "max")},
    "truth": "%7: u1 = cast %3 %5: f32 = cast %7",
    "widened": "%6: f64 = cast %3 %7: f64 = const 1024 %8: f64 = mul %6, %7 %5: f32 = cast %8",
    "narrowed": "%6: f64 = cast %3 %7: f64 = const 0.7 %8: f64 = mul %6, %7 %5: f32 = cast %8",
    "of a half": "%6: f16 = cast %3 %7: f32 = cast %6 %5: f32 = add %7, %7",
    "to the least": "%6: f64 = const 1.2e-45 %7: f64 = cast %4 %8: f64 = mul %6, %7 %5: f32 = cast %8",
}
"""Each defines %5 of x, %3, and y, %4; operations that are rounded correctly."""

NEAR = {op: f"%5: f32 = {op} %3" for op in ("sin", "tan", "asin", "atan2", "tanh", "exp", "log")}
NEAR["atan2"] = "%5: f32 = atan2 %3, %4"


@pytest.fixture(params=[False, True], ids=["as it is", "flushes"])
def device(request: pytest.FixtureRequest, vulkan: VulkanBackend) -> Iterator[VulkanBackend]:
    with with_quirks(vulkan, flushes=True) if request.param else nullcontext():
        yield vulkan


def results(device: VulkanBackend, body: str, precise: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, what the device makes of all pairs, what the reference does)."""
    kernel = parse_kernel(
        f"""kernel k(x: f32[1], y: f32[1], z: f32[1]) {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
    %3: f32 = load x[%2] %4: f32 = load y[%2] {body} store z[%2], %5 }} }}"""
    )
    x, y = (a.ravel() for a in np.meshgrid(np.array(NUMBERS, np.float32), np.array(NUMBERS, np.float32)))
    ours = {"x": x, "y": y, "z": np.full_like(x, 7.0)}
    theirs = {name: array.copy() for name, array in ours.items()}
    device.compile(kernel, Options(precise=precise)).run(ours, {}, Sizes(), Draws())
    with np.errstate(all="ignore"):
        interpret(kernel, theirs, {})
    return x, ours["z"], theirs["z"]


@pytest.mark.rotating
@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("use", EXACT)
def test_rounded_operations(device: VulkanBackend, use: str, precise: bool) -> None:
    x, ours, theirs = results(device, EXACT[use], precise)
    same = (ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))
    assert same.all(), [(a, b, c) for a, b, c, good in zip(x, ours, theirs, same) if not good][:5]


@pytest.mark.rotating
@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("use", NEAR)
def test_a_subnormal_argument_is_no_zero(device: VulkanBackend, use: str, precise: bool) -> None:
    """Of functions that are near their argument there, within a place; log tells it from 0."""
    x, ours, theirs = results(device, NEAR[use], precise)
    small = (x != 0) & (np.abs(x) < 2.0**-126)
    ours, theirs = ours[small], theirs[small]
    finite = np.isfinite(theirs)
    np.testing.assert_array_max_ulp(ours[finite], theirs[finite], 4)
    assert (np.isnan(ours) == np.isnan(theirs)).all() and (np.isinf(ours) == np.isinf(theirs)).all()


def test_what_is_compared_with_a_normal_number_needs_nothing() -> None:
    """A threshold costs what it costs elsewhere."""
    threshold, order = (
        parse_kernel(
            f"""kernel k(x: f32[1], y: f32[1], z: u1[1]) {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
    %3: f32 = load x[%2] {other} %5: u1 = cmp_lt %3, %4 store z[%2], %5 }} }}"""
        )
        for other in ("%4: f32 = const 0.25", "%4: f32 = load y[%2]")
    )
    for kernel, same in ((threshold, True), (order, False)):
        plain, made = (
            generate(kernel, Options(), ShaderFeatures(quirks=quirks)).words
            for quirks in (Quirks(), Quirks(flushes=True))
        )
        assert (plain == made) == same
