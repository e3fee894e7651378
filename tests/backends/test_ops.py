"""Test every operation on every type that it takes: edge values and random ones, against exact or reference results."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.codegen.libcall import LIBRARY
from stackgrad.backends.codegen.ops import LLVM
from stackgrad.backends.codegen.target import CPU
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.compiler.ir.kernels import Kernel, Param, Task
from stackgrad.compiler.ir.nodes import Cast, Const, Load, Op, Shape, Store
from stackgrad.compiler.ir.ops import OPS, result_type
from stackgrad.compiler.ir.statement import Value
from stackgrad.compiler.ir.types import INTEGERS, REALS, SCALARS, ArrayType, Scalar, f16, i8, i32, u1, u8
from stackgrad.reference import scalar as reference

EDGES: dict[str, list[float]] = {
    "f": [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.0,
        -1.0,
        1.5,
        -1.5,
        2.5,
        -2.5,
        3.0,
        1e-7,
        65504.0,
        65520.0,
        3e4,
        float("inf"),
        float("-inf"),
        float("nan"),
        6e-8,
        -6e-8,
        0.1,
    ]
}


def values(t: Scalar, rng: np.random.Generator, count: int = 40) -> np.ndarray:
    """Return edge values of a type, followed by random ones."""
    if t.is_bool:
        return np.array([False, True])
    if t.is_real:
        info = np.finfo(t.dtype)
        extra = [float(info.max), float(info.tiny), float(info.smallest_subnormal), -float(info.max)]
        with np.errstate(over="ignore"):
            drawn = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)
            return np.array([*EDGES["f"], *extra, *drawn]).astype(t.dtype)
    info = np.iinfo(t.dtype)
    edges = [0, 1, 2, 3, 5, 7, info.max, info.max - 1, info.min, info.min + 1, t.bits - 1, t.bits, t.bits + 1]
    edges += [-1, -2, -3, -7] if t.is_signed else []
    return np.array(edges + list(rng.integers(info.min, info.max, count, t.dtype, endpoint=True)), t.dtype)


def elementwise(name: str, types: tuple[Scalar, ...], result: Scalar, made: Any) -> Kernel:
    """Return a kernel y[i] = made(x0[i], x1[i], ...)."""
    zero, end, index = Value(0, i32), Value(1, i32), Value(2, i32)
    loads = [Load(Value(10 + k, t), f"x{k}", (index,)) for k, t in enumerate(types)]
    out = Value(50, result)
    body = (*loads, made(out, tuple(load.result for load in loads)), Store("y", (index,), out))
    params = tuple(Param(f"x{k}", ArrayType(t, 1)) for k, t in enumerate(types))
    task = Task(body, (index,), (Const(zero, 0), Shape(end, "y", 0)), (zero,), (end,))
    return Kernel(name, (*params, Param("y", ArrayType(result, 1))), (task,))


def apply(backend: CpuBackend, kernel: Kernel, operands: list[np.ndarray], result: Scalar) -> np.ndarray:
    arrays = {f"x{k}": np.ascontiguousarray(x) for k, x in enumerate(operands)}
    arrays["y"] = np.zeros(operands[0].shape, result.dtype)
    backend.compile(kernel, Options()).run(arrays, {}, Sizes(), Draws())
    return arrays["y"]


def operand_types(name: str) -> list[tuple[Scalar, ...]]:
    arity = OPS[name].arity
    same = [(t,) * arity for t in SCALARS.values()] + [(u1, t, t) for t in SCALARS.values() if arity == 3]
    return list(dict.fromkeys(ts for ts in same if result_type(name, ts) is not None))


def assert_within(got: np.ndarray, want: np.ndarray, t: Scalar, ulps: float, what: str) -> None:
    """Assert that results are equal, including signs of zeros and NaN, or within `ulps` of a finite real result."""
    if not t.is_real:
        np.testing.assert_array_equal(got, want, what)
        return
    same = (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)
    if ulps <= 0.5:
        assert same.all(), f"{what}: {got[~same][:5]} instead of {want[~same][:5]}"
        return
    with np.errstate(all="ignore"):
        spacing = np.spacing(np.abs(want))
        close = np.abs(got.astype(np.float64) - want.astype(np.float64)) <= ulps * spacing
    bad = ~(same | close & np.isfinite(want) & np.isfinite(got))
    assert not bad.any(), f"{what}: {got[bad][:5]} instead of {want[bad][:5]}"


@pytest.mark.rotating
@pytest.mark.parametrize("name", OPS)
def test_against_reference(name: str) -> None:
    """All operand types; binary operations on all pairs of the first values."""
    backend, rng = CpuBackend(), np.random.default_rng(7)
    for types in operand_types(name):
        columns = [values(t, rng, 12) for t in types]
        pairs = list(itertools.product(*columns))
        operands = [np.array([p[k] for p in pairs], t.dtype) for k, t in enumerate(types)]
        result = result_type(name, types)
        assert result is not None
        kernel = elementwise("k", types, result, lambda out, args, name=name: Op(out, name, args))
        got = apply(backend, kernel, operands, result)
        want = reference.NUMPY[name](*operands)
        ulps = max(OPS[name].ulps, 1.0) if types[-1] == f16 and OPS[name].ulps > 0.5 else OPS[name].ulps
        assert_within(got, want.astype(result.dtype), result, ulps, f"{name} {types[-1]}")


BYTE_OPS = ("floordiv", "mod", "pow", "bit_shl", "bit_shr", "bit_sar", "add", "sub", "mul", "min", "max")


def _wrapped(value: int, t: Scalar) -> int:
    value &= (1 << t.bits) - 1
    return value - (1 << t.bits) if t.is_signed and value >> (t.bits - 1) else value


def _exact(name: str, x: int, y: int, t: Scalar) -> int:
    """Return the result of an integer operation, computed with Python's integers, which do not overflow."""
    pattern, low = (1 << t.bits) - 1, y % t.bits
    if name in ("floordiv", "mod"):
        exact = 0 if y == 0 else x // y if name == "floordiv" else x % y
    elif name == "pow":
        exact = x**y if y >= 0 else (0 if x == 0 else int(x**y)) if abs(x) <= 1 else 0
    elif name == "bit_sar":
        signed = x - (1 << t.bits) if x > pattern >> 1 else x
        exact = signed >> low
    else:
        exact = {
            "bit_shl": (x & pattern) << low,
            "bit_shr": (x & pattern) >> low,
            "add": x + y,
            "sub": x - y,
            "mul": x * y,
            "min": min(x, y),
            "max": max(x, y),
        }[name]
    return _wrapped(exact, t)


