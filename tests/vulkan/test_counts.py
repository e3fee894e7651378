"""Iterations that the host knows before a launch, and devices to choose from: no device is needed."""

from __future__ import annotations

import numpy as np
import pytest
from stackgrad.backends.vulkan.counts import iterations
from stackgrad.backends.vulkan.physical_devices import NoVulkanDevice, PhysicalDevice, choose
from stackgrad.backends.vulkan.queue_families import compute_family
from stackgrad.compiler.ir.parser import parse_kernel


@pytest.mark.parametrize(
    ("bounds", "ends", "count"),
    [
        ("%1: i32 = shape x, 0", "%0 .. %1", 7),
        ("%1: i32 = arg n", "%0 .. %1", 0),
        ("%1: i32 = arg n %2: i32 = neg %1", "%0 .. %2", 3),
        ("%1: i32 = shape x, 0 %3: i32 = const 2 %4: i32 = floordiv %1, %3", "%3 .. %4", 1),
        ("%1: i32 = load x[%0]", "%0 .. %1", None),
        ("%1: i32 = const 2147483647 %3: i32 = const 1 %4: i32 = add %1, %3", "%0 .. %4", 0),
    ],
)
def test_iterations(bounds: str, ends: str, count: int | None) -> None:
    kernel = parse_kernel(f"""kernel k(x: i32[1], n: i32) {{
      bounds {{ %0: i32 = const 0 {bounds} }} parallel %9: i32 in {ends} {{ }} }}""")
    assert iterations(kernel.tasks[0], {"x": np.zeros(7, np.int32)}, {"n": -3}) == count


def card(name: str, kind: int, *missing: str) -> PhysicalDevice:
    return PhysicalDevice(None, name, kind, "1.2.0", frozenset(), (), missing)


LAVAPIPE, LAPTOP, BOARD = card("llvmpipe", 4), card("Integrated", 1), card("Discrete", 2)
OLD = card("Old", 2, "Vulkan 1.2 (it has 1.1.0)")


def test_a_discrete_device_is_chosen_before_others() -> None:
    assert choose([LAVAPIPE, LAPTOP, BOARD]) is BOARD
    assert choose([LAVAPIPE, OLD]) is LAVAPIPE


def test_a_device_is_wanted_by_number_or_name() -> None:
    assert choose([LAVAPIPE, BOARD], "0") is LAVAPIPE and choose([LAVAPIPE, BOARD], "disc") is BOARD


@pytest.mark.parametrize(
    ("cards", "wanted", "reason"),
    [
        ([], "", "knows no device"),
        ([LAVAPIPE], "nvidia", "the devices are: llvmpipe"),
        ([OLD], "", "Old has no Vulkan 1.2 (it has 1.1.0)"),
    ],
)
def test_why_there_is_none(cards: list[PhysicalDevice], wanted: str, reason: str) -> None:
    with pytest.raises(NoVulkanDevice) as caught:
        choose(cards, wanted)
    assert reason in caught.value.reason and caught.value.cure


@pytest.mark.parametrize(
    ("flags", "family"),
    [([0xF, 0xC, 0xE, 0x2C, 0x10C], 2), ([7], 0), ([4, 7, 7], 1), ([4, 1], None), ([], None), ([6, 7, 2], 0)],
)
def test_a_queue_for_shaders_alone_comes_before_one_that_draws(flags: list[int], family: int | None) -> None:
    assert compute_family(flags) == family
