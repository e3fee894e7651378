"""Sizes near the ends of 32 and 64 bits: exact while the kernel's arithmetic is, else left to the counting kernel."""

from __future__ import annotations

import numpy as np
import pytest
from stackgrad.backends import registry
from stackgrad.backends.base import Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.compiler.driver import Lowering, prepare_reverse
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.printer import print_kernel
from stackgrad.compiler.ir.types import SCALARS
from stackgrad.compiler.sizing.evaluate import InexactSizes, mul, sizes
from stackgrad.compiler.sizing.expressions import INT64, SAFE_PRODUCT
from stackgrad.compiler.sizing.host import host_function
from stackgrad.compiler.sizing.sizes import KernelSizes
from stackgrad.compiler.sizing.to_kernel import size_kernel

HEAD = "kernel run(x: f64[1] grad, y: f64[1] grad, c: {kind}[1], n: {kind}, m: i32)"
LOOP = (
    HEAD
    + """ {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
    local v: f64 %3: f64 = load x[%2] set v, %3
    %4: {kind} = const {start}
    {lines}
    for %50: {kind} in %4 .. {end} {{ {inner} {{ %60: f64 = get v %61: f64 = sin %60 set v, %61 }} {close} }}
    %70: f64 = get v store y[%2], %70
  }}
}}"""
)


ALWAYS = "%40: u1 = const true if %40"


def lower(lines: str, kind: str = "i32", start: int = 0, inner: str = ALWAYS, close: str = "") -> Lowering:
    """The gradient of a loop from `start` to %5, around what `inner` opens."""
    text = LOOP.format(kind=kind, lines=lines, end="%5", start=start, inner=inner, close=close)
    return prepare_reverse(parse_kernel(text))


def sized(lines: str, kind: str = "i32", start: int = 0, inner: str = ALWAYS, close: str = "") -> KernelSizes:
    made = lower(lines, kind, start, inner, close).sizes
    assert made is not None
    return made.sized()


def found(
    made: KernelSizes, n: int, m: int = 0, size: int = 1, c: tuple[int, ...] = (), kind: str = "i32"
) -> list[int]:
    arrays = {"x": np.zeros(size), "c": np.array(c, SCALARS[kind].dtype)}
    host = host_function(made)
    right = sizes(made, arrays, {"n": n, "m": m})
    assert host is None or host(arrays, {"n": n, "m": m}) == right
    return right[: len(made.depths) + len(made.totals)]


TOP = 2**31 - 1


def test_long_loops() -> None:
    plain = sized("%5: i32 = arg n")
    assert found(plain, TOP, size=3) == [TOP, 3 * TOP] and found(plain, -TOP - 1) == [0, 0]
    wide = sized("%5: i32 = arg n", start=-5)
    assert found(wide, TOP) == [TOP + 5, TOP + 5], "the length of a range is counted in 64 bits"


