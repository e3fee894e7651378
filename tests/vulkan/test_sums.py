"""Sums of many threads into one element: few updates, the right ones, and none where there was none to make."""

from __future__ import annotations

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.spirv.decode import instructions
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.errors import AdstackOverflow
from stackgrad.compiler.ir.parser import parse_kernel

OPS = {"add": np.sum, "min": np.min, "max": np.max}


def reduction(op: str, t: str) -> str:
    return f"""kernel k(x: {t}[1], y: {t}[1]) {{
      bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
        %3: {t} = load x[%2] %4: i32 = const 1 %5: {t} = atomic {op} y[%4], %3 }} }}"""


def values(t: str, count: int) -> np.ndarray:
    """Numbers whose sums are exact."""
    dtype = np.dtype({"f": "float", "i": "int", "u": "uint"}[t[0]] + t[1:])
    return (np.random.default_rng(5).integers(0, 900, count) - (0 if t[0] == "u" else 400)).astype(dtype)


@pytest.fixture(scope="module", params=["", "subgroups", "wide_subgroups"])
def masked(vulkan: VulkanBackend, request: pytest.FixtureRequest) -> VulkanBackend:
    """The device, and the same without what adds up the threads of a subgroup."""
    return VulkanBackend((request.param,)) if request.param else vulkan


@pytest.mark.parametrize(
    ("op", "t"),
    [("add", "f32"), ("add", "f64"), ("add", "i32"), ("add", "i64"), ("max", "u64"), ("min", "i32"), ("max", "f32")],
)
def test_against_numpy(masked: VulkanBackend, op: str, t: str) -> None:
    """Counts below, at and above a subgroup, a workgroup, and all threads of a launch."""
    made = masked.compile(parse_kernel(reduction(op, t)), Options())
    for count in (0, 1, 7, 64, 65, 5000):
        x, y = values(t, count), values(t, 3)
        expected = y.copy()
        expected[1] = OPS[op]([expected[1], *x])
        made.run({"x": x, "y": y}, {}, Sizes(), Draws())
        np.testing.assert_array_equal(y, expected)


def test_one_update_for_a_subgroup(vulkan: VulkanBackend) -> None:
    def names(backend: VulkanBackend, t: str) -> set[str]:
        made = backend.compile(parse_kernel(reduction("add", t)), Options())
        return {name for name, _ in instructions(made.shaders.words) if name.startswith("GroupNonUniform")}

    found = vulkan.features
    assert found.subgroups, "lavapipe has them"
    assert names(vulkan, "f32") == {"GroupNonUniformFAdd", "GroupNonUniformElect"}
    assert names(vulkan, "i64") == ({"GroupNonUniformIAdd", "GroupNonUniformElect"} if found.wide_subgroups else set())
    assert not names(VulkanBackend(("subgroups",)), "f32")


def test_no_update_where_none_was_made(vulkan: VulkanBackend) -> None:
    """Of an element that is not there, and of a zero whose sign another zero would change."""
    text = """kernel k(x: f32[1], y: f32[1], at: i32) {
      bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
        %3: f32 = load x[%2] %4: i32 = arg at %5: f32 = const 0.5 %6: u1 = cmp_gt %3, %5
        if %6 { %7: f32 = atomic add y[%4], %3 } } }"""
    made = vulkan.compile(parse_kernel(text), Options())
    y = np.array([-0.0, 1.0], np.float32)
    for at in (0, 1 << 20):
        made.run({"x": np.zeros(300, np.float32), "y": y}, {"at": np.int32(at)}, Sizes(), Draws())
    assert np.signbit(y[0]) and y[1] == 1.0


def test_a_thread_that_fails_holds_no_other_up(vulkan: VulkanBackend) -> None:
    """One iteration overflows its stack; the launch ends and says so, and the next one is right."""
    text = """kernel k(x: i32[1], y: f32[1]) {
      bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
        adstack_alloca s: f32 capacity 4
        %3: i32 = load x[%2] %4: i32 = const 0 %5: f32 = const 1.5
        for %6: i32 in %4 .. %3 { adstack_push s, %5 }
        %7: f32 = adstack_load_top s %8: f32 = atomic add y[%4], %7 } }"""
    made = vulkan.compile(parse_kernel(text), Options())
    x, y = np.full(500, 3, np.int32), np.zeros(1, np.float32)
    x[77] = 9
    with pytest.raises(AdstackOverflow):
        made.run({"x": x, "y": y}, {}, Sizes(), Draws())
    x[77], y[0] = 3, 0
    made.run({"x": x, "y": y}, {}, Sizes(), Draws())
    assert y[0] == 750.0


def test_deterministic_sums_are_made_in_order(vulkan: VulkanBackend) -> None:
    """One thread does what another order would show; the bits are those of a loop."""
    x = np.random.default_rng(3).normal(size=3000).astype(np.float32)
    expected = np.float32(0)
    for number in x:
        expected = np.float32(expected + number)
    made = vulkan.compile(parse_kernel(reduction("add", "f32")), Options(deterministic=True))
    for _ in range(3):
        y = np.zeros(2, np.float32)
        made.run({"x": x, "y": y}, {}, Sizes(), Draws())
        assert y[1] == expected
