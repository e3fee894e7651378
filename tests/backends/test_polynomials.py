"""Test inlined functions: errors over the whole range, edge values as in the reference, equal results in all lanes."""

from __future__ import annotations

import re
from typing import Any

import fit_polynomials
import numpy as np
import pytest
from lanes_support import ARITY, evaluate, module_text
from stackgrad.backends.base import Options
from stackgrad.backends.codegen import polynomials
from stackgrad.backends.codegen.libcall import LIBRARY
from stackgrad.backends.codegen.polynomials import INLINED, coefficients
from stackgrad.backends.host.jit import host_target
from stackgrad.backends.llvm.masked import generate_masked
from stackgrad.compiler.ir.ops import OPS
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference import scalar as reference

BOUNDS = {
    "exp": 1.25,
    "log": 1.0,
    "sin": 2.25,
    "cos": 2.25,
    "tan": 3.75,
    "asin": 2.5,
    "acos": 1.25,
    "tanh": 2.75,
    "atan2": 2.25,
    "pow": 1.5,
    "fmod": 0.0,
}
"""Greatest errors in units in the last place, with and without fused multiply-add."""

EDGES = [
    0.0,
    1.0,
    0.5,
    2.0,
    3.0,
    np.inf,
    np.nan,
    1e-45,
    5e-324,
    1.1754943508222875e-38,
    2.2250738585072014e-308,
    3.4e38,
    1.79e308,
    88.7228,
    88.723,
    87.3,
    103.9,
    104.0,
    709.78,
    709.79,
    745.1,
    745.2,
    0.7071067811865476,
    1.5,
    1e10,
    1e22,
    127.9,
    32768.0,
    32769.0,
    0.25,
    1 / 3,
    10.0,
    20.5,
    100.5,
    2.0**30,
    2.0**31,
    0.9999999,
    1.0000001,
]
"""Of either sign."""

EXACT = {
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "tanh": np.tanh,
    "atan2": np.arctan2,
    "pow": np.power,
    "fmod": np.fmod,
}
SLACK = 0.0 if np.finfo(np.longdouble).nmant > 60 else 1.0
"""What NumPy's widest type may itself be wrong by, in ulps of f64."""


def unary_operands(dtype: type) -> np.ndarray:
    """Return operands: bit patterns over the whole range, neighbors of multiples of pi/2, edge values."""
    rng = np.random.default_rng(3)
    if dtype is np.float32:
        spread = np.arange(77, 1 << 32, 1 << 14, dtype=np.uint64).astype(np.uint32).view(np.float32)
    else:
        spread = rng.integers(0, 1 << 64, 1 << 15, dtype=np.uint64).view(np.float64)
    near = (np.arange(-3000, 3000) * np.pi / 2).astype(dtype)
    some = [rng.uniform(-w, w, 1 << 14) for w in (1, 10, 100, 800)] + [1 + rng.uniform(-1, 1, 1 << 12) * 1e-3]
    both = [spread, near, np.nextafter(near, dtype(1e30)), *some, EDGES, np.negative(EDGES)]
    with np.errstate(over="ignore"):
        return np.concatenate([np.asarray(x).astype(dtype) for x in both])


def binary_operands(dtype: type) -> list[np.ndarray]:
    """Return two arrays of operands: all pairs of edge values, then pairs drawn in several ways."""
    rng, n = np.random.default_rng(4), 1 << 14
    word = np.uint32 if dtype is np.float32 else np.uint64
    with np.errstate(over="ignore"):
        edges = np.concatenate([EDGES, np.negative(EDGES)]).astype(dtype)
        pairs = [g.ravel() for g in np.meshgrid(edges, edges)]
    drawn = [
        [rng.integers(0, np.iinfo(word).max, n, word).view(dtype) for _ in range(2)],
        [rng.uniform(-100, 100, n), rng.uniform(-100, 100, n)],
        [rng.uniform(0, 100, n), rng.uniform(-20, 20, n)],
        [np.trunc(rng.uniform(-100, 100, n)), np.trunc(rng.uniform(-12, 12, n))],
        [10.0 ** rng.uniform(-8, 8, n), 10.0 ** rng.uniform(-8, 8, n)],
        [1 + rng.uniform(-1, 1, n) * 1e-4, 10.0 ** rng.uniform(-3, 6, n)],
    ]
    return [np.concatenate([np.asarray(p[k]).astype(dtype) for p in [pairs, *drawn]]) for k in range(2)]


