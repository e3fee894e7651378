"""Every operation and every cast: two tables written apart must agree on values, and on derivatives with Taylor."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.ops import OPS, OpInfo, result_type
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import SCALARS, Scalar, f64
from stackgrad.harness.testing.oracles import dual, jax_oracle
from stackgrad.harness.testing.oracles.dual_ops import apply, bit_cast
from stackgrad.harness.testing.oracles.dual_ops import cast as cast_one
from stackgrad.harness.testing.oracles.jax_ops import JAX, convert, reinterpret
from stackgrad.harness.testing.oracles.taylor import taylor_order
from table_rows import each_row

REAL = [name for name, row in OPS.items() if result_type(name, (f64,) * row.arity) == f64] + ["select"]


def elementwise(row: OpInfo, types: tuple[Scalar, ...], result: Scalar) -> Kernel:
    """z[i] = op(a0[i], a1[i], ...)."""
    params = ", ".join(f"a{k}: {t}[1]{' grad' if t.is_real else ''}" for k, t in enumerate(types))
    loads = "\n".join(f"%{k + 3}: {t} = load a{k}[%2]" for k, t in enumerate(types))
    args = ", ".join(f"%{k + 3}" for k in range(len(types)))
    return parse_kernel(f"""
        kernel k({params}, z: {result}[1]{" grad" if result.is_real else ""}) {{
          bounds {{
            %0: i32 = const 0
            %1: i32 = shape z, 0
          }} parallel %2: i32 in %0 .. %1 {{
            {loads}
            %9: {result} = {row.name} {args}
            store z[%2], %9
          }}
        }}""")


def safe_points(row: OpInfo, types: tuple[Scalar, ...]) -> dict[str, np.ndarray]:
    rng, points = np.random.default_rng(3), {}
    for k, (dtype, (low, high)) in enumerate(zip(types, row.safe)):
        spread = np.exp(rng.uniform(np.log(low), np.log(high), 8)) if low > 0 else rng.uniform(low, high, 8)
        points[f"a{k}"] = spread > 0.5 if dtype.is_bool else spread
    return points | {"z": np.zeros(8)}


@pytest.mark.rotating
@pytest.mark.parametrize("name", REAL)
def test_derivative(name: str) -> None:
    """JAX's cotangents, the dual tangents and the values themselves tell one story at safe points, lane by lane."""
    row = OPS[name]
    types = (SCALARS["u1"], f64, f64) if name == "select" else (f64,) * row.arity
    kernel, arrays = elementwise(row, types, f64), safe_points(row, types)
    names = [f"a{k}" for k, t in enumerate(types) if t.is_real]
    rng = np.random.default_rng(4)
    tangents = {a: 0.1 * np.abs(arrays[a]) * rng.normal(size=8) for a in names}
    _, moved = dual.jvp(kernel, arrays, {}, tangents)
    found = jax_oracle.vjp(kernel, arrays, {}, {"z": np.ones(8)}, names)
    np.testing.assert_allclose(sum(found[a] * tangents[a] for a in names), moved["z"], rtol=1e-9, atol=1e-300)
    if row.kind == "flat":
        assert not moved["z"].any()
    for lane in range(8):

        def at(step: np.ndarray, lane: int = lane) -> float:
            there = arrays | {a: arrays[a] + step * tangents[a] for a in names}
            return float(jax_oracle.run(kernel, there, {})["z"][lane])

        assert taylor_order(at, np.zeros(()), np.ones(()), float(moved["z"][lane])) > 1.8


def edges(dtype: Scalar) -> list[float | int | bool]:
    if dtype.is_bool:
        return [False, True]
    if dtype.is_real:
        return [0.0, -0.0, 1.0, -1.5, 2.5, -0.3, 1e-310, 1e300, -7e18, 1e10, math.inf, -math.inf, math.nan]
    limits = np.iinfo(dtype.dtype)
    return sorted(
        {
            int(limits.min),
            int(limits.max),
            int(limits.max) // 3,
            0,
            1,
            2,
            5,
            int(limits.min) // 2 - 1 if dtype.is_signed else 6,
            -1 if dtype.is_signed else 7,
        }
    )


def accepted(row: OpInfo) -> list[tuple[Scalar, ...]]:
    tried = [SCALARS[t] for t in ("f64", "u1", "i8", "u8", "i32", "u32", "i64", "u64")]
    combinations = [(t,) * row.arity for t in tried] + [(SCALARS["u1"], t, t) for t in tried]
    return [types for types in dict.fromkeys(combinations) if result_type(row.name, types)]


def assert_identical(left: np.ndarray, right: np.ndarray, ulps: float = 0.0) -> None:
    """Equal, NaN and the sign of zero included; `ulps` for NumPy, whose vector functions round differently."""
    np.testing.assert_allclose(left, right, rtol=ulps * 2.0**-52, atol=0)
    if left.dtype.kind == "f":
        kept = ~np.isnan(left)
        np.testing.assert_array_equal(np.signbit(left[kept]), np.signbit(right[kept]))


@each_row("name", OPS)
def test_values_at_edges(name: str) -> None:
    row = OPS[name]
    for types in accepted(row):
        points = list(itertools.product(*(edges(t) for t in types)))
        if row.traps and types[0].is_int:
            points = [p for p in points if p[-1] != 0]
        result = result_type(name, types)
        assert result is not None
        columns = [np.array(c, t.dtype) for c, t in zip(zip(*points), types)]
        with np.errstate(all="ignore"):
            got = JAX[name].concrete(*columns).astype(result.dtype)
            one = [
                apply(name, types, result, [(t(x) if not t.is_real else np.float64(x), 0.0) for x, t in zip(p, types)])[
                    0
                ]
                for p in points
            ]
        assert_identical(got, np.array(one, result.dtype), row.ulps if result.is_real else 0)


def test_casts() -> None:
    for source, target in itertools.product(SCALARS.values(), repeat=2):
        values = edges(source)
        with np.errstate(all="ignore"):
            column = np.array(values, np.float64 if source.is_real else source.dtype)
            got = convert(column, source, target, widen=True)
            one = np.array([cast_one(v, source, target) for v in column.tolist()], got.dtype)
        assert_identical(got, one)


@pytest.mark.parametrize(
    ("source", "target"),
    [("f32", "i32"), ("f32", "u32"), ("f64", "i64"), ("f16", "u16"), ("i32", "f32"), ("u64", "f64"), ("i8", "u8")],
)
def test_bit_casts(source: str, target: str) -> None:
    a, b = SCALARS[source], SCALARS[target]
    values = [0.0, -0.0, 1.5, -2.25, 0.1] if a.is_real else [0, 1, 5, 100]
    column = np.array(values, np.float64 if a.is_real else a.dtype)
    got = reinterpret(column, a, b, widen=True)
    assert_identical(got, np.array([bit_cast(v, a, b) for v in column.tolist()], got.dtype))
    assert_identical(reinterpret(got, b, a, widen=True), column.astype(a.dtype).astype(column.dtype))


def test_narrow_reals_round_to_their_type() -> None:
    kernel = parse_kernel(
        "kernel k(x: f32[1]) { serial { %0: i32 = const 0 %1: f32 = load x[%0] %2: f32 = inv %1 store x[%0], %2 } }"
    )
    x = np.array([3.0], np.float32)
    assert jax_oracle.run(kernel, {"x": x}, {}, widen=False)["x"][0] == np.float32(1) / np.float32(3)
    assert jax_oracle.run(kernel, {"x": x}, {})["x"][0] == 1 / 3
