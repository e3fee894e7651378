"""Arithmetic with zeros that a driver can know, bit by bit as the reference has it: a product with one is NaN for NaN
and infinities, and has a sign; a quotient by one is not undefined. See backends/spirv/opaque_values.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference.launch import run as interpret

NUMBERS = (0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-30, -3e30)

ZEROS = {
    "a constant": "%10: T = const 0",
    "a negative constant": "%10: T = const -0.0",
    "what a local begins with": "local z: T %11: T = const 0 set z, %11 %10: T = get z",
    "of the first trip": "local z: T %12: i32 = const 0 %13: i32 = const 2 for %14: i32 in %12 .. %13 "
    "{ %15: i32 = const 1 %16: i32 = sub %14, %15 %17: T = cast %16 set z, %17 } %10: T = get z",
    "an integer": "%11: i32 = const 7 %12: i32 = sub %11, %11 %10: T = cast %12",
    "what was stored": "%11: T = const 0 store w[%2], %11 %10: T = load w[%2]",
    "what was added up": "%11: T = const 0 store w[%2], %11 %12: T = atomic add w[%2], %11 %10: T = load w[%2]",
    "a difference": "local d: T %11: T = const 1.5 set d, %11 %12: T = get d %10: T = sub %12, %11",
    "a product": "local d: T %11: T = const LEAST set d, %11 %12: T = get d %10: T = mul %12, %11",
    "an inverse": "local d: T %11: T = const inf set d, %11 %13: T = const 1 %12: T = get d %10: T = div %13, %12",
}
"""Each defines %10."""

USES = {
    **{f"x {op} 0": f"{{y}}: T = {op} {{x}}, {{z}}" for op in ("add", "sub", "mul", "div", "max", "min")},
    **{f"0 {op} x": f"{{y}}: T = {op} {{z}}, {{x}}" for op in ("add", "sub", "mul", "div", "max", "min")},
    "x·0 + x": "{a}: T = mul {x}, {z} {y}: T = add {a}, {x}",
    "x·0 - 1": "{a}: T = mul {x}, {z} {b}: T = const 1 {y}: T = sub {a}, {b}",
    "1 - 0·x": "{a}: T = mul {z}, {x} {b}: T = const 1 {y}: T = sub {b}, {a}",
    "-0·x": "{a}: T = neg {z} {y}: T = mul {a}, {x}",
    "|0|/x": "{a}: T = abs {z} {y}: T = div {a}, {x}",
    "sqrt(0·x)": "{a}: T = mul {z}, {x} {y}: T = sqrt {a}",
    "0·x > 0": "{a}: T = mul {z}, {x} {b}: u1 = cmp_eq {a}, {z} {y}: T = cast {b}",
}
"""Each defines y, of x and the zero z."""

ROUNDED_ONCE = ("a product", "x sub 0", False)
"""What a default build may round once: 0 - 1e-30 * 1e-30 is -1e-60 before it is rounded, and so -0.

The product alone rounds to +0, and the difference of zeros is +0. NVIDIA's driver contracts the two, as builds that are
not precise allow.
"""


@pytest.fixture(scope="module", params=["", "int64", "buffer_addresses"])
def device(request: pytest.FixtureRequest, vulkan: VulkanBackend) -> Iterator[VulkanBackend]:
    """The one that is here, or without a feature."""
    made = VulkanBackend((request.param,)) if request.param else vulkan
    yield made
    if request.param:
        made.reset()


@pytest.mark.rotating
@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("zero", ZEROS)
def test_as_the_reference(device: VulkanBackend, zero: str, dtype: str, precise: bool) -> None:
    least = "1e-30" if dtype == "f32" else "1e-300"
    names = [f"y{k}" for k in range(len(USES))]
    stores = " ".join(
        f"{use} store {name}[%2], {{y}}".format(x="%3", z="%10", a=f"%1{k:02}", b=f"%2{k:02}", y=f"%3{k:02}")
        for k, (name, use) in enumerate(zip(names, USES.values()))
    )
    outputs = ", ".join(f"{name}: T[1]" for name in names)
    kernel = parse_kernel(
        f"""kernel zeros(x: T[1], w: T[1], {outputs}) {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
    %3: T = load x[%2] {ZEROS[zero]} {stores} }} }}""".replace("LEAST", least).replace("T", dtype)
    )
    x = np.array(NUMBERS, np.float32 if dtype == "f32" else np.float64)
    ours = {"x": x, "w": np.ones_like(x), **{name: np.full_like(x, 7.0) for name in names}}
    theirs = {name: array.copy() for name, array in ours.items()}
    device.compile(kernel, Options(precise=precise)).run(ours, {}, Sizes(), Draws())
    interpret(kernel, theirs, {})
    for name, use in zip(names, USES):
        once = (zero, use, precise) == ROUNDED_ONCE
        wrong = [
            float(v) for v, a, b in zip(x, ours[name], theirs[name]) if not (_same(a, b) or (once and a == b == 0))
        ]
        assert not wrong, f"{use}, zero by {zero}, x = {wrong}: {ours[name]} instead of {theirs[name]}"


def gradients(arch: str, fp: sg.DType) -> list[np.ndarray]:
    """Of kernels that overwrite an adjoint by 0, keep a history of it, and divide by a determinant that is 0."""
    sg.init(arch=arch, default_fp=fp)
    x, y, z, w, d = (sg.field(fp, len(NUMBERS), needs_grad=True) for _ in range(5))

    @sg.kernel
    def overwritten() -> None:
        for i in x:
            y[i] = x[i] * x[i]
            y[i] = 2 * x[i]

    @sg.kernel
    def kept() -> None:
        for i in x:
            v = x[i] - x[i]
            for _ in range(3):
                v = v * w[i]
            z[i] = v

    @sg.kernel
    def divided() -> None:
        for i in x:
            d[i] = x[i] / sg.Matrix([[1.0, 2.0], [2.0, 4.0]]).determinant()

    x.from_numpy(np.array(NUMBERS, fp.dtype))
    w.from_numpy(np.array(NUMBERS[::-1], fp.dtype))
    for kernel, out in ((overwritten, y), (kept, z), (divided, d)):
        out.fill(7.0)
        kernel()
        out.grad.fill(1.0)
        kernel.grad()
    return [f.to_numpy() for f in (y, z, d, x.grad, w.grad)]


@pytest.mark.rotating
@pytest.mark.parametrize("fp", [sg.f32, sg.f64])
def test_gradients(vulkan: VulkanBackend, fp: sg.DType) -> None:
    """No user wrote these zeros down."""
    for expected, ours in zip(gradients(sg.reference, fp), gradients(sg.vulkan, fp)):
        assert all(_same(a, b) for a, b in zip(ours, expected)), f"{ours} instead of {expected}"


def _same(a: np.floating, b: np.floating) -> bool:
    """The same number with the same sign, or both NaN."""
    return bool(a == b and np.signbit(a) == np.signbit(b)) or bool(np.isnan(a) and np.isnan(b))
