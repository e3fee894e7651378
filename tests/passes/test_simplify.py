"""Algebraic laws: each equation holds bit by bit on edge values; each is applied; kernels mean the same afterwards."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from ir_test_support.goldens import check, check_meaning, check_unchanged, serial
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.build import normal_constant
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.ops import OPS, result_type
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import SCALARS, Scalar, f16, f32, f64, i8, i32, i64, u1, u8, u32, u64
from stackgrad.compiler.ir.verify import verify
from stackgrad.compiler.passes.dead_code import remove_dead_code
from stackgrad.compiler.passes.rewrite import ConstantPattern, Equation, NamePattern, Pattern, equation
from stackgrad.compiler.passes.simplify import EQUATIONS, simplify
from stackgrad.reference.scalar import NUMPY, cast
from table_rows import each_row

# ---- the equations are true ---------------------------------------------------------------------------------


def edges(dtype: Scalar, wide: bool = True) -> np.ndarray:
    """Values where laws break: zeros, ones, extremes, infinities, NaN, subnormals, halves."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_int:
        info = np.iinfo(dtype.dtype)
        values = {0, 1, 2, 3, 5, 100, info.max, info.max - 1, info.min, info.min + 1, -1 & info.max}
        return np.array(sorted(values | ({-1, -2, -3} if dtype.is_signed else set())), dtype.dtype)
    info = np.finfo(dtype.dtype)
    values = [0.0, 1.0, 0.5, 1.5, 3.0, float(info.max), float(info.smallest_subnormal), float(info.eps), math.inf]
    values += [2.5, 1e3, float(info.smallest_normal)] if wide else []
    return np.array([*values, *(-v for v in values), math.nan], dtype.dtype)


def variables(pattern: Pattern) -> list[str]:
    if isinstance(pattern, NamePattern):
        return [pattern.text]
    return [] if isinstance(pattern, ConstantPattern) else [v for a in pattern.args for v in variables(a)]


def meaning(pattern: Pattern, given: dict[str, np.ndarray], number: Scalar) -> np.ndarray:
    """What the pattern computes on arrays; numbers have the type `number`, or are booleans."""
    if isinstance(pattern, NamePattern):
        return given[pattern.text]
    if isinstance(pattern, ConstantPattern):
        dtype = u1 if isinstance(pattern.value, bool) else number
        return np.asarray(normal_constant(pattern.value, dtype), dtype.dtype)
    args = [meaning(a, given, number) for a in pattern.args]
    return np.asarray(NUMPY[pattern.op](*args))


def bits(array: np.ndarray) -> np.ndarray:
    """Bit patterns, with one NaN."""
    if array.dtype.kind != "f":
        return array
    plain = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return np.where(np.isnan(array), 0, plain.view(f"u{array.dtype.itemsize}").astype(np.uint64) + 1)


def types_of(law: Equation) -> list[Scalar]:
    """Types of x that the left side takes."""
    return [t for t in SCALARS.values() if t.kind in law.kinds and _fits(law.left, t)]


def _fits(pattern: Pattern, dtype: Scalar) -> Scalar | None:
    if isinstance(pattern, NamePattern):
        return u1 if pattern.text == "c" else dtype
    if isinstance(pattern, ConstantPattern):
        return u1 if isinstance(pattern.value, bool) else dtype
    args = [_fits(a, dtype) for a in pattern.args]
    return None if None in args else result_type(pattern.op, tuple(args))  # type: ignore[arg-type]


def broken_for(law: Equation, dtype: Scalar) -> bool:
    """Whether some operands tell the sides apart. `c` is a condition; other names have the type of x."""
    names = sorted(set(variables(law.left)))
    domains = [edges(u1 if name == "c" else dtype, len(names) < 3) for name in names]
    grid = dict(zip(names, (g.ravel() for g in np.meshgrid(*domains, indexing="ij"))))
    left = meaning(law.left, grid, dtype)
    right = meaning(law.right, grid, dtype)
    if isinstance(law.right, ConstantPattern):
        right = right.astype(left.dtype)
    assert left.dtype == right.dtype
    return not np.array_equal(bits(left), np.broadcast_to(bits(right), left.shape))