@pytest.mark.parametrize(
    ("lines", "n", "depth"),
    [
        ("%6: i32 = arg n %7: i32 = const 1 %5: i32 = add %6, %7", TOP - 1, TOP),
        ("%6: i32 = arg n %7: i32 = const 1 %5: i32 = add %6, %7", TOP, None),
        ("%6: i32 = arg n %7: i32 = const 7 %5: i32 = sub %6, %7", -TOP, None),
        ("%6: i32 = arg n %5: i32 = mul %6, %6", 46340, 46340**2),
        ("%6: i32 = arg n %5: i32 = mul %6, %6", 46341, None),
        ("%6: i32 = arg n %5: i32 = neg %6", -TOP, TOP),
        ("%6: i32 = arg n %5: i32 = neg %6", -TOP - 1, None),
        ("%6: i32 = arg n %5: i32 = abs %6", -TOP - 1, None),
        ("%6: i32 = arg n %7: i32 = const 3 %5: i32 = bit_shl %6, %7", TOP // 8, TOP // 8 * 8),
        ("%6: i32 = arg n %7: i32 = const 3 %5: i32 = bit_shl %6, %7", TOP // 8 + 1, None),
        ("%6: i32 = arg n %7: i32 = arg m %5: i32 = floordiv %6, %7", 5, None),
    ],
)
def test_arithmetic_that_wraps_is_left_to_the_count(lines: str, n: int, depth: int | None) -> None:
    """m is 0: a divisor of 0 too."""
    made = sized(lines)
    if depth is None:
        with pytest.raises(InexactSizes):
            found(made, n)
    else:
        assert found(made, n) == [depth, depth]


def test_a_wrap_anywhere_in_a_range_counts() -> None:
    """i*n leaves 32 bits for the last i alone; a condition keeps it from being computed."""
    made = sized("%6: i32 = arg n %5: i32 = mul %2, %6")
    assert found(made, 2**29, size=4) == [3 * 2**29, 6 * 2**29]
    with pytest.raises(InexactSizes):
        found(made, 2**29, size=5)
    guarded = sized(
        "%6: i32 = arg n %7: i32 = const 4 %8: u1 = cmp_lt %2, %7 local e: i32 "
        "if %8 { %9: i32 = mul %2, %6 set e, %9 } %5: i32 = get e"
    )
    assert found(guarded, 2**29, size=5) == [3 * 2**29, 6 * 2**29]


def test_products_saturate() -> None:
    """Three loops of 2^31: more than 64 bits hold, so the most that they do."""
    inner = "%41: i32 = arg n for %42: i32 in %4 .. %41 { for %43: i32 in %4 .. %41"
    made = sized("%5: i32 = arg n", inner=inner, close="}")
    assert found(made, 2**20) == [2**60, 2**60]
    assert found(made, TOP) == [2**63 - 1, 2**63 - 1]


def test_triangles_near_the_end() -> None:
    """The sum of 0 .. n - 1, with n of 31 bits: the closed form does not leave 64."""
    inner = "for %41: i32 in %4 .. %50"
    made = sized("%5: i32 = arg n", inner=inner)
    for n in (0, 1, 2, 7, 2**20, TOP - 1, TOP):
        assert found(made, n) == [n * (n - 1) // 2] * 2


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("i64", 2**47 - 1, 2**47),
        ("i64", -(2**47), -(2**47) - 1),
        ("u32", 2**32 - 1, 2**32),
        ("u64", 9, 2**63 + 5),
        ("u64", 2**47 - 1, 2**47),
        ("i64", 10**11, -(2**63)),
    ],
)
def test_wide_integers(kind: str, good: int, bad: int) -> None:
    """Arguments and elements of 64 bits are taken if they have no more than 48."""
    argument = sized(f"%5: {kind} = arg n", kind)
    assert found(argument, good, kind=kind)[0] == max(good, 0)
    if kind == "u32":
        assert found(argument, bad, kind=kind)[0] == 0, "it wraps"
        return
    with pytest.raises(InexactSizes):
        found(argument, bad, kind=kind)
    assert found(argument, good, kind=kind)[0] == max(good, 0)
    loaded = sized(f"%5: {kind} = load c[%2]", kind)
    assert found(loaded, 0, c=(good,), kind=kind)[0] == max(good, 0)
    with pytest.raises(InexactSizes):
        found(loaded, 0, c=(bad,), kind=kind)


@pytest.mark.parametrize(
    ("lines", "n", "m", "depth"),
    [
        ("%6: i64 = arg n %7: i64 = const 5 %5: i64 = add %6, %7", 10**11, 0, 10**11 + 5),
        ("%6: i64 = arg n %7: i32 = arg m %8: i64 = cast %7 %5: i64 = mul %6, %8", 10**11, 3, 3 * 10**11),
        ("%6: i64 = arg n %5: i64 = mul %6, %6", 2 * 10**9, 0, 4 * 10**18),
        ("%6: i64 = arg n %5: i64 = mul %6, %6", 2**31 + 1, 0, None),
        ("%6: i64 = arg n %5: i64 = mul %6, %6", 2**40, 0, None),
        ("%6: i64 = arg n %7: i64 = mul %6, %6 %8: i64 = mul %7, %6 %5: i64 = sub %8, %7", 10**6, 0, 10**18 - 10**12),
        ("%6: i64 = arg n %7: i64 = mul %6, %6 %8: i64 = mul %7, %6 %5: i64 = sub %8, %7", 10**7, 0, None),
        ("%6: i64 = shape x, 0 %7: i64 = arg n %5: i64 = mul %6, %7", 10**11, 0, 10**11),
    ],
)
def test_arithmetic_of_64_bits(lines: str, n: int, m: int, depth: int | None) -> None:
    """It is exact, or what leaves 64 bits, or comes near, is left to the count."""
    made = sized(lines, "i64")
    if depth is None:
        with pytest.raises(InexactSizes):
            found(made, n, m, kind="i64")
    else:
        assert found(made, n, m, kind="i64")[0] == depth


def test_products_next_to_the_end_of_64_bits() -> None:
    """Factors of more than 53 bits are rounded in f64, so a product that has left 64 bits may look as if it fits."""
    low = 2.0**63 - SAFE_PRODUCT
    for factor in (2, 3, 107, 2**20 - 1):
        for distance in (-(2**14), -1, 0, 1, 61, 2**14):
            other = (2**63 + distance) // factor
            for x in (other, -other):
                exact = x * factor
                if abs(exact) < 2**63 - 2 * low:
                    assert mul(np.array([x]), factor)[0] == exact
                elif not INT64[0] <= exact <= INT64[1]:
                    with pytest.raises(InexactSizes):
                        mul(np.array([x]), factor)
    lowered = lower("%6: i64 = arg n %5: i64 = mul %6, %6", "i64")
    assert lowered.sizes is not None
    text = print_kernel(size_kernel(lowered.kernel, lowered.sizes.sized()))
    assert f"const {SAFE_PRODUCT}" in text, "the generated code has the same bound"


def test_a_carried_number_of_64_bits() -> None:
    """It grows beyond 32 bits, and a condition tells when: nothing of it is taken for granted before."""
    lines = """%6: i64 = arg n local e: i64 %7: i32 = arg m %8: i32 = const 0
        for %9: i32 in %8 .. %7 {
          %10: i64 = get e %11: i64 = const 5000000000 %12: u1 = cmp_lt %10, %11
          if %12 { %13: i64 = get e %14: i64 = add %13, %6 set e, %14 }
        }
        %5: i64 = get e"""
    lowered = lower(lines, "i64")
    arrays = {k: np.ones(2) for k in ("x", "y", "x.grad", "y.grad")} | {"c": np.zeros(2, np.int64)}
    launcher = Launcher(lowered, registry.get("reference"), Options())
    if lowered.sizes is not None:
        with pytest.raises(InexactSizes):
            found(lowered.sizes.sized(), 3 * 10**9, 5, kind="i64")
    (use,) = launcher.measure(arrays, {"n": 3, "m": 5})
    assert use.stacks[0].capacity == 15


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_the_counting_kernel_takes_over(backend: str) -> None:
    """(n + 2^31 - 3) in 32 bits: of n = 2 it is exact and much too deep for this test; of n = 5 it wraps below 0."""
    lines = "%6: i32 = arg n %7: i32 = const 2147483645 %5: i32 = add %6, %7"
    lowered = lower(lines)
    launcher = Launcher(lowered, registry.get(backend), Options())
    arrays = {k: np.ones(2) for k in ("x", "y", "x.grad", "y.grad")} | {"c": np.zeros(2, np.int32)}
    (use,) = launcher.measure(arrays, {"n": 2, "m": 0})
    assert (use.source, use.stacks[0].capacity, launcher.stats.evaluations) == ("expression", TOP, 1)
    (use,) = launcher.measure(arrays, {"n": 5, "m": 0})
    assert (use.source, use.stacks[0].capacity, launcher.stats.countings) == ("counted", 0, 1)
