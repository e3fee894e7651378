"""Test second derivatives of every differentiable operation, against JAX's jvp of grad and closed forms.

The derivative rules are written in terms of operations. So a second derivative is right only if the rules of these
operations are right, even of those without a derivative, such as the sign in the slope of abs.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stackgrad.compiler.ad.rules import VJP
from stackgrad.compiler.ir.ops import OPS
from stackgrad.compiler.ir.parser import parse_kernel

_spec = importlib.util.spec_from_file_location(
    "second_order_support", Path(__file__).with_name("second_order_support.py")
)
assert _spec is not None and _spec.loader is not None
support = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = support
_spec.loader.exec_module(support)

Function = Callable[..., Any]
SECONDS: dict[str, tuple[Function, Function]] = {
    # f for JAX, and f''(x) as a closed form
    "neg": (lambda x: -x, lambda x: 0 * x),
    "abs": (jnp.abs, lambda x: 0 * x),
    "sqrt": (jnp.sqrt, lambda x: -0.25 * x**-1.5),
    "rsqrt": (lambda x: x**-0.5, lambda x: 0.75 * x**-2.5),
    "inv": (lambda x: 1 / x, lambda x: 2 * x**-3.0),
    "rcp": (lambda x: 1 / x, lambda x: 2 * x**-3.0),
    "exp": (jnp.exp, np.exp),
    "log": (jnp.log, lambda x: -(x**-2.0)),
    "sin": (jnp.sin, lambda x: -np.sin(x)),
    "cos": (jnp.cos, lambda x: -np.cos(x)),
    "tan": (jnp.tan, lambda x: 2 * np.tan(x) / np.cos(x) ** 2),
    "asin": (jnp.arcsin, lambda x: x * (1 - x * x) ** -1.5),
    "acos": (jnp.arccos, lambda x: -x * (1 - x * x) ** -1.5),
    "tanh": (jnp.tanh, lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2),
    "frexp_mantissa": (lambda x: x * 2.0 ** -jax.lax.stop_gradient(jnp.frexp(x)[1]), lambda x: 0 * x),
}
PAIRS: dict[str, tuple[Function, Function]] = {
    # f for JAX, and (f_xx, f_xy, f_yy)
    "add": (jnp.add, lambda x, y: (0, 0, 0)),
    "sub": (jnp.subtract, lambda x, y: (0, 0, 0)),
    "mul": (jnp.multiply, lambda x, y: (0, 1, 0)),
    "div": (jnp.divide, lambda x, y: (0, -1 / y**2, 2 * x / y**3)),
    "mod": (lambda x, y: x - y * jax.lax.stop_gradient(jnp.floor(x / y)), lambda x, y: (0, 0, 0)),
    "pow": (
        jnp.power,
        lambda x, y: (y * (y - 1) * x ** (y - 2), x ** (y - 1) * (1 + y * np.log(x)), x**y * np.log(x) ** 2),
    ),
    "atan2": (
        jnp.arctan2,
        lambda y, x: tuple(s / (x * x + y * y) ** 2 for s in (-2 * x * y, y * y - x * x, 2 * x * y)),
    ),
    "min": (jnp.minimum, lambda x, y: (0, 0, 0)),
    "max": (jnp.maximum, lambda x, y: (0, 0, 0)),
    "select": (lambda x, y: jnp.where(x > y, x, y), lambda x, y: (0, 0, 0)),
}
FLAT: dict[str, Function] = {"sgn": jnp.sign, "floor": jnp.floor, "ceil": jnp.ceil, "round": jnp.round}
"""Zero slopes, which as factors leave the second derivative of the rest alone."""
RTOL = {"f64": 1e-9, "f32": 2e-4}
LOWERING = {"f64": "lean", "f32": "classic"}
COUNT = 12


def test_no_operation_is_left_out() -> None:
    differentiable = {name for name in OPS if any(VJP[name])}
    assert differentiable == SECONDS.keys() | PAIRS.keys()
    real = {name for name, op in OPS.items() if op.kind == "flat" and op.name != "floordiv"}
    assert real == FLAT.keys()


def kernel_of(body: str, dtype: str) -> Any:
    """Return a kernel that stores f(x[i], y[i]) · (x[i] + y[i]) to z[i]."""
    return parse_kernel(f"""kernel k(x: {dtype}[1] grad, y: {dtype}[1] grad, z: {dtype}[1] grad) {{
  bounds {{
    %0: i32 = const 0
    %1: i32 = shape x, 0
  }} parallel %2: i32 in %0 .. %1 {{
    %3: {dtype} = load x[%2]
    %4: {dtype} = load y[%2]
    {body}
    %9: {dtype} = add %3, %4
    %10: {dtype} = mul %8, %9
    store z[%2], %10
  }}
}}""")


def points(name: str, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return regular points of an operation: inside its safe intervals, away from kinks."""
    rng = np.random.default_rng(len(name))
    safe = {"mod": ((-7, 7), (1.3, 2.9)), "atan2": ((0.4, 2), (0.3, 2)), "pow": ((0.3, 2.5), (-2, 3))}
    row = safe.get(name) or OPS[name].safe[-2:] if name in PAIRS else (OPS[name].safe[0],)
    bounds = [(max(low, -3.0), min(high, 3.0)) for low, high in [*row, (0.2, 1.4)][:2]]
    x, y = (rng.uniform(low, high, COUNT).astype(dtype) for low, high in bounds)
    return (np.where(np.abs(x) < 0.05, x + 0.2, x).astype(dtype), y)


