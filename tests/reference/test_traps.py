"""Test every trap: its class, the lane that it names, and that memory holds what was written before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from stackgrad.compiler import errors
from stackgrad.compiler.errors import Span, StackgradError
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.nodes import Load
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.reference.launch import run
from stackgrad.reference.traps import TRAPS, EmptyStack, OutOfFuel, PartedBlock

Launch = Callable[..., Any]
Each = Callable[[str, str], str]
ORDERS = ("vector", "forward", "shuffled:1")

CASES: list[tuple[str, type[StackgradError], str]] = [
    (
        "%1: i32 = const 4  %2: i32 = add %0, %1  %3: f32 = load x[%2]",
        errors.OutOfBounds,
        "index 6 of axis 0 is outside `x`, whose extent there is 6",
    ),
    ("%1: i32 = const -2  %2: i32 = add %0, %1  %3: f32 = const 1.0  store x[%2], %3", errors.OutOfBounds, "index -2"),
    ("%1: f32 = const 1.0  %2: i32 = const 6  %3: f32 = atomic add x[%2], %1", errors.OutOfBounds, "index 6"),
    (
        "%1: i32 = const 1  %2: f32 = load m[%0, %1]  %3: f32 = load m[%1, %0]",
        errors.OutOfBounds,
        "index 2 of axis 1 is outside `m`, whose extent there is 2",
    ),
    (
        "local_array a: f32[2]  %1: f32 = get_element a[%0]",
        errors.OutOfBounds,
        "index 2 is outside `a`, whose extent there is 2",
    ),
    (
        "local_array a: f32[2]  %1: f32 = const 0.0  %2: i32 = neg %0  set_element a[%2], %1",
        errors.OutOfBounds,
        "index -1",
    ),
    ('%1: i32 = const 2  %2: i32 = within %0, %1, "{index} of {extent}"', errors.OutOfBounds, "2 of 2"),
    ("%1: i32 = const 7  %2: i32 = floordiv %1, %0", errors.DivisionByZero, "floordiv of 7 by zero"),
    (
        "%1: u8 = cast %0  %2: u8 = const 2  %3: u8 = sub %2, %1  %4: u8 = mod %2, %3",
        errors.DivisionByZero,
        "mod of 2 by zero",
    ),
    (
        '%1: i32 = const 3  %2: u1 = cmp_lt %0, %1  assert %2, "lane is small"',
        errors.KernelAssertionError,
        "lane is small",
    ),
    ("adstack_alloca s: f32 capacity 2 of v  adstack_pop s", EmptyStack, "adstack `s` (history of `v`) is empty"),
    ("adstack_alloca s: f32 capacity 2  %1: f32 = adstack_load_top s", EmptyStack, "adstack `s` is empty"),
    ("adstack_alloca s: f32 capacity 2 adjoint  %1: f32 = adstack_load_top_adj s", EmptyStack, "is empty"),
    ("adstack_alloca s: f32 capacity 2 adjoint  %1: f32 = const 1.0  adstack_acc_adj s, %1", EmptyStack, "is empty"),
    (
        "adstack_alloca s: f32 capacity 0  %1: f32 = const 1.0  adstack_push s, %1",
        errors.AdstackOverflow,
        "0 of 0 slots",
    ),
]


def arrays() -> dict[str, np.ndarray]:
    return {"x": np.zeros(6, np.float32), "m": np.zeros((6, 2), np.float32)}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("body", "kind", "message"), CASES)
def test_trap(launch: Launch, each: Each, body: str, kind: type[StackgradError], message: str, order: str) -> None:
    with pytest.raises(kind) as caught:
        launch(each("x: f32[1], m: f32[2]", body), **arrays(), _order=order)
    assert type(caught.value) is kind
    assert "of kernel f, task 0, iteration (" in str(caught.value)
    assert order.startswith("shuffled") or message in str(caught.value)


def test_all_kinds_are_tried() -> None:
    # Iterations that part before a barrier are in tests/passes/test_blocks.py, which has tasks with blocks.
    assert {kind for _, kind, _ in CASES} | {OutOfFuel, PartedBlock} == set(TRAPS)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("body", "kind", "message"), CASES)
def test_no_trap_in_lanes_that_do_not_get_there(
    launch: Launch, each: Each, body: str, kind: type[StackgradError], message: str, order: str
) -> None:
    """The same statements, in a branch that no lane takes."""
    guard = f"%80: f32 = load x[%0]  %81: u1 = cast %80  if %81 {{ {body} }}"
    launch(each("x: f32[1], m: f32[2]", guard), **arrays(), _order=order)


def test_the_lane_of_a_trap_in_a_divergent_loop(launch: Launch) -> None:
    """Point (1, 3) alone reaches the fourth round, in which it leaves the array."""
    with pytest.raises(errors.OutOfBounds, match=r"index 3 .*\n.*iteration \(1, 3\)"):
        launch(
            """kernel f(x: f32[1]) { bounds { %0: i32 = const 0 %1: i32 = const 2 %2: i32 = const 4 }
            parallel %3: i32, %4: i32 in %0 .. %1, %0 .. %2 { %5: i32 = mul %3, %4  %6: i32 = const 1
            %7: i32 = add %5, %6  %8: i32 = const 0  for %9: i32 in %8 .. %7 { %10: f32 = load x[%9] } } }""",
            x=np.zeros(3, np.float32),
        )


def test_memory_holds_what_was_written_before(launch: Launch) -> None:
    x = np.zeros(3, np.int32)
    with pytest.raises(errors.KernelAssertionError):
        launch(
            """kernel f(x: i32[1]) {
            bounds { %0: i32 = const 0 %1: i32 = const 3 } parallel %2: i32 in %0 .. %1 { store x[%2], %2 }
            serial { %3: u1 = const false  %4: i32 = const 0  %5: i32 = const 8  store x[%4], %5
                     assert %3, "stop"  %6: i32 = const 1  store x[%6], %5 } }""",
            x=x,
        )
    assert x.tolist() == [8, 1, 2]


def test_a_trap_in_the_bounds(launch: Launch) -> None:
    with pytest.raises(errors.OutOfBounds, match="of kernel f, task 0"):
        launch(
            """kernel f(x: i32[1]) { bounds { %0: i32 = const 9 %1: i32 = load x[%0] } parallel %2: i32 in %0 .. %1
            { } }""",
            x=np.zeros(3, np.int32),
        )


@pytest.mark.parametrize(
    "body",
    [
        "while { %1: u1 = const true } test %1 { }",
        "local s: u1  while { %1: u1 = const true  %2: u1 = get s } test %1 until s { continue 1 }",
        "%1: i64 = const 0  %2: i64 = const 4611686018427387904  for %3: i64 in %1 .. %2 { }",
    ],
)
@pytest.mark.parametrize("order", ORDERS)
def test_endless_loops_run_out_of_fuel(launch: Launch, each: Each, body: str, order: str) -> None:
    with pytest.raises(OutOfFuel, match="used up its fuel"):
        launch(each("x: f32[1]", body), x=np.zeros(2, np.float32), _order=order, _fuel=5_000)


def test_fuel_is_counted_by_frames(launch: Launch, each: Each) -> None:
    """A statement costs the same for one lane and for a thousand; the report tells how much was used."""
    text = each("x: f32[1]", "%1: f32 = const 1.0  store x[%0], %1")
    few, many = (launch(text, x=np.zeros(n, np.float32)).executed for n in (1, 1000))
    assert few == many == 4
    launch(text, x=np.zeros(1000, np.float32), _fuel=4)
    with pytest.raises(OutOfFuel):
        launch(text, x=np.zeros(1000, np.float32), _fuel=3)


def located(kernel: Kernel, span: Span) -> Kernel:
    """Return the kernel with this source location for its loads."""
    task = kernel.tasks[0]
    body = tuple(replace(s, loc=1) if isinstance(s, Load) else s for s in task.body)
    return replace(kernel, tasks=(replace(task, body=body),), locations=(None, span))


def test_messages_point_at_the_source(each: Each) -> None:
    kernel = located(
        parse_kernel(each("x: f32[1]", "%1: i32 = const 9  %2: f32 = load x[%1]")),
        Span("wave.py", 12, 8, 12, "    y = x[9] + 1"),
    )
    with pytest.raises(errors.OutOfBounds) as caught:
        run(kernel, {"x": np.zeros(2, np.float32)}, {})
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("wave.py:12:9: index 9 of axis 0 is outside `x`")
    assert lines[1].strip() == "at `%2: f32 = load x[%1]` of kernel f, task 0, iteration (0)"
    assert lines[2] == "    y = x[9] + 1"
    assert lines[3] == "        ^^^^"


def test_messages_of_kernels_without_source_say_so(launch: Launch, each: Each) -> None:
    with pytest.raises(errors.OutOfBounds, match=r"^<kernel given as IR text>:\d+:\d+: index"):
        launch(each("x: f32[1]", "%1: i32 = const 9  %2: f32 = load x[%1]"), x=np.zeros(2, np.float32))
