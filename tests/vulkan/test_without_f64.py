"""f32 functions on devices without f64: exact remainders; sines of any argument and powers within their ulps."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.ir.ops import OPS
from stackgrad.compiler.ir.parser import parse_kernel

COUNT = 2000


def results(backend: VulkanBackend, op: str, *args: np.ndarray) -> np.ndarray:
    """The operation of each element."""
    params = "".join(f"a{k}: f32[1], " for k in range(len(args)))
    loads = "".join(f"%{k + 4}: f32 = load a{k}[%2] " for k in range(len(args)))
    names = ", ".join(f"%{k + 4}" for k in range(len(args)))
    kernel = parse_kernel(f"""kernel k({params}y: f32[1]) {{
      bounds {{ %0: i32 = const 0 %1: i32 = shape y, 0 }} parallel %2: i32 in %0 .. %1 {{
        {loads} %3: f32 = {op} {names} store y[%2], %3 }} }}""")
    out = np.zeros_like(args[0])
    arrays = {f"a{k}": a for k, a in enumerate(args)} | {"y": out}
    backend.compile(kernel, Options()).run(arrays, {}, Sizes(), Draws())
    return out


def farthest(found: np.ndarray, wanted: list[float]) -> float:
    """The largest error in ulps of f32. Subnormal numbers may be flushed."""
    worst = 0.0
    for got, want in zip(found.tolist(), wanted):
        if math.isnan(want) or abs(want) > 3.4028235e38 or abs(want) < 2.0**-126:
            flushed = abs(want) < 2.0**-126 and abs(got) <= 2.0**-126
            same = math.isnan(got) if math.isnan(want) else flushed or abs(got) >= 3.4e38 and got * want > 0
            worst = worst if same else math.inf
        else:
            worst = max(worst, abs(got - want) / float(np.spacing(np.float32(abs(want)))))
    return worst


@pytest.fixture(scope="module")
def single(vulkan: VulkanBackend) -> VulkanBackend:
    return VulkanBackend(("float64",))


def numbers(seed: int) -> np.ndarray:
    """Of all sizes: bits at random."""
    return np.random.default_rng(seed).integers(0, 1 << 32, COUNT, dtype=np.uint32).view(np.float32)


@pytest.mark.parametrize(("op", "function"), [("sin", math.sin), ("cos", math.cos), ("tan", math.tan)])
def test_waves(single: VulkanBackend, op: str, function: Callable[[float], float]) -> None:
    drawn = np.random.default_rng(2).uniform(-1e5, 1e5, COUNT).astype(np.float32)
    ends = np.array([np.inf, -np.inf, np.nan, 0.0, 128.0, 3.4028235e38, 16367173.0, 2.0**127], np.float32)
    x = np.concatenate([numbers(1), drawn, ends])
    wanted = [function(v) if math.isfinite(v) else math.nan for v in x.tolist()]
    assert farthest(results(single, op, x), wanted) <= OPS[op].ulps


def power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except ZeroDivisionError:
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:
        return math.nan


@pytest.mark.parametrize("spread", [(4.0, 40.0), (1e-4, 1e5), (1e30, 1.0), (0.0, 0.0)])
def test_powers(single: VulkanBackend, spread: tuple[float, float]) -> None:
    draw = np.random.default_rng(3)
    x = np.abs(1 + draw.normal(0, spread[0], COUNT)).astype(np.float32)
    y = draw.normal(0, spread[1], COUNT).astype(np.float32)
    if spread == (0.0, 0.0):
        x, y = numbers(4), np.where(numbers(5) > 0, numbers(6), np.round(draw.normal(0, 9, COUNT))).astype(np.float32)
    x, y = (a[(y == 0) | (np.abs(y) >= 2.0**-126)] for a in (x, y))  # for a device a subnormal exponent may be 0
    wanted = [power(*both) for both in zip(x.tolist(), y.tolist())]
    assert farthest(results(single, "pow", x, y), wanted) <= OPS["pow"].ulps


def test_remainders(single: VulkanBackend) -> None:
    """Exact, subnormal numbers included, where the sum with the divisor need not be rounded."""
    x, y = np.abs(numbers(7)), np.abs(numbers(8))
    found, finite = results(single, "mod", x, y), np.isfinite(x) & np.isfinite(y) & (y > 0)
    assert finite.sum() > COUNT // 2
    for p, q, got in zip(x[finite].tolist(), y[finite].tolist(), found[finite].tolist()):
        assert got == float(Fraction(p) % Fraction(q)), (p, q)
    x, y = np.array([1, np.inf, 1, np.nan], np.float32), np.array([0, 2, np.inf, 1], np.float32)
    special = results(single, "mod", x, y)
    assert np.isnan(special[[0, 1, 3]]).all() and special[2] == 1.0