@each_row("law", EQUATIONS, ids=lambda law: f"{law.kinds}: {law.text}")
def test_equation_holds(law: Equation) -> None:
    types = types_of(law)
    assert types, "no type has this law"
    assert [str(t) for t in types if broken_for(law, t)] == []


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("add(x, 0) = x", "f"),
        ("sub(-0.0, x) = sub(0.0, x)", "f"),
        ("neg(sub(x, y)) = sub(y, x)", "f"),
        ("sub(x, x) = 0", "f"),
        ("mul(x, 0) = 0", "f"),
        ("cmp_eq(x, x) = True", "f"),
        ("logic_not(cmp_lt(x, y)) = cmp_ge(x, y)", "f"),
        ("abs(neg(x)) = abs(x)", "u"),
        ("floordiv(x, -1) = neg(x)", "u"),
        ("add(sub(x, y), y) = x", "f"),
        ("pow(x, 2) = add(x, x)", "i"),
    ],
)
def test_false_equations_are_found(text: str, kinds: str) -> None:
    """The judge above rejects the laws that one would write by mistake."""
    law = equation(text, kinds)
    assert any(broken_for(law, t) for t in types_of(law))


# ---- the equations are applied ------------------------------------------------------------------------------


def written(pattern: Pattern, dtype: Scalar, names: dict[str, int], lines: list[str]) -> int:
    """Emit the pattern as statements; the number of its value."""
    if isinstance(pattern, NamePattern):
        return names[pattern.text]
    out = 100 + len(lines)
    lines.append("")
    made = _fits(pattern, dtype)
    if isinstance(pattern, ConstantPattern):
        content = normal_constant(pattern.value, made)  # type: ignore[arg-type]
        lines[out - 100] = f"%{out}: {made} = const {str(content).lower()}"
        return out
    args = [written(a, dtype, names, lines) for a in pattern.args]
    lines.append(f"%{100 + len(lines)}: {made} = {pattern.op} {', '.join(f'%{a}' for a in args)}")
    return 100 + len(lines) - 1


@each_row("law", EQUATIONS, ids=lambda law: f"{law.kinds}: {law.text}")
def test_equation_is_applied(law: Equation) -> None:
    """The root operation of the left side, on loaded operands, is gone afterwards or stands on fewer operations."""
    for dtype in types_of(law):
        names = {name: i for i, name in enumerate(sorted(set(variables(law.left))), 10)}
        lines: list[str] = []
        root = written(law.left, dtype, names, lines)
        made = _fits(law.left, dtype)
        loads = [f"%{i}: {u1 if v == 'c' else dtype} = load {v}[]" for v, i in names.items()]
        params = ", ".join([f"{v}: {u1 if v == 'c' else dtype}[0]" for v in names] + [f"out: {made}[0]"])
        body = " ".join([*loads, *(line for line in lines if line), f"store out[], %{root}"])
        text = f"kernel k({params}) {{ serial {{ {body} }} }}"
        kernel = parse_kernel(text)
        verify(kernel, "tasks")
        after = simplify(kernel)
        verify(after, "tasks")
        assert after is not kernel
        assert simplify(after) is after
        assert operations(remove_dead_code(after)) <= operations(kernel)


def operations(kernel: Kernel) -> int:
    return sum(isinstance(s, n.Op) for s in kernel.tasks[0].body)