@pytest.mark.rotating
@pytest.mark.parametrize("t", [i8, u8], ids=str)
@pytest.mark.parametrize("name", BYTE_OPS)
def test_all_pairs_of_bytes(name: str, t: Scalar) -> None:
    """All 65536 pairs of operands against Python's integers."""
    info = np.iinfo(t.dtype)
    numbers = range(int(info.min), int(info.max) + 1)
    pairs = [(x, y) for x in numbers for y in numbers if name != "pow" or y < 24]
    want = np.array([_exact(name, x, y, t) for x, y in pairs], t.dtype)
    operands = [np.array(column, t.dtype) for column in zip(*pairs)]
    kernel = elementwise("k", (t, t), t, lambda out, args: Op(out, name, args))
    np.testing.assert_array_equal(apply(CpuBackend(), kernel, operands, t), want)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 10, -1])
def test_power_of_constant_exponent(exponent: int) -> None:
    """The unrolled form agrees with the loop."""
    backend, x = CpuBackend(), np.array([0, 1, -1, 2, -3, 5, 127, -128], np.int8)
    two = Value(90, i8)
    base = elementwise("k", (i8,), i8, lambda out, args: Op(out, "pow", (*args, two)))
    task = base.tasks[0]
    kernel = replace(base, tasks=(replace(task, body=(Const(two, exponent), *task.body)),))
    want = np.array([_exact("pow", int(v), exponent, i8) for v in x], np.int8)
    np.testing.assert_array_equal(apply(backend, kernel, [x], i8), want)


@pytest.mark.rotating
@pytest.mark.parametrize("source", SCALARS.values(), ids=str)
def test_casts(source: Scalar) -> None:
    """From each type to every other, saturation and NaN included."""
    backend, rng = CpuBackend(), np.random.default_rng(3)
    x = values(source, rng, 60)
    if source.is_real:
        ends = [sign * 2.0**power for t in INTEGERS for power in (t.bits - 1, t.bits) for sign in (1, -1)]
        limits = [end + d for end in ends for d in (-1, -0.5, 0, 1)]
        with np.errstate(over="ignore"):
            x = np.concatenate([x, np.array(limits).astype(source.dtype)])
    for target in SCALARS.values():
        if target != source:
            kernel = elementwise("k", (source,), target, lambda out, args: Cast(out, *args))
            want = reference.cast(x, source, target)
            assert_within(apply(backend, kernel, [x], target), want, target, 0, f"{source} to {target}")


@pytest.mark.parametrize("native", [True, False], ids=["native", "soft"])
def test_halves_exhaustively(native: bool) -> None:
    """All f16 to f32 and back, and f32 on both sides of every rounding boundary, by machine and by integer code."""
    backend = CpuBackend(replace(CPU, native_half=native))
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    f32 = SCALARS["f32"]
    widen = elementwise("k", (f16,), f32, lambda out, args: Cast(out, *args))
    assert_within(apply(backend, widen, [halves], f32), halves.astype(np.float32), f32, 0, "f16 to f32")
    finite = np.sort(halves[np.isfinite(halves)].astype(np.float32))
    middle = (finite[1:] + finite[:-1]) / 2
    near = [middle, np.nextafter(middle, np.float32(9e9)), np.nextafter(middle, np.float32(-9e9)), finite]
    special = np.array([65519.996, 65520.0, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-45, -1e-45], np.float32)
    x = np.concatenate([*near, special])
    narrow = elementwise("k", (f32,), f16, lambda out, args: Cast(out, *args))
    with np.errstate(over="ignore"):
        assert_within(apply(backend, narrow, [x], f16), x.astype(np.float16), f16, 0, "f32 to f16")


def test_precise_code_never_fuses() -> None:
    """x*y + z rounds twice in precise code; the default may fuse, and says so in the IR."""
    one, eps = 1.0, 2.0**-12
    x, z = np.full(64, one + eps, np.float32), np.full(64, -(one + 2 * eps), np.float32)
    f32 = SCALARS["f32"]
    product = Value(80, f32)
    base = elementwise("k", (f32, f32, f32), f32, lambda out, args: Op(out, "add", (product, args[2])))
    load_x, load_y, load_z, add, store = base.tasks[0].body
    multiply = Op(product, "mul", (load_x.result, load_y.result))
    kernel = replace(base, tasks=(replace(base.tasks[0], body=(load_x, load_y, load_z, multiply, add, store)),))
    np.testing.assert_array_equal(apply(CpuBackend(), kernel, [x, x, z], f32), x * x + z)
    assert "contract" not in CpuBackend().ir_text(kernel, Options(), optimize=False)
    assert "fadd contract" in CpuBackend().ir_text(kernel, Options(precise=False), optimize=False)


def test_tables_are_closed() -> None:
    assert LLVM.missing() == []
    assert {t for names in LIBRARY.values() for t in names} == {"libm", "libdevice"}
    assert REALS[0] == f16
