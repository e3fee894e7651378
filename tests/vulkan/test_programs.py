"""Programs of users on Vulkan, against the reference: shapes of kernels whose gradients others get wrong there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import stackgrad as sg
from known_support import Recorded, recorded
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.errors import DeviceError, Unsupported
from stackgrad.compiler.ir.parser import parse_kernel

__all__ = ["recorded"]


def values_of_branches() -> None:
    """A value loaded in one arm of a branch, and again in the other."""
    x = sg.field(sg.f64, shape=(200, 2), needs_grad=True)
    y = sg.field(sg.f64, shape=200, needs_grad=True)

    @sg.kernel
    def branches() -> None:
        for i in range(200):
            if x[i, 0] > 0.1:
                y[i] = x[i, 1] * x[i, 1]
            else:
                y[i] = sg.sin(x[i, 1]) * x[i, 0]

    x.from_numpy(np.linspace(-1, 1, 400).reshape(200, 2))
    y.grad.fill(1.0)
    branches()
    branches.grad()


def bounds_of_arrays() -> None:
    """Loops whose bounds stand in fields and in arrays, one inside the other."""
    x, n = sg.field(sg.f64, shape=150, needs_grad=True), sg.field(sg.i32, shape=150)
    y = sg.field(sg.f64, shape=(), needs_grad=True)

    @sg.kernel
    def nested(m: sg.types.ndarray(sg.i32, 1)) -> None:  # type: ignore[valid-type]
        for i in range(m.shape[0]):
            v = x[i]
            for j in range(n[i]):
                for _ in range(m[j]):
                    v = 0.9 * sg.sin(v) + 0.05
            y[None] += v

    x.from_numpy(np.linspace(-2, 2, 150))
    n.from_numpy(np.arange(150, dtype=np.int32) % 5)
    m = np.arange(150, dtype=np.int32) % 3
    y.grad[None] = 1.0
    nested(m)
    nested.grad(m)


def gradients_of_arrays() -> None:
    """Arrays that are arguments, with gradients beside them, whatever is done to their own content."""
    x, y = (sg.ndarray(sg.f64, (130,), needs_grad=True) for _ in range(2))

    @sg.kernel
    def scale(a: sg.types.ndarray(sg.f64, 1), b: sg.types.ndarray(sg.f64, 1)) -> None:  # type: ignore[valid-type]
        for i in range(130):
            b[i] = a[i] * a[129 - i]

    x.from_numpy(np.linspace(0.5, 2, 130))
    y.grad.fill(1.0)
    scale(x, y)
    scale.grad(x, y)


@pytest.mark.rotating
@pytest.mark.parametrize("program", [values_of_branches, bounds_of_arrays, gradients_of_arrays])
def test_agrees(recorded: Recorded, program: Callable[[], None]) -> None:
    """With the reference, but for rounding."""
    program()
    recorded.all_near()


# ---- devices that have less ---------------------------------------------------------------------------------

SUM = """kernel sum(x: f32[1], y: f32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
  %3: f32 = load x[%2] %4: f32 = exp %3 %5: i32 = const 0 %6: f32 = atomic add y[%5], %4 } }"""


def test_f32_needs_no_f64(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable masks features by name."""
    monkeypatch.setenv("STACKGRAD_VULKAN_MASK", "float64, float32_add")
    backend = VulkanBackend()
    arrays = {"x": np.zeros(500, np.float32), "y": np.zeros(1, np.float32)}
    backend.compile(parse_kernel(SUM), Options()).run(arrays, {}, Sizes(), Draws())
    assert arrays["y"][0] == 500.0


@pytest.mark.parametrize(
    ("feature", "text", "statement"),
    [
        ("float64", "%1: f64 = const 1.0 %2: i64 = cast %1", "%1: f64 = const 1.0"),
        ("int8", "%1: u8 = const 3 %2: u8 = add %1, %1", "%1: u8 = const 3"),
        ("int16", "%1: i16 = const 3 %2: i32 = cast %1", "%1: i16 = const 3"),
    ],
)
def test_what_a_device_lacks_is_named(vulkan: VulkanBackend, feature: str, text: str, statement: str) -> None:
    """With the statement that needs it."""
    with pytest.raises(Unsupported) as caught:
        VulkanBackend((feature,)).compile(parse_kernel(f"kernel k() {{ serial {{ {text} }} }}"), Options())
    assert "has no " in str(caught.value) and f"`{statement}` needs" in str(caught.value)


def test_an_unknown_feature_is_refused(vulkan: VulkanBackend) -> None:
    with pytest.raises(DeviceError, match="no feature 'float128' to mask; there are: int8, int16, float64"):
        VulkanBackend(("float128",)).compile(parse_kernel(SUM), Options())


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("precise", [False, True])
def test_the_cosine_of_zero_is_one(vulkan: VulkanBackend, dtype: str, precise: bool) -> None:
    text = SUM.replace("f32", dtype).replace("exp", "cos")
    arrays = {"x": np.array([0.0, -0.0], dtype.replace("f", "float")), "y": np.zeros(1, dtype.replace("f", "float"))}
    vulkan.compile(parse_kernel(text), Options(precise=precise)).run(arrays, {}, Sizes(), Draws())
    assert arrays["y"][0] == 2.0
