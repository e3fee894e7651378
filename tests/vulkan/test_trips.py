"""Loops whose trips are written several at a time, or the first one apart: any number of trips, any kind of slot, any
argument; what is fused, and what is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from recorded_support import forward, near, near_both_ways
from sine_sweeps import FEW, STRANGE, both, damped, sweep
from stack_loops import ADD, POP, READ, TAIL
from stackgrad.backends.base import Backend, Options
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.backends.spirv import for_loops
from stackgrad.backends.spirv.decode import instructions
from stackgrad.backends.spirv.pop_groups import PopGroups
from stackgrad.backends.spirv.shaders import generate
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.launch.kernels import trace_function

FAST = Options(precise=False)
FUSED = 50
"""Fma of GLSL.std.450."""

HEAD = """kernel k(n: i32, x: f32[1], out: f64[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    adstack_alloca s: f32 adstack_alloca t: T adstack_alloca u: u1
    %3: f32 = load x[%2] %4: i32 = arg n %5: i32 = const 0 %6: f32 = const 0.5 %7: f64 = const 3.0
    %18: i32 = const 2 %19: i32 = floordiv %4, %18
    local v: f32 local sum: f64
    set v, %3
    for %10: i32 in %5 .. %4 {
      %11: f32 = get v adstack_push s, %11
      %12: f32 = sin %11 %13: f32 = mul %12, %6 set v, %13
      %14: T = cast %13 adstack_push t, %14
      %15: u1 = cmp_lt %13, %6 adstack_push u, %15
    }
"""

GROUPED = {
    "all at the head": f"for %20: i32 in %5 .. %4 descending {{ {READ} {POP} {ADD} }}",
    "popped at the end": f"for %20: i32 in %5 .. %4 descending {{ {READ} {ADD} {POP} }}",
    "a descending index": f"for %20: i32 in %5 .. %4 descending {{ {READ} {POP} {ADD} %32: f64 = cast %20 "
    "%33: f64 = get sum %34: f64 = add %33, %32 set sum, %34 }",
    "an ascending index": f"for %20: i32 in %5 .. %4 {{ {READ} {POP} {ADD} %32: f64 = cast %20 "
    "%33: f64 = get sum %34: f64 = mul %33, %32 set sum, %34 }",
    "one stack alone": f"for %20: i32 in %5 .. %4 {{ {READ} adstack_pop s {ADD} }}",
    "reads under a condition": f"for %20: i32 in %5 .. %4 {{ {READ} if %23 {{ %35: f32 = adstack_load_top s "
    f"%36: f64 = cast %35 set sum, %36 }} {POP} }}",
    "a sine under a condition": f"for %20: i32 in %5 .. %4 {{ {READ} if %23 {{ {ADD} }} {POP} }}",
    "fewer than there are": f"for %20: i32 in %5 .. %19 {{ {READ} {POP} {ADD} }} "
    f"{READ.replace('%2', '%4')} %50: f64 = cast %41 %51: f64 = get sum %52: f64 = add %51, %50 set sum, %52",
}
SINGLE = {
    "two pops of a trip": f"for %20: i32 in %5 .. %19 {{ {READ} {POP} {ADD} {POP} }}",
    "an early end": f"local stop: u1 for %20: i32 in %5 .. %4 until stop {{ {READ} {ADD} set stop, %23 }}",
    "counted trips": f"for %20: i32 in %5 .. %4 trips %60: i32 {{ {READ} {POP} {ADD} }} %61: f64 = cast %60 "
    "%62: f64 = get sum %63: f64 = add %61, %62 set sum, %63",
    "a read behind the pop": f"for %20: i32 in %5 .. %19 {{ {POP} {READ} {ADD} }}",
}
X = np.array([0.3, -0.9, 1.5, 3.0, 1e3, -4e4, 1e6, np.inf, np.nan, -0.0], np.float32)


def kernel(loop: str, dtype: str) -> Kernel:
    return parse_kernel((HEAD + loop + TAIL).replace("T", dtype))


def check(source: Kernel, backend: Backend, n: int) -> None:
    """A device and the reference agree."""
    arrays = {"x": X.copy(), "out": np.zeros(len(X))}
    known = forward(source, arrays, {"n": n})
    Launcher(prepare_forward(source), backend, FAST).run(arrays, {"n": n})
    near(known, "out", arrays["out"])


CASES = [(name, "f32") for name in (*GROUPED, *SINGLE)] + [
    (name, dtype) for name in ("all at the head", "a descending index") for dtype in ("f64", "f16", "i8", "i64")
]


@pytest.mark.rotating
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_any_number_of_trips(vulkan: VulkanBackend, name: str, dtype: str) -> None:
    source = kernel({**GROUPED, **SINGLE}[name], dtype)
    for n in (1, 2, 3, 4, 5, 7, 8, 9, 13) if dtype == "f32" else (3, 9):
        check(source, vulkan, n)


@pytest.mark.rotating
@pytest.mark.parametrize("masked", ["buffer_addresses", "int64"])
def test_on_lesser_devices(vulkan: VulkanBackend, masked: str) -> None:
    """Addresses that are offsets in buffers, and such as are pairs of words."""
    del vulkan
    source = kernel(GROUPED["all at the head"], "f32")
    for n in (3, 9):
        check(source, VulkanBackend((masked,)), n)


def loops(source: Kernel, options: Options = FAST) -> int:
    """Loops of its parallel task."""
    return sum(name == "LoopMerge" for name, _ in instructions(generate(source, replace(options, bounds=False)).words))


@pytest.mark.parametrize("name", [*GROUPED, *SINGLE])
def test_which_loops(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of groups has one of single trips inside or behind it."""
    source = kernel({**GROUPED, **SINGLE}[name], "f32")
    assert loops(source, Options(precise=False, debug=True)) == 3  # one for each, and that over iterations
    found = loops(source)
    monkeypatch.setattr(PopGroups, "of", lambda *_: None)
    assert found - loops(source) == (name in GROUPED)


@pytest.mark.parametrize(("name", "more"), [("all at the head", 1), ("a sine under a condition", 0)])
def test_a_loop_that_saves_is_written_several_times(name: str, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a sine in it looks at its argument, as where control hangs on the result."""
    source = kernel(GROUPED[name], "f32")
    found = loops(source)
    monkeypatch.setattr(for_loops, "SAVED_AT_ONCE", ())
    assert found - loops(source) == more


# ---- small arguments ----------------------------------------------------------------------------------------


@pytest.fixture
def runtime(vulkan: VulkanBackend) -> Iterator[None]:
    sg.init(arch=sg.vulkan)
    yield
    sg.reset()


@pytest.mark.rotating
@pytest.mark.parametrize("until", [False, True])
@pytest.mark.parametrize("name", ["damped", "both"])
def test_every_first_argument_is_right(runtime: None, name: str, until: bool) -> None:
    x, bound, y, steps = sweep({"damped": damped, "both": both}[name], until)
    made = sg.kernel(steps)
    for count in range(8):
        x.from_numpy(np.array(STRANGE, np.float32))
        bound[None] = count
        near_both_ways(made, x, y, FEW, trips=bound)


# ---- what is generated --------------------------------------------------------------------------------------


def traced(step: Any) -> Kernel:
    sg.init(arch=sg.cpu)
    return trace_function(sweep(step)[3]).kernel


def looks(source: Kernel, options: Options = FAST) -> int:
    """Calls of sines that look at their argument first."""
    return calls(source, "sg.sin.f32", options) + calls(source, "sg.cos.f32", options)


def calls(source: Kernel, name: str, options: Options = FAST) -> int:
    """Calls of a function of the module."""
    found = list(instructions(generate(source, replace(options, bounds=False)).words))
    names = {op[0]: b"".join(w.to_bytes(4, "little") for w in op[1:]).rstrip(b"\0") for n, op in found if n == "Name"}
    return sum(names.get(op[2]) == name.encode() for n, op in found if n == "FunctionCall")


@sg.func
def unbounded(v):
    return v + sg.sin(v) * 0.1


@sg.func
def clamped(v):
    return sg.sin(sg.max(sg.min(v, 1.0), -1.0))


@sg.func
def decides(v):
    w = sg.sin(v) * 0.95
    if w > 0.5:
        w = w * 0.5
    return w


@pytest.mark.parametrize(
    ("step", "count", "apart"),
    [(damped, 1, True), (both, 2, True), (unbounded, 1, False), (clamped, 0, False), (decides, 1, False)],
)
def test_one_trip_looks_at_its_arguments(step: Any, count: int, apart: bool) -> None:
    """Only where all later ones are known to be small, and no control hangs on the last bit."""
    forward = prepare_forward(traced(step)).kernel
    assert looks(forward) == count
    others = [Options(precise=True), Options(precise=False, debug=True)]
    assert all(looks(forward, one) == (2 if step is both else 1) for one in others)


def fused(source: Kernel, options: Options) -> int:
    words = generate(source, replace(options, bounds=False)).words
    return sum(n == "ExtInst" and op[3] == FUSED for n, op in instructions(words))


LINES = """kernel k(x: f32[1], y: f32[1]) { bounds { %0: i32 = const 0 %1: i32 = shape x, 0 }
  parallel %2: i32 in %0 .. %1 { %3: f32 = load x[%2] %4: f32 = load y[%2] %5: f32 = mul %3, %4 BODY } }"""
FORMS = {
    "%6: f32 = add %5, %3": (lambda x, y: x * y + x, 1),
    "%6: f32 = add %3, %5": (lambda x, y: x + x * y, 1),
    "%6: f32 = sub %5, %3": (lambda x, y: x * y - x, 1),
    "%6: f32 = sub %3, %5": (lambda x, y: x - x * y, 1),
    "%6: f32 = add %5, %5": (lambda x, y: x * y + x * y, 1),
    "%6: f32 = neg %5": (lambda x, y: -(x * y), 0),
    "%6: f32 = div %5, %3": (lambda x, y: x * y / x, 0),
}


@pytest.mark.parametrize("line", FORMS)
def test_a_product_and_a_sum_are_one_instruction_in_default_builds(vulkan: VulkanBackend, line: str) -> None:
    source = parse_kernel(LINES.replace("BODY", f"{line} store y[%2], %6"))
    meant, count = FORMS[line]
    assert fused(source, FAST) == count and fused(source, Options()) == 0
    rng = np.random.default_rng(3)
    x, y = (rng.uniform(-2, 2, 500).astype(np.float32) for _ in range(2))
    wanted, known = meant(x.astype(np.float64), y.astype(np.float64)), forward(source, {"x": x, "y": y})
    Launcher(prepare_forward(source), vulkan, FAST).run({"x": x, "y": y}, {})
    near(known, "y", y, wanted)


def test_what_decides_is_not_fused() -> None:
    """A kernel and its gradient must take the same branch."""
    body = "%6: f32 = add %5, %3 %7: u1 = cmp_lt %6, %3 if %7 { store y[%2], %3 }"
    assert fused(parse_kernel(LINES.replace("BODY", body)), FAST) == 0


def test_sine_and_cosine_of_one_argument_are_computed_together() -> None:
    """One look at the argument for both, in the first trip; none later."""
    reverse = prepare_reverse(traced(damped)).kernel
    assert looks(reverse) == 0 and looks(reverse, Options(precise=True)) == 2
    assert calls(reverse, "sg.sin.f32.far") == calls(reverse, "sg.cos.f32.far") == 1
    assert calls(prepare_reverse(traced(unbounded)).kernel, "sg.cos.f32.far") == 1


@sg.func
def swings(v):
    return v + sg.sin(v) * 0.1 - sg.cos(v) * 0.2


def test_both_in_one_loop_are_right_for_every_argument(runtime: None) -> None:
    x, bound, y, steps = sweep(swings)
    made = sg.kernel(steps)
    for count in range(6):
        x.from_numpy(np.array(STRANGE, np.float32))
        bound[None] = count
        near_both_ways(made, x, y, FEW, trips=bound)
