"""Iterations that a thread takes several at a time, as where memory is far away: any number of them, any statement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from stackgrad.backends import registry
from stackgrad.backends.base import Backend, Draws, Options, Sizes
from stackgrad.backends.spirv.decode import instructions
from stackgrad.backends.spirv.emit import ShaderFeatures
from stackgrad.backends.spirv.shaders import generate
from stackgrad.backends.vulkan import host_code
from stackgrad.backends.vulkan.backend import GROUPS, VulkanBackend
from stackgrad.backends.vulkan.executable import VulkanExecutable
from stackgrad.backends.vulkan.physical_devices import PhysicalDevice
from stackgrad.compiler.ir.parser import parse_kernel

FAST = Options(precise=False)
OVER = "bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1"
HEAD = "kernel k(x: f32[1], g: i32[1], y: f32[1], s: f32[1])"
BODIES = {
    "elements": "%3: f32 = load x[%2] %4: f32 = mul %3, %3 %5: f32 = add %4, %3 store y[%2], %5",
    "own element": "%3: f32 = load x[%2] %4: f32 = atomic add y[%2], %3 store x[%2], %4",
    "sum": "%3: f32 = load x[%2] %4: f32 = mul %3, %3 %6: i32 = const 0 %5: f32 = atomic add s[%6], %4",
    "met elements": "%3: i32 = load g[%2] %4: f32 = load x[%2] %5: f32 = atomic add y[%3], %4",
    "greatest": "%3: i32 = load g[%2] %4: f32 = load x[%2] %5: f32 = atomic max y[%3], %4",
    "kinds": "%3: i32 = load g[%2] %4: f32 = cast %3 %5: u32 = bit_cast %4 %6: f32 = cast %5 %7: i32 = shape x, 0 "
    "%8: f32 = cast %7 %9: f32 = mul %6, %8 store y[%2], %9",
}
STAYS = {
    "a branch": "%3: f32 = load x[%2] %4: u1 = cmp_gt %3, %3 if %4 { store y[%2], %3 }",
    "a sine": "%3: f32 = load x[%2] %4: f32 = sin %3 store y[%2], %4",
    "a history": "adstack_alloca a: f32 %3: f32 = load x[%2] adstack_push a, %3 %4: f32 = adstack_load_top a "
    "store y[%2], %4",
    "a draw": "%3: f32 = load x[%2] %4: f32 = random %5: f32 = add %3, %4 store y[%2], %5",
    "nothing loaded": "%3: f32 = cast %2 store y[%2], %3",
}
FAR = ShaderFeatures(subgroups=True, abreast=True)


class FarCard(PhysicalDevice):
    """Of a device whose memory is far away."""

    @property
    def features(self) -> ShaderFeatures:
        return replace(super().features, abreast=True)


def text(body: str) -> str:
    return f"{HEAD} {{ {OVER} {{ {body} }} }}"


@pytest.fixture(scope="module", params=["", "buffer_addresses", "int64"])
def far(vulkan: VulkanBackend, request: pytest.FixtureRequest) -> VulkanBackend:
    """A device whose memory is said to be far away."""
    del vulkan
    backend = VulkanBackend((request.param,) if request.param else ())
    card = backend.device.card
    backend.device.card = FarCard(**{name: getattr(card, name) for name in card.__dataclass_fields__})
    assert backend.features.abreast
    return backend


def run(backend: Backend, body: str, count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(count)
    arrays = {
        "x": rng.integers(-9, 9, count).astype(np.float32),
        "g": rng.integers(0, max(count, 1), count, np.int32),
        "y": rng.integers(-9, 9, count).astype(np.float32),
        "s": np.array([3.0], np.float32),
    }
    backend.compile(parse_kernel(text(body)), FAST).run(arrays, {}, Sizes(), Draws())
    return arrays


@pytest.mark.rotating
@pytest.mark.parametrize("name", BODIES)
def test_any_number_of_iterations(far: VulkanBackend, name: str) -> None:
    """Fewer than there are threads, some for a part of them, and several rounds. All sums are exact."""
    most = GROUPS[True] * 64
    for count in (0, 1, 63, most - 1, 3 * most + 1, 4 * most, 9 * most + 77):
        found, expected = run(far, BODIES[name], count), run(registry.get("cpu"), BODIES[name], count)
        for array in found:
            if name != "own element" or array != "x":
                np.testing.assert_array_equal(found[array], expected[array], f"{array}, {count}")


def loops(body: str, features: ShaderFeatures, options: Options = FAST) -> int:
    words = generate(parse_kernel(text(body)), replace(options, bounds=False), features).words
    return sum(name == "LoopMerge" for name, _ in instructions(words))


def test_which_tasks() -> None:
    """Without comparisons of indices, which have a short task written twice."""
    near, debug = replace(FAR, abreast=False), Options(precise=False, debug=True)
    for body in (BODIES["elements"], BODIES["sum"], BODIES["own element"], BODIES["kinds"]):
        assert loops(body, FAR) == loops(body, near) + 1 and loops(body, FAR, debug) == loops(body, near, debug)
    for body in STAYS.values():
        assert loops(body, FAR) == loops(body, near)
    ordered = Options(precise=False, deterministic=True)
    assert loops(BODIES["met elements"], FAR, ordered) == loops(BODIES["met elements"], near, ordered)


def test_threads_that_keep_sums_are_fewer(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each subgroup of them makes an update of one element."""
    monkeypatch.setattr(host_code, "SUMMING", 128)
    for name, groups in (("sum", 2), ("elements", 10)):
        made = vulkan.compile(parse_kernel(text(BODIES[name])), FAST)
        assert isinstance(made, VulkanExecutable) and made.shaders.summed == ({0} if name == "sum" else set())
        arrays = {
            "x": np.ones(640, np.float32),
            "g": np.zeros(640, np.int32),
            "y": np.ones(640, np.float32),
            "s": np.array([3.0], np.float32),
        }
        made.run(arrays, {}, Sizes(), Draws())
        view = made._ring.piece.view
        assert int.from_bytes(bytes(view[made._ring.counts_at : made._ring.counts_at + 4]), "little") == groups
        assert arrays["s"][0] == (643 if name == "sum" else 3)
