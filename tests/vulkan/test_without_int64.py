"""Integers of 64 bits as pairs of words: every operation on them is what it is on devices that have them.

Judged by the reference, bit by bit. That no module declares such integers, and all are valid: tests/spirv.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.driver import prepare_forward
from stackgrad.compiler.ir.ops import OPS, result_type
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import INTEGERS, REALS, SCALARS, Scalar
from stackgrad.reference.launch import run as interpret

WIDE = [SCALARS["i64"], SCALARS["u64"]]
EDGES = (
    0,
    1,
    2,
    3,
    5,
    31,
    32,
    33,
    63,
    64,
    65,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    (1 << 53) + 1,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 2,
    (1 << 64) - 1,
)
DRAWN = 200


@pytest.fixture(scope="module", params=["", "buffer_addresses"], ids=["addresses", "descriptors"])
def narrow(request: pytest.FixtureRequest, vulkan: VulkanBackend) -> Iterator[VulkanBackend]:
    """A device without integers of 64 bits."""
    made = VulkanBackend(("int64", request.param) if request.param else ("int64",))
    yield made
    made.reset()


def operands(t: Scalar) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edges, and numbers of all lengths."""
    rng = np.random.default_rng(3)
    drawn = rng.integers(0, 1 << 64, (2, DRAWN), np.uint64) >> rng.integers(0, 64, (2, DRAWN), np.uint64)
    drawn *= rng.choice(np.array([1, (1 << 64) - 1], np.uint64), (2, DRAWN))
    edges = np.array(EDGES, np.uint64)
    x, y = np.repeat(edges, len(edges)), np.tile(edges, len(edges))
    return tuple(np.concatenate(both).view(t.dtype) for both in ((x, drawn[0]), (y, drawn[1])))  # type: ignore[return-value]