def check(body: str, f: Function, x: np.ndarray, y: np.ndarray, dtype: str, arch: str) -> Any:
    rng = np.random.default_rng(5)
    kernel = kernel_of(body.replace("REAL", dtype), dtype)
    zero = np.zeros_like(x)
    v = {name: rng.normal(size=COUNT).astype(x.dtype) for name in "xy"} | {"z": zero}
    w = {"x": zero, "y": zero, "z": rng.normal(size=COUNT).astype(x.dtype)}
    first, along = support.second(kernel, {"x": x, "y": y, "z": zero}, {}, v, w, arch, LOWERING[dtype])

    def loss(x: Any, y: Any) -> Any:
        return (w["z"].astype(np.float64) * f(x, y) * (x + y)).sum()

    at, direction = ([np.asarray(d[k], np.float64) for k in "xy"] for d in ({"x": x, "y": y}, v))
    want, moved = jax.jvp(jax.grad(loss, (0, 1)), at, direction)
    for k, a, b in zip("xy", want, moved):
        np.testing.assert_allclose(first[k], a, RTOL[dtype], RTOL[dtype])
        np.testing.assert_allclose(along[k], b, RTOL[dtype], RTOL[dtype] * (1 + np.abs(b).max()))
    return at, direction, w["z"], along


@pytest.mark.rotating
@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("name", SECONDS)
def test_of_one_operand(name: str, dtype: str, arch: str) -> None:
    f, curvature = SECONDS[name]
    x, y = points(name, "float64" if dtype == "f64" else "float32")
    (at, other), (u, t), w, along = check(f"%8: REAL = {name} %3", lambda x, y: f(x), x, y, dtype, arch)
    slope = np.asarray(jax.vmap(jax.grad(f))(at))
    want = w * (curvature(at) * (at + other) * u + slope * (2 * u + t))
    np.testing.assert_allclose(along["x"], want, RTOL[dtype], RTOL[dtype] * (1 + np.abs(want).max()))


@pytest.mark.rotating
@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("name", PAIRS)
def test_of_two_operands(name: str, dtype: str, arch: str) -> None:
    f, curvature = PAIRS[name]
    x, y = points(name, "float64" if dtype == "f64" else "float32")
    body = "%7: u1 = cmp_gt %3, %4\n%8: REAL = select %7, %3, %4" if name == "select" else f"%8: REAL = {name} %3, %4"
    (a, b), (u, t), w, along = check(body, f, x, y, dtype, arch)
    fx, fy = (np.asarray(jax.vmap(jax.grad(f, k))(a, b)) for k in (0, 1))
    xx, xy, yy = curvature(a, b)
    want = {
        "x": w * ((xx * (a + b) + 2 * fx) * u + (xy * (a + b) + fx + fy) * t),
        "y": w * ((yy * (a + b) + 2 * fy) * t + (xy * (a + b) + fx + fy) * u),
    }
    for k in "xy":
        np.testing.assert_allclose(along[k], want[k], RTOL[dtype], RTOL[dtype] * (1 + np.abs(want[k]).max()))


@pytest.mark.parametrize("name", [*FLAT, "floordiv"])
def test_flat_factors(name: str, arch: str) -> None:
    x, y = np.linspace(0.3, 5.2, COUNT), np.linspace(1.1, 2.3, COUNT)
    if name == "floordiv":
        body = "%7: REAL = floordiv %3, %4\n%8: REAL = mul %7, %3"
        check(body, lambda x, y: jnp.floor(x / y) * x, x, y, "f64", arch)
        return
    body = f"%7: REAL = {name} %3\n%6: REAL = mul %7, %3\n%8: REAL = mul %6, %4"
    check(body, lambda x, y: FLAT[name](x) * x * y, x, y, "f64", arch)


def test_a_power_at_zero(arch: str) -> None:
    """x^2 and x^3 have second derivatives at 0: nothing divides by x, or takes its logarithm for a fixed exponent."""
    for exponent, want in ((1.0, 0.0), (2.0, 2.0), (3.0, 0.0)):
        kernel = kernel_of(f"%7: f64 = const {exponent}\n%8: f64 = pow %3, %7", "f64")
        zero = np.zeros(COUNT)
        v, w = {"x": zero + 1, "y": zero, "z": zero}, {"x": zero, "y": zero, "z": zero + 1}
        _, along = support.second(kernel, {"x": zero, "y": zero + 1, "z": zero}, {}, v, w, arch, "lean")
        # (x^e · (x + y))'' at x = 0, y = 1
        np.testing.assert_allclose(along["x"], want + (2.0 if exponent == 1.0 else 0.0))


def test_casts_and_stopped_values(arch: str) -> None:
    """Casts between reals pass second derivatives; bits stop them."""
    x, y = np.linspace(0.3, 2.2, COUNT), np.linspace(1.1, 2.3, COUNT)
    exact = np.float32(x).astype(np.float64)
    body = "%5: f32 = cast %3\n%6: f32 = mul %5, %5\n%7: f32 = mul %6, %5\n%8: f64 = cast %7"
    kernel, zero = kernel_of(body, "f64"), np.zeros(COUNT)
    v, w = {"x": zero + 1, "y": zero, "z": zero}, {"x": zero, "y": zero, "z": zero + 1}
    _, along = support.second(kernel, {"x": exact, "y": y, "z": zero}, {}, v, w, arch, "lean")
    np.testing.assert_allclose(along["x"], 12 * exact**2 + 6 * exact * y, 1e-5)
    check(
        "%5: REAL = bit_cast %3\n%6: REAL = mul %5, %3\n%8: REAL = mul %6, %4",
        lambda x, y: jax.lax.stop_gradient(x) * x * y,
        x,
        y,
        "f64",
        arch,
    )
