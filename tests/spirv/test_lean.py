"""sin and cos of default builds, on machines that round a product and a sum once, and on others."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from stackgrad.backends.base import Options
from stackgrad.backends.codegen.polynomials import gpu_trigonometric as fused
from stackgrad.backends.codegen.polynomials.coefficients import COEFFICIENTS, CONSTANTS
from stackgrad.backends.codegen.polynomials.trigonometric import LIMITS
from stackgrad.backends.spirv.decode import instructions
from stackgrad.backends.spirv.gpu_trigonometric import LEAN, PARTS, shortest_writer
from stackgrad.backends.spirv.shaders import generate
from stackgrad.compiler.ir.ops import OPS
from stackgrad.compiler.ir.parser import parse_kernel

F = np.float32
BIG = F(1.5 * 2**23)
RIGHT = {"sin": np.sin, "cos": np.cos}
Operand = np.ndarray | np.float32
Mad = Callable[[np.ndarray, Operand, Operand], np.ndarray]


def twice(x: np.ndarray, y: Operand, z: Operand) -> np.ndarray:
    return x * y + z


def once(x: np.ndarray, y: Operand, z: Operand) -> np.ndarray:
    """The product of two f32 is exact in f64."""
    return (x.astype(np.float64) * np.asarray(y, np.float64) + np.asarray(z, np.float64)).astype(F)


def half_wave(d: np.ndarray, mad: Mad) -> np.ndarray:
    *lower, last = map(F, COEFFICIENTS["sin_half"]["f32"][1:])
    square, total = d * d, np.full_like(d, last)
    for c in reversed(lower):
        total = mad(total, square, c)
    return mad(d * square, total, d)


def computed(name: str, x: np.ndarray, mad: Mad) -> np.ndarray:
    """What the code computes: the steps of backends/spirv/gpu_trigonometric.py."""
    inverse, half = F(CONSTANTS["inverse_pi"]["f32"][0]), F(0.5)
    total = mad(x, inverse, BIG) if name == "sin" else mad(x, inverse, -half) + BIG
    n, odd = total - BIG, total.view(np.uint32) << 31
    for part in CONSTANTS["pi_short"]["f32"][:PARTS]:
        x = mad(n if name == "sin" else n + half, F(-part), x)
    d = (x.view(np.uint32) ^ odd).view(F)
    return half_wave(d if name == "sin" else -d, mad)


@pytest.mark.parametrize("mad", [once, twice], ids=["once", "twice"])
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_errors_are_within_those_of_the_table(name: str, mad: Mad) -> None:
    most, rng = LIMITS[False]["f32"], np.random.default_rng(8)
    near = (np.arange(-81, 82) * np.pi / 2).astype(F)
    beside = [np.nextafter(near, F(end)) for end in (-most, most)]
    x = np.concatenate([rng.uniform(-most, most, 1 << 18), rng.uniform(-7, 7, 1 << 18), near, *beside]).astype(F)
    got, want = computed(name, x, mad), RIGHT[name](x.astype(np.float64))
    ulps = np.abs(got - want) / np.spacing(np.abs(want).astype(F))
    assert float(ulps.max()) <= OPS[name].ulps - 1, x[ulps.argmax()]


@pytest.mark.parametrize("mad", [once, twice], ids=["once", "twice"])
def test_no_result_is_beyond_1(mad: Mad) -> None:
    """Every number of the end of the range, where alone it could be."""
    low, high = F(1.53).view(np.uint32), F(1.0024 * math.pi / 2).view(np.uint32)
    assert half_wave(np.arange(low, high + 1, dtype=np.uint32).view(F), mad).max() == 1


def horner(square: np.ndarray, coefficients: tuple[float, ...], mad: Mad) -> np.ndarray:
    *lower, last = map(F, coefficients)
    total = np.full_like(square, last)
    for c in reversed(lower):
        total = mad(total, square, c)
    return total


def shifted(x: np.ndarray, mad: Mad) -> np.ndarray:
    first, second, _ = CONSTANTS["pi_whole"]["f32"]
    found = half_wave((F(first / 2) - np.abs(x)) + F(second / 2), mad)
    return np.where(x == 0, F(1), found)


SMALL: dict[str, tuple[float, Callable[[np.ndarray, Mad], np.ndarray]]] = {
    "sin short": (fused.ONE, lambda x, mad: x * horner(x * x, fused.SHORT_SINE, mad)),
    "sin half": (fused.HALF_PI, half_wave),
    "cos short": (fused.ONE, lambda x, mad: horner(x * x, fused.SHORT_COSINE, mad)),
    "cos half": (2 * fused.HALF_PI, shifted),
}
"""Code for arguments up to a limit, as `shortest_writer` chooses it."""


@pytest.mark.parametrize("mad", [once, twice], ids=["once", "twice"])
@pytest.mark.parametrize("name", SMALL)
def test_code_for_small_arguments_is_within_the_errors_of_the_table(name: str, mad: Mad) -> None:
    most, code = SMALL[name]
    op, _, form = name.partition(" ")
    assert shortest_writer(op, most) is not shortest_writer(op, most * (1 + 2.0**-20))
    assert fused.form_within(op, most).name == form  # type: ignore[union-attr]
    rng = np.random.default_rng(8)
    ends = most * (1 - 2.0**-24 * np.arange(1 << 14))
    x = np.concatenate([rng.uniform(-most, most, 1 << 18), 2.0 ** rng.uniform(-40, 0, 1 << 14), ends]).astype(F)
    x = x[np.abs(x) <= F(most)]
    got, want = code(x, mad), RIGHT[op](x.astype(np.float64))
    assert float((np.abs(got - want) / np.spacing(np.abs(want).astype(F))).max()) <= OPS[op].ulps
    assert np.abs(got).max() <= 1


def test_what_needs_a_look() -> None:
    """Beyond the limit of machines that round twice, and where nothing is known."""
    assert shortest_writer("sin", 129.0) is None and shortest_writer("cos", math.inf) is None
    assert shortest_writer("sin", 100.0) is LEAN["sin"] and shortest_writer("cos", 100.0) is LEAN["cos"]


@pytest.mark.parametrize(("precise", "one"), [(False, True), (True, False)])
def test_products_and_sums_are_one_instruction_in_default_builds(precise: bool, one: bool) -> None:
    kernel = parse_kernel("""kernel k(x: f32[1]) { serial {
      %0: i32 = const 0 %1: f32 = load x[%0] %2: f32 = sin %1 store x[%0], %2 } }""")
    found = [(name, operands) for name, operands in instructions(generate(kernel, Options(precise=precise)).words)]
    multiply_adds = sum(name == "ExtInst" and operands[3] == 50 for name, operands in found)
    assert bool(multiply_adds) == one


@pytest.mark.parametrize("mad", [once, twice], ids=["once", "twice"])
def test_both_together_are_within_the_errors_of_the_table(mad: Mad) -> None:
    """The steps of `quarter_waves`."""
    most, rng = LIMITS[False]["f32"], np.random.default_rng(8)
    near = (np.arange(-163, 164) * np.pi / 4).astype(F)
    beside = [np.nextafter(near, F(end)) for end in (-most, most)]
    x = np.concatenate([rng.uniform(-most, most, 1 << 18), rng.uniform(-7, 7, 1 << 18), near, *beside]).astype(F)
    x = x[np.abs(x) <= most]
    total = mad(x, F(2 * CONSTANTS["inverse_pi"]["f32"][0]), BIG)
    n, d = total - BIG, x
    for part in CONSTANTS["pi_short"]["f32"][:PARTS]:
        d = mad(n, F(-part / 2), d)
    square, whole = d * d, n.astype(np.int64)
    s = d * horner(square, COEFFICIENTS["sin_quarter"]["f32"], mad)
    c = horner(square, COEFFICIENTS["cos_quarter"]["f32"], mad)
    turned = np.array([[s, c, -s, -c], [c, -s, -c, s]])[:, whole % 4, np.arange(len(x))]
    for got, op in zip(turned, ("sin", "cos")):
        want = RIGHT[op](x.astype(np.float64))
        assert float((np.abs(got - want) / np.spacing(np.abs(want).astype(F))).max()) <= OPS[op].ulps - 1
        assert np.abs(got).max() <= 1