@pytest.mark.parametrize("text", ["x = y", "add(x, 0)", "add(y, 0) = y", "add(x, 'a') = x"])
def test_what_is_no_equation(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        equation(text, "f")


def test_equations_are_written_in_operations_of_the_table() -> None:
    def operations_in(pattern: Pattern) -> set[str]:
        if isinstance(pattern, (NamePattern, ConstantPattern)):
            return set()
        return {pattern.op}.union(*map(operations_in, pattern.args))

    for law in EQUATIONS:
        assert operations_in(law.left) | operations_in(law.right) <= set(OPS), law.text


# ---- calculated laws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # constants stand right, chains of them merge
        (
            "%9: i32 = const 3; %10: i32 = add %9, %0; store m[%0], %10",
            "%9: i32 = const 3; %10: i32 = add %0, %9; store m[%0], %10",
        ),
        (
            "%9: i32 = const 3; %10: i32 = const 4; %11: i32 = add %9, %0; %12: i32 = add %11, %10; store m[%0], %12",
            "%9: i32 = const 3; %10: i32 = const 4; %11: i32 = add %0, %9; %12: i32 = const 7; %13: i32 = add %0, %12; "
            "store m[%0], %13",
        ),
        (
            "%9: i32 = const 65536; %10: i32 = mul %0, %9; %11: i32 = mul %10, %9; store m[%0], %11",
            "%9: i32 = const 65536; %10: i32 = mul %0, %9; %11: i32 = const 0; %12: i32 = const 0; store m[%0], %12",
        ),
        # division by a power of two
        (
            "%9: f32 = const -8.0; %10: f32 = div %1, %9; store a[%0], %10",
            "%9: f32 = const -8.0; %10: f32 = const -0.125; %11: f32 = mul %1, %10; store a[%0], %11",
        ),
        # truth of a cast boolean
        (
            "%9: i32 = cast %2; %10: i32 = const 0; %11: u1 = cmp_ne %9, %10; store flags[%0], %11",
            "%9: i32 = cast %2; %10: i32 = const 0; store flags[%0], %2",
        ),
        (
            "%9: f32 = cast %2; %10: f32 = const -0.0; %11: u1 = cmp_eq %9, %10; store flags[%0], %11",
            "%9: f32 = cast %2; %10: f32 = const -0.0; %11: u1 = logic_not %2; store flags[%0], %11",
        ),
        # what a law makes is simplified in its turn
        (
            "%9: i32 = neg %0; %10: i32 = add %0, %9; store m[%0], %10",
            "%9: i32 = neg %0; %10: i32 = const 0; store m[%0], %10",
        ),
        # a bit_cast of a real there and back still ends its derivative
        (
            "%9: i32 = bit_cast %1; %10: f32 = bit_cast %9; store a[%0], %10",
            "%9: i32 = bit_cast %1; %10: f32 = bit_cast %1; store a[%0], %10",
        ),
        # in nested blocks, with conditions and bounds renamed
        (
            "%9: u1 = logic_not %2; %10: u1 = logic_not %9; if %10 { %11: i32 = neg %0; %12: i32 = neg %11; "
            "for %13: i32 in %12 .. %12 { store m[%13], %12 } }",
            "%9: u1 = logic_not %2; if %2 { %11: i32 = neg %0; for %13: i32 in %0 .. %0 { store m[%13], %0 } }",
        ),
        (
            "while { %9: u1 = logic_not %2; %10: u1 = logic_not %9 } test %10 { store m[%0], %0 }",
            "while { %9: u1 = logic_not %2 } test %2 { store m[%0], %0 }",
        ),
    ],
)
def test_calculated(before: str, after: str) -> None:
    check(simplify, before, after)