def operands(name: str, dtype: type) -> list[np.ndarray]:
    return binary_operands(dtype) if name in ARITY else [unary_operands(dtype)]


def errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return errors in ulps of the right result; infinite where a zero, an infinity or a NaN is wrong."""
    with np.errstate(all="ignore"):
        want = exact.astype(got.dtype)
        out = np.abs(got.astype(np.longdouble) - exact.astype(np.longdouble)) / np.spacing(np.abs(want))
    special = ~np.isfinite(want) | ~np.isfinite(got) | (want == 0)
    same = (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)
    underflow = (want == 0) & (out <= 1.0) & (np.signbit(got) == np.signbit(want))
    out[special] = np.where(same[special] | underflow[special], 0.0, np.inf)
    return out


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", INLINED)
def test_errors(name: str, dtype: type, fused: bool) -> None:
    """Against the next wider type, which NumPy hands to libm. Without the instruction, `fused` is slow but right."""
    args = operands(name, dtype)
    with np.errstate(all="ignore"):
        wider = np.longdouble if dtype is np.float64 else dtype if name == "fmod" else np.float64
        exact = EXACT[name](*[x.astype(wider) for x in args])
    got = evaluate(name, *args, lanes=16, fused=fused)
    wrong = errors(got, exact)
    worst = int(np.argmax(wrong))
    bound = BOUNDS[name] + (SLACK if dtype is np.float64 else 0.0)
    where = [float(x[worst]) for x in args]
    assert wrong[worst] <= bound, f"{name}({where}) = {got[worst]!r}: {wrong[worst]:.2f} ulps from {exact[worst]!r}"


@pytest.mark.parametrize("name", INLINED)
def test_edges_are_those_of_the_reference(name: str) -> None:
    """Zeros by sign, infinities and NaN; what is finite and not zero within the bound."""
    for dtype in (np.float32, np.float64):
        args = [x[:6000] for x in binary_operands(dtype)] if name in ARITY else [unary_operands(dtype)[-76:]]
        with np.errstate(all="ignore"):
            want = np.fmod(*args) if name == "fmod" else reference.NUMPY[name](*args)
        assert np.all(errors(evaluate(name, *args), want) <= BOUNDS[name] + 0.75)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
def test_the_cosine_of_zero_is_one(dtype: type, fused: bool) -> None:
    zeros = np.array([0.0, -0.0] * 16, dtype)
    assert np.all(evaluate("cos", zeros, lanes=16, fused=fused) == 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", INLINED)
def test_no_lane_depends_on_others(name: str, dtype: type) -> None:
    """One by one, by four and by 64: the same bits, with arguments inside and outside of the range mixed."""
    rng = np.random.default_rng(5)
    args = [rng.permutation(x)[:8192] for x in operands(name, dtype)]
    alone, four, many = (evaluate(name, *args, lanes=lanes) for lanes in (0, 4, 64))
    for other in (four, many):
        same = (alone.view(np.uint8) == other.view(np.uint8)).reshape(len(alone), -1).all(1)
        assert np.all(same | np.isnan(alone) & np.isnan(other))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_within_one(name: str) -> None:
    """Rounding does not carry a result beyond 1, where 1 - sin² must not turn negative."""
    rng, offset = np.random.default_rng(6), np.pi / 2 * (name == "sin")
    for dtype in (np.float32, np.float64):
        near = rng.uniform(-1, 1, 1 << 17) * 10.0 ** rng.uniform(-9, -1, 1 << 17)
        x = rng.integers(-30, 30, 1 << 17) * np.pi + offset + near
        assert np.abs(evaluate(name, x.astype(dtype))).max() == 1.0


def test_bounds_are_within_what_operations_promise() -> None:
    for name in INLINED:
        assert BOUNDS[name] <= OPS["mod" if name == "fmod" else name].ulps


def test_every_library_function_is_inlined() -> None:
    assert INLINED.keys() == LIBRARY.keys() == BOUNDS.keys()


def test_coefficients_are_those_of_the_script() -> None:
    path = polynomials.__file__.replace("__init__.py", "coefficients.py")
    with open(path, encoding="utf-8") as file:
        assert file.read() == fit_polynomials.text()
    assert coefficients.COEFFICIENTS.keys() == fit_polynomials.FITS.keys()


def test_code_for_lanes_calls_no_library_unless_it_must() -> None:
    """exp has no way out; sin has one, in a loop that is a function of its own."""
    assert 'call float @"expf"' not in module_text("exp", False, 64, host_target())
    before, after = module_text("sin", False, 64, host_target()).split('define internal void @"sg.sin.lanes.f32"')
    assert 'call float @"sinf"' in after.split("}")[0] and 'call float @"sinf"' not in before


UNTIL_SMALL = """kernel k(x: f32[1], y: f32[1], t: i32[1]) { bounds { %0: i32 = const 0 %1: i32 = shape x, 0 }
    parallel %2: i32 in %0 .. %1 { local v: f32 %3: f32 = load x[%2] set v, %3 %4: f32 = const 0.97
    while { %5: f32 = get v %6: f32 = exp %5 %7: f32 = const 1.05 %8: u1 = cmp_gt %6, %7 } test %8 trips %9: i32 {
        %10: f32 = get v %11: f32 = sin %10 %12: f32 = mul %11, %4 set v, %12 }
    store t[%2], %9 %13: f32 = get v %14: f32 = cos %13 store y[%2], %14 } }"""


def test_control_goes_the_same_way_in_lanes_and_without(bench: Any) -> None:
    """What decides trip counts has the same bits in branching code, which runs few iterations, as in masked code."""
    x = np.random.default_rng(8).uniform(0.05, 3, 4096).astype(np.float32)
    many = bench.run(UNTIL_SMALL, {"x": x.copy(), "y": np.zeros_like(x), "t": np.zeros(x.size, np.int32)}, lanes=None)
    for at in range(0, x.size, 64):
        part = slice(at, at + 8)
        few = bench.run(UNTIL_SMALL, {"x": x[part].copy(), "y": x[part].copy(), "t": np.zeros(8, np.int32)}, lanes=None)
        np.testing.assert_array_equal(few["t"], many["t"][part])
        assert np.all(errors(few["y"], many["y"][part]) <= BOUNDS["cos"] + 1)


def test_scalars_that_decide_nothing_are_the_library_s(bench: Any) -> None:
    text = bench.backend.ir_text(parse_kernel(UNTIL_SMALL), Options(lanes=None), optimize=False)
    names = ("cosf", "expf", "sg.sin.f32", "sg.exp.f32", "sg.cos.f32")
    assert [name for name in names if f'call float @"{name}"' in text] == ["cosf", "sg.sin.f32", "sg.exp.f32"]
    plain = bench.backend.ir_text(parse_kernel(UNTIL_SMALL), Options(lanes=0), optimize=False)
    assert "sg.sin.f32" not in plain


def test_lanes_that_are_off_do_not_lead_to_the_library(bench: Any) -> None:
    """Behind an if, the lanes that are off hold infinities; the branch looks at those that are on."""
    text = """kernel k(x: f32[1], y: f32[1]) { bounds { %0: i32 = const 0 %1: i32 = shape x, 0 }
        parallel %2: i32 in %0 .. %1 { %3: f32 = load x[%2] %4: f32 = const 0.0 %5: f32 = inv %3 %6: u1 = cmp_ne %3, %4
        if %6 { %7: f32 = sin %5 store y[%2], %7 } } }"""
    made = generate_masked(parse_kernel(text), Options(lanes=16), host_target()).text
    assert re.search(r'call <16 x float> @"sg.sin.v16f32"\(<16 x float> %\w+, <16 x i1> %\w+\)', made)
    x = np.where(np.arange(256) % 3 == 0, 0.0, np.linspace(1, 2, 256)).astype(np.float32)
    got = bench.run(text, {"x": x, "y": np.zeros_like(x)}, lanes=16)["y"]
    with np.errstate(divide="ignore", invalid="ignore"):
        want = np.where(x == 0, 0, np.sin(1 / x.astype(np.float64)))
    assert np.all(errors(got, want) <= BOUNDS["sin"] + 1)


def test_uniform_values_that_decide(bench: Any) -> None:
    """A scalar in masked code is computed by the inlined code for scalars."""
    text = """kernel k(a: f32, x: i32[1]) {
        bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
        %3: f32 = arg a %4: f32 = sin %3 %5: f32 = const 7.0 %6: f32 = mul %4, %5 %7: i32 = cast %6
        %8: i32 = const 0 for %9: i32 in %8 .. %7 { %10: i32 = atomic add x[%2], %7 } } }"""
    made = generate_masked(parse_kernel(text), Options(lanes=16), host_target()).text
    assert 'call float @"sg.sin.f32"' in made
    got = bench.run(text, {"x": np.zeros(40, np.int32)}, {"a": 1.5}, lanes=16)["x"]
    assert np.all(got == int(np.sin(1.5) * 7) ** 2)
