"""The launcher: when it counts, what it reuses, what it passes on; on hand-written IR."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from runtime_kernels import over_array
from stackgrad.backends.base import Draws, Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.backends.launching.task_ids import TASK_IDS
from stackgrad.compiler.errors import AdstackOverflow
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference.backend import ReferenceBackend

PARAMS = "x: f64[1], n: i32[0], extra: i32"

PUSHES = over_array(
    "pushes",
    PARAMS,
    "x",
    """\
adstack_alloca s: f64 adjoint of speed
adstack_alloca flags: u1 capacity 1
%3: i32 = const 0
%4: i32 = load n[]
%5: i32 = arg extra
%6: i32 = add %4, %5
%7: f64 = load x[%2]
for %8: i32 in %3 .. %6 {
  adstack_push s, %7
}
for %9: i32 in %3 .. %6 {
  %10: f64 = adstack_load_top s
  %11: f64 = atomic add x[%2], %10
  adstack_pop s
}""",
)
"""x[i] += (n + extra) * x[i], by way of a stack of that depth."""

COUNTS = over_array(
    "counts",
    PARAMS + ", $depths: i64[1], $rows: i64[1], $totals: i64[1]",
    "x",
    """\
%3: i32 = const 0
%4: i32 = load n[]
%5: i32 = arg extra
%6: i32 = add %4, %5
%7: i64 = cast %6
%8: i64 = atomic max $depths[%3], %7
%9: i64 = const 1
%10: i64 = atomic add $rows[%3], %9""",
)

SHADOWED = over_array(
    "counts",
    PARAMS + ", $depths: i64[1], $rows: i64[1], $totals: i64[1]",
    "x",
    """\
