"""Square roots of f32 are rounded correctly, however far off those of a device are within what Vulkan allows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.codegen.types import F32, I32
from stackgrad.backends.spirv.code import ArithmeticWriter
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.ir.parser import parse_kernel

KERNEL = """kernel roots(x: f32[1], y: f32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load x[%2] %4: f32 = sqrt %3 store y[%2], %4
  } }"""

SPECIAL = np.array(
    [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        -1.0,
        -1e-40,
        1e-45,
        1e-40,
        2.0**-126,
        2.0**-96,
        3.4028235e38,
        4.0,
        1.0,
        np.nextafter(np.float32(4), np.float32(0)),
        np.nextafter(np.float32(1), np.float32(2)),
    ],
    np.float32,
)


def numbers() -> np.ndarray:
    """Every 61st mantissa of both parities of the exponent, bits at random, and what is special."""
    mantissas = np.arange(0x3F800000, 0x40800000, 61, dtype=np.uint32).view(np.float32)
    drawn = np.random.default_rng(5).integers(0, 1 << 31, 100_000, dtype=np.uint32).view(np.float32)
    return np.concatenate([mantissas, drawn, SPECIAL])


def off_by(places: int) -> Callable[..., object]:
    """`ArithmeticWriter.glsl`, but for square roots that many numbers away from the device's, which are lavapipe's.

    Rounded.
    """
    exact = ArithmeticWriter.glsl

    def glsl(self: ArithmeticWriter, name: str, t: object, *args: object) -> object:
        found = exact(self, name, t, *args)  # type: ignore[arg-type]
        if name != "sqrt" or not places:
            return found
        moved = self.bitcast(self.add(self.bitcast(found, I32), self.const(I32, places)), F32)
        usual = self.and_(
            self.fcmp_ordered(">", found, self.const(F32, 0.0)), self.fcmp_ordered("<", found, self.const(F32, np.inf))
        )
        return self.select(usual, moved, found)

    return glsl


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("places", [-3, -1, 0, 1, 2, 3])
def test_roots_of_devices_that_are_off(
    vulkan: VulkanBackend, places: int, precise: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ArithmeticWriter, "glsl", off_by(places))
    x = numbers()
    y = np.full_like(x, 7.0)
    vulkan.compile(parse_kernel(KERNEL), Options(precise=precise)).run({"x": x, "y": y}, {}, Sizes(), Draws())
    with np.errstate(invalid="ignore"):
        wanted = np.sqrt(x)
    np.testing.assert_array_equal(y.view(np.uint32)[~np.isnan(wanted)], wanted.view(np.uint32)[~np.isnan(wanted)])
    assert np.isnan(y[np.isnan(wanted)]).all()