@pytest.mark.parametrize(
    "text",
    [
        "%9: f32 = const 0.0; %10: f32 = add %1, %9; store a[%0], %10",
        "%9: f32 = const 3.0; %10: f32 = div %1, %9; store a[%0], %10",
        "%9: f32 = const 0.0; %10: f32 = div %1, %9; store a[%0], %10",
        "%9: f32 = const inf; %10: f32 = div %1, %9; store a[%0], %10",
        "%9: f32 = const 1.7014118346046923e+38; %10: f32 = div %1, %9; store a[%0], %10",  # 2^127: 1/c is subnormal
        "%9: f32 = const 0.1; %10: f32 = add %1, %9; %11: f32 = add %10, %9; store a[%0], %11",
        "%9: f32 = const 2.0; %10: f32 = pow %1, %9; store a[%0], %10",
        "%9: i32 = const 8; %10: i32 = floordiv %0, %9; %11: i32 = mod %0, %9; store m[%10], %11",
    ],
)
def test_stays(text: str) -> None:
    check_unchanged(simplify, text)


@pytest.mark.parametrize("dtype", [f16, f32, f64], ids=str)
def test_division_by_powers_of_two_is_exact(dtype: Scalar) -> None:
    x, limit = edges(dtype), {16: 14, 32: 126, 64: 1022}[dtype.bits]
    near = {sign * (limit + d) for sign in (-1, 1) for d in range(-3, 4)}
    for power in sorted(near | set(range(-1080, 1080, 17)) | set(range(-10, 10))):
        c = math.ldexp(1.0, power) if power < 1024 else math.inf
        with np.errstate(all="ignore"):
            if float(dtype.dtype.type(c)) != c or not math.isfinite(c) or c == 0:
                continue
        kernel = serial(
            f"%9: {dtype} = cast %1; %10: {dtype} = const {c!r}; %11: {dtype} = div %9, %10; "
            "%12: f32 = cast %11; store a[%0], %12"
        )
        constants = [s.value for s in simplify(kernel).tasks[0].body if isinstance(s, n.Const)]
        if len(constants) == 2 and c != 1:
            divided = NUMPY["div"](x, dtype.dtype.type(c))
            assert np.array_equal(bits(divided), bits(NUMPY["mul"](x, dtype.dtype.type(constants[1]))))
        else:
            assert c == 1 or abs(power) > limit


# ---- casts of casts -----------------------------------------------------------------------------------------


def chain(a: Scalar, b: Scalar, c: Scalar) -> Kernel:
    """Casts from a over b to c, simplified."""
    body = f"%0: {a} = load x[] %1: {b} = cast %0 %2: {c} = cast %1 store y[], %2"
    return remove_dead_code(simplify(parse_kernel(f"kernel k(x: {a}[0], y: {c}[0]) {{ serial {{ {body} }} }}")))


@pytest.mark.parametrize("a", SCALARS.values(), ids=str)
def test_casts_of_casts(a: Scalar) -> None:
    """Wherever a cast is dropped, the value is the same on all edge values."""
    x = edges(a)
    for b, c in itertools.product(SCALARS.values(), repeat=2):
        casts = [s for s in chain(a, b, c).tasks[0].body if isinstance(s, n.Cast)]
        there = cast(cast(x, a, b), b, c)
        if not casts:
            assert a == c and np.array_equal(bits(there), bits(x)), (a, b, c)
        elif len(casts) == 1:
            assert np.array_equal(bits(there), bits(cast(x, a, c))), (a, b, c)


@pytest.mark.parametrize(
    ("a", "b", "c", "casts"),
    [
        (i32, f64, i32, 0),
        (i32, i64, i32, 0),
        (u8, f16, u8, 0),
        (u1, f32, u1, 0),
        (f32, f64, f32, 0),
        (i64, i32, i8, 1),
        (i32, u64, i8, 1),
        (f16, f64, i32, 1),
        (u8, f32, u32, 1),
        (i32, f32, i32, 2),
        (f64, f32, f64, 2),
        (i32, f64, i8, 2),
        (i32, u8, i64, 2),
        (f32, i32, f32, 2),
    ],
)
def test_how_many_casts_stay(a: Scalar, b: Scalar, c: Scalar, casts: int) -> None:
    assert sum(isinstance(s, n.Cast) for s in chain(a, b, c).tasks[0].body) == casts


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_do_the_same(seed: int) -> None:
    check_meaning(simplify, seed)