%3: i32 = const 0
%4: i64 = const 9
%5: i64 = atomic max $depths[%3], %4
%6: f64 = const 0.0
store x[%2], %6""",
)
"""A counting kernel that stores to an array."""


@dataclass
class Lowered:
    """What the driver makes of a kernel, as far as the launcher looks."""

    kernel: Kernel
    counting: Kernel | None = None
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    shadow: frozenset[str] = field(default_factory=frozenset)
    marking: None = None
    claims: None = None
    sizes: None = None


def launcher(counting: str | None = COUNTS, kernel: str = PUSHES, **rest: frozenset[str]) -> Launcher:
    lowered = Lowered(parse_kernel(kernel), None if counting is None else parse_kernel(counting), **rest)
    return Launcher(lowered, ReferenceBackend(), Options())


def memory(n: int, size: int = 3) -> dict[str, np.ndarray]:
    return {"x": np.ones(size), "n": np.array(n, np.int32)}


def test_bound_arrays_are_those_that_the_count_loads() -> None:
    assert launcher().bound_arrays == ("n",)
    assert launcher(None, kernel=PUSHES.replace("adjoint", "capacity 9 adjoint")).bound_arrays == ()


def test_plain_arrays_are_counted_each_time() -> None:
    made, arrays = launcher(), memory(2)
    for _ in range(3):
        made.run(arrays, {"extra": 1})
    assert made.stats.countings == made.stats.launches == 3 and made.stats.cache_hits == 0
    assert arrays["x"].tolist() == [64.0] * 3


def test_steady_state_counts_nothing() -> None:
    made, arrays = launcher(), memory(2)
    for _ in range(4):
        made.run(arrays, {"extra": 0}, versions=(1,))
    assert (made.stats.countings, made.stats.cache_hits) == (1, 3)


def test_a_new_version_is_counted_once() -> None:
    made, arrays = launcher(), memory(2)
    made.run(arrays, {"extra": 0}, versions=(1,))
    arrays["n"][...] = 5
    for _ in range(3):
        made.run(arrays, {"extra": 0}, versions=(2,))
    assert made.stats.countings == 2
    assert made.usage()[0].stacks[0].capacity == 5


def test_scalars_are_part_of_the_key() -> None:
    made, arrays = launcher(), memory(2)
    for extra in (0, 3, 0, 3):
        made.run(arrays, {"extra": extra}, versions=(1,))
    assert (made.stats.countings, made.stats.cache_hits) == (2, 2)


def test_shapes_are_part_of_the_key() -> None:
    made = launcher()
    for size in (3, 4, 3):
        made.run(memory(2, size), {"extra": 0}, versions=(1,))
    assert made.stats.countings == 2


def test_count_without_loads_needs_no_versions() -> None:
    counting = COUNTS.replace("load n[]", "const 7")
    made = launcher(counting)
    for _ in range(3):
        made.run(memory(2), {"extra": 0})
    assert (made.stats.countings, made.stats.cache_hits) == (1, 2)


@pytest.mark.parametrize(("scalar", "count"), [("f64", 2), ("i32", 1)])
def test_signed_zeros_are_two_keys(scalar: str, count: int) -> None:
    counting = COUNTS.replace("extra: i32", f"extra: {scalar}").replace(
        "%5: i32 = arg extra", (f"%50: {scalar} = arg extra\n%5: i32 = cast %50")
    )
    made = launcher(
        counting,
        kernel=PUSHES.replace("extra: i32", f"extra: {scalar}").replace(
            "%5: i32 = arg extra", f"%50: {scalar} = arg extra\n%5: i32 = cast %50"
        ),
    )
    for zero in (0.0, -0.0) if scalar == "f64" else (0, -0):
        made.run(memory(2), {"extra": zero}, versions=(1,))
    assert made.stats.countings == count


def test_draws_are_part_of_the_key_where_the_count_draws() -> None:
    made = launcher(COUNTS.replace("%3: i32 = const 0", "%3: i32 = const 0\n%30: f64 = random"))
    for launch in (1, 2, 1):
        made.run(memory(2), {"extra": 0}, Draws(0, launch), versions=(1,))
    assert (made.stats.countings, made.stats.cache_hits) == (2, 1)


def test_what_the_count_stores_to_is_a_copy() -> None:
    made, arrays = launcher(SHADOWED, shadow=frozenset({"x"})), memory(2)
    made.run(arrays, {"extra": 0})
    assert arrays["x"].tolist() == [3.0] * 3


def test_usage() -> None:
    made = launcher()
    made.run(memory(4), {"extra": 1})
    real, flag = made.usage()
    assert (real.kernel, real.task, real.slab, real.rows, real.stride, real.source) == (
        "pushes",
        0,
        "real",
        3,
        5 * 16,
        "counted",
    )
    assert real.bytes == 3 * 5 * 16
    assert (real.stacks[0].variable, real.stacks[0].capacity, real.stacks[0].slot_bytes) == ("speed", 5, 16)
    assert (flag.slab, flag.stacks[0].capacity, flag.stride) == ("flag", 1, 1)


def test_kernels_without_stacks_are_never_counted() -> None:
    plain = over_array("plain", PARAMS, "x", "%3: f64 = const 2.0\nstore x[%2], %3")
    made, arrays = launcher(None, plain), memory(1)
    made.run(arrays, {"extra": 0})
    assert (made.stats.launches, made.stats.countings, made.stats.cache_hits, made.usage()) == (1, 0, 0, [])


def test_overflow_shows_capacity_and_need_and_the_next_launch_recovers() -> None:
    made, arrays = launcher(), memory(2)
    made.run(arrays, {"extra": 0}, versions=(1,))
    arrays["n"][...] = 4
    with pytest.raises(AdstackOverflow) as caught:
        made.run(arrays, {"extra": 0}, versions=(1,))
    text = str(caught.value)
    assert "s of speed" in text and "capacity 2, a new count gives 4" in text and "behind the runtime's back" in text
    arrays["x"][...] = 1
    made.run(arrays, {"extra": 0}, versions=(1,))
    assert arrays["x"].tolist() == [5.0] * 3


def test_debug_prints_one_line_per_binding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("STACKGRAD_DEBUG_ADSTACK", "1")
    made = launcher()
    for _ in range(2):
        made.run(memory(3), {"extra": 0}, versions=(1,))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert lines[0] == (
        "stackgrad adstack: pushes task 0 slab real: speed[3]; size counted; rows 3, stride 48 B, 144 B; "
        f"id {TASK_IDS.of(made.kernel, 0):08x}"
    )
    assert "size cached" in lines[2]


def test_sizes_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stackgrad.backends.launching.launcher._KEPT_SIZES", 3)
    made = launcher()
    for version in (1, 2, 3, 4, 4, 1):
        made.run(memory(1), {"extra": 0}, versions=(version,))
    assert (made.stats.countings, made.stats.cache_hits) == (5, 1)
