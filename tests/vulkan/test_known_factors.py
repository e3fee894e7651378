"""Numbers of one bit, made of the index of a loop, as indices of an array with several axes: NVIDIA's driver read
V[i % 2, 0] as V[1, 0] beside y[i, j] (backends/spirv/opaque_values.py).
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
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference.launch import run as interpret

BITS = {
    "i % 2": "%12: i32 = const 2 %13: i32 = mod I, %12",
    "i & 1": "%12: i32 = const 1 %13: i32 = bit_and I, %12",
    "i > 2": "%12: i32 = const 2 %11: u1 = cmp_gt I, %12 %13: i32 = cast %11",
    "min(i, 1)": "%12: i32 = const 1 %13: i32 = min I, %12",
    "i // 3": "%12: i32 = const 3 %13: i32 = floordiv I, %12",
    "i >> 1 & 1": "%11: i32 = const 1 %10: i32 = bit_sar I, %11 %13: i32 = bit_and %10, %11",
    "i64(i) % 2": "%10: i64 = cast I %12: i64 = const 2 %13: i64 = mod %10, %12",
    "i % d": "%12: i32 = arg d %13: i32 = mod I, %12",
    "q[i] & 1": "%12: i32 = load q[I] %11: i32 = const 1 %13: i32 = bit_and %12, %11",
    "i": "%12: i32 = const 1 %13: i32 = mul I, %12",
}
"""Each defines %13, of the index I."""

USES = {
    "V[k, 1]": "%30: i32 = const 1 %20: f32 = load V[%13, %30]",
    "V[k, 0]": "%30: i32 = const 0 %20: f32 = load V[%13, %30]",
    "V[k, k]": "%20: f32 = load V[%13, %13]",
    "V[1, k]": "%30: i32 = const 1 %20: f32 = load V[%30, %13]",
    "U[k, 1, k]": "%30: i32 = const 1 %20: f32 = load U[%13, %30, %13]",
    "U[1, k, 1]": "%30: i32 = const 1 %20: f32 = load U[%30, %13, %30]",
    "C[k, 1] += 1": "%30: i32 = const 1 %31: i32 = atomic add C[%13, %30], %30 %20: f32 = cast %30",
    "i64(k)·n": "%30: i64 = cast %13 %31: i32 = shape V, 0 %32: i64 = cast %31 %33: i64 = mul %30, %32 "
    "%20: f32 = cast %33",
}
"""Each defines %20, of k, which is %13."""


@pytest.fixture(params=[False, True], ids=["as it is", "hidden"])
def device(request: pytest.FixtureRequest, vulkan: VulkanBackend) -> Iterator[VulkanBackend]:
    with with_quirks(vulkan, known_factors=True) if request.param else nullcontext():
        yield vulkan


def kernel_of(bit: str, use: str, axis: int) -> Kernel:
    """Of a box of two axes, with what depends on the index of one."""
    defined = BITS[bit].replace("I", ("%9", "%8")[axis])
    return parse_kernel(
        f"""kernel k(d: i32, q: i32[1], V: f32[2], U: f32[3], C: i32[2], y: f32[2]) {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape y, 0 %2: i32 = shape y, 1 }}
  parallel %9: i32, %8: i32 in %0 .. %1, %0 .. %2 {{ {defined} {USES[use]} store y[%9, %8], %20 }} }}"""
    )


@pytest.mark.rotating
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("bit", BITS)
def test_as_the_reference(device: VulkanBackend, bit: str, axis: int) -> None:
    for use in USES:
        kernel = kernel_of(bit, use, axis)
        ours = {
            "q": np.arange(8, dtype=np.int32),
            "V": np.arange(20, 84, dtype=np.float32).reshape(8, 8),
            "U": np.arange(512, dtype=np.float32).reshape(8, 8, 8),
            "C": np.zeros((8, 8), np.int32),
            "y": np.zeros((6, 5), np.float32),
        }
        theirs = {name: array.copy() for name, array in ours.items()}
        device.compile(kernel, Options(precise=False)).run(ours, {"d": 2}, Sizes(), Draws())
        interpret(kernel, theirs, {"d": 2})
        for name, array in theirs.items():
            np.testing.assert_array_equal(ours[name], array, f"{use} of {bit}: {name}")


ONE_AXIS = """kernel k(x: f32[1], y: f32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape y, 0 } parallel %2: i32 in %0 .. %1 {
    %3: i32 = const 2 %4: i32 = mod %2, %3 %5: f32 = load x[%4] store y[%2], %5 } }"""


@pytest.mark.parametrize(
    ("kernel", "hides"),
    [(kernel_of("i % 2", "V[k, 1]", 0), True), (kernel_of("i", "i64(k)·n", 1), True), (parse_kernel(ONE_AXIS), False)],
)
def test_what_is_hidden(kernel: Kernel, hides: bool) -> None:
    """Factors of products of 64 bits; arrays of one axis have none that is not a constant."""
    without, made = (generate(kernel, Options(), ShaderFeatures(quirks=Quirks(known_factors=k))) for k in (False, True))
    assert (made.words != without.words) == hides