def both(backend: VulkanBackend, text: str, arrays: dict[str, np.ndarray]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """(what the device makes of the arrays, what the reference does)."""
    kernel = parse_kernel(text)
    ours, theirs = ({name: array.copy() for name, array in arrays.items()} for _ in range(2))
    backend.compile(kernel, Options(precise=True)).run(ours, {}, Sizes(), Draws())
    interpret(kernel, theirs, {})
    return {name: (ours[name], theirs[name]) for name in arrays}


def mapped(arrays: dict[str, np.ndarray], body: str, like: str = "x") -> str:
    """The text of a kernel that does something for each element; the iteration is %0."""
    names = {str(np.dtype(t.dtype)): t.name for t in SCALARS.values() if not t.is_bool}
    params = ", ".join(f"{name}: {names[str(array.dtype)]}[1]" for name, array in arrays.items())
    return (
        f"kernel k({params}) {{ bounds {{ %1: i32 = const 0 %2: i32 = shape {like}, 0 }} "
        f"parallel %0: i32 in %1 .. %2 {{ {body} }} }}"
    )


@pytest.mark.rotating
@pytest.mark.parametrize("t", WIDE, ids=str)
def test_every_operation(narrow: VulkanBackend, t: Scalar) -> None:
    """That takes two such integers, or one."""
    arrays, count = dict(zip("xy", operands(t))), 0
    arrays["divisor"] = np.where(arrays["y"] == 0, arrays["y"] + 1, arrays["y"])
    lines = [f"%3: {t} = load x[%0] %4: {t} = load y[%0] %5: {t} = load divisor[%0]"]
    for name, op in OPS.items():
        made = result_type(name, (t,) * op.arity) if op.types((t,) * op.arity) is not None else None
        if made is None or name == "pow":
            continue
        count, value = count + 1, 6 + 2 * count
        second = "%5" if name in ("floordiv", "mod") else "%4"
        lines.append(f"%{value}: {made} = {name} %3" + f", {second}" * (op.arity == 2))
        if made.is_bool:
            lines.append(f"%{value + 1}: i32 = cast %{value}")
        out, kept = (value + 1, SCALARS["i32"]) if made.is_bool else (value, made)
        arrays[name] = np.zeros(len(arrays["x"]), kept.dtype)
        lines.append(f"store {name}[%0], %{out}")
    assert count > 20
    for name, (ours, theirs) in both(narrow, mapped(arrays, " ".join(lines)), arrays).items():
        np.testing.assert_array_equal(ours, theirs, f"{name} of {t}")


@pytest.mark.rotating
@pytest.mark.parametrize("t", WIDE, ids=str)
def test_every_conversion(narrow: VulkanBackend, t: Scalar) -> None:
    """To and from every type."""
    x, _ = operands(t)
    arrays, lines, reals = {"x": x}, [f"%3: {t} = load x[%0]"], np.random.default_rng(4)
    others = [other for other in (*INTEGERS, *REALS) if other != t]
    for k, other in enumerate(others):
        number = 4 + 3 * k
        content = x.astype(other.dtype) if other.is_int else _reals(reals, other, len(x))
        arrays |= {f"from{k}": content, f"to{k}": np.zeros(len(x), other.dtype), f"back{k}": np.zeros(len(x), t.dtype)}
        lines += [
            f"%{number}: {other} = cast %3 store to{k}[%0], %{number}",
            f"%{number + 1}: {other} = load from{k}[%0]",
            f"%{number + 2}: {t} = cast %{number + 1} store back{k}[%0], %{number + 2}",
        ]
    for name, (ours, theirs) in both(narrow, mapped(arrays, " ".join(lines)), arrays).items():
        np.testing.assert_array_equal(ours, theirs, f"{name} of {t}")


def _reals(rng: np.random.Generator, t: Scalar, count: int) -> np.ndarray:
    """Of all sizes that matter, and beyond; ends, infinities and NaN."""
    drawn = rng.normal(size=count) * 2.0 ** rng.integers(-3, 67, count)
    drawn[:9] = np.inf, -np.inf, np.nan, -0.0, 2.0**63, -(2.0**63), 2.0**64, 2.0**32, -(2.0**32) - 1
    with np.errstate(over="ignore"):
        return drawn.astype(t.dtype)


POWER = """kernel power(x: {t}[1], y: {t}[1], z: {t}[1]) {{ bounds {{ %1: i32 = const 0 %2: i32 = shape x, 0 }}
  parallel %0: i32 in %1 .. %2 {{
    %3: {t} = load x[%0] %4: {t} = load y[%0] %5: {t} = pow %3, %4 store z[%0], %5 }} }}"""


@pytest.mark.parametrize("t", WIDE, ids=str)
def test_powers(narrow: VulkanBackend, t: Scalar) -> None:
    x = np.array([2, 3, 1, 0, 7, (1 << 32) + 5, 10, 1], np.uint64).view(t.dtype)
    y = np.array([63, 40, (1 << 63) + 1, 0, 1, 3, 19, (1 << 64) - 1], np.uint64).view(t.dtype)
    arrays = {"x": x, "y": y, "z": np.zeros(8, t.dtype)}
    ours, theirs = both(narrow, POWER.format(t=t), arrays)["z"]
    np.testing.assert_array_equal(ours, theirs)


HISTORY = """kernel history(x: {t}[1], n: i64[1], y: {t}[1], z: {t}[1]) {{
  bounds {{ %1: i64 = const 0 %2: i64 = shape x, 0 }} parallel %0: i64 in %1 .. %2 {{
    adstack_alloca s: {t} %3: {t} = load x[%0] %4: i64 = load n[%0] %5: i64 = const 3 %18: i64 = const 0
    local v: {t} set v, %3
    for %6: i64 in %18 .. %4 step 2 {{ %7: {t} = get v adstack_push s, %7 %8: {t} = cast %6 %9: {t} = mul %7, %8
      %10: {t} = add %9, %3 set v, %10 }}
    for %11: i64 in %18 .. %4 step 2 {{ %12: {t} = adstack_load_top s adstack_pop s %13: {t} = get v
      %14: {t} = bit_xor %12, %13 set v, %14 }}
    %15: {t} = get v %16: i64 = mod %0, %5 store y[%0], %15 %17: {t} = atomic add z[%16], %15
  }} }}"""


@pytest.mark.parametrize("t", WIDE, ids=str)
def test_loops_stacks_and_atomics(narrow: VulkanBackend, t: Scalar) -> None:
    """Bounds of loops and tasks, indices, histories and sums of 64 bits."""
    x, n = operands(t)[0], (np.arange(len(operands(t)[0])) % 7).astype(np.int64)
    sums = np.zeros(3, t.dtype)
    ours, theirs = ({"x": x, "n": n, "y": np.zeros(len(x), t.dtype), "z": sums.copy()} for _ in range(2))
    kernel = parse_kernel(HISTORY.format(t=t))
    sizes = Sizes({"s": 4}, {(0, "integer"): len(x)}, {"s": 4 * len(x)})
    narrow.compile(kernel, Options()).run(ours, {}, sizes, Draws())
    interpret(kernel, theirs, {})
    for name in "yz":
        np.testing.assert_array_equal(ours[name], theirs[name])


SLOT = """kernel far(x: u8[2], y: u8[1]) { serial { %0: i64 = const 1 %1: i64 = const 70000 %2: u8 = load x[%0, %1]
  %3: i64 = const 0 store y[%3], %2 } }"""


def test_elements_far_away(narrow: VulkanBackend) -> None:
    x = np.zeros((2, 100_000), np.uint8)
    x[1, 70_000] = 7
    arrays = {"x": x, "y": np.zeros(1, np.uint8)}
    Launcher(prepare_forward(parse_kernel(SLOT)), narrow, Options()).run(arrays, {})
    assert arrays["y"][0] == 7
