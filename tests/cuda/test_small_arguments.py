"""Sines of arguments that are known to be small have shorter code, and only they; what comes first may be anything."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import runtime
from recorded_support import near_both_ways
from sine_sweeps import FEW, STRANGE, both, damped, sweep
from stackgrad.backends.base import Options
from stackgrad.backends.cuda.code import generate
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.launch.kernels import trace_function

FAST = Options(precise=False)


@pytest.mark.parametrize("until", [False, True])
@pytest.mark.parametrize("name", ["damped", "both"])
def test_every_first_argument_is_right(name: str, until: bool) -> None:
    with runtime():
        x, trips, y, steps = sweep({"damped": damped, "both": both}[name], until)
        kernel = sg.kernel(steps)
        for count in range(8):
            x.from_numpy(np.array(STRANGE, np.float32))
            trips[None] = count
            near_both_ways(kernel, x, y, FEW, trips=trips)


# ---- what is generated --------------------------------------------------------------------------------------


def traced(step: Any, until: bool = False) -> Kernel:
    sg.init(arch=sg.cpu)
    return trace_function(sweep(step, until)[3]).kernel


def guards(kernel: Kernel, options: Options = FAST) -> int:
    """Calls of sines that look at their argument first."""
    return len(re.findall(r"call float @\"?sg\.(?:sin|cos)\.lean", generate(kernel, options).text))


def test_one_trip_looks_at_its_arguments() -> None:
    forward = prepare_forward(traced(damped)).kernel
    assert guards(forward) == 1
    assert generate(forward, FAST).text.count("for.first") > 0
    assert guards(prepare_forward(traced(both)).kernel) == 2


def test_debug_and_precise_code_is_what_it_was() -> None:
    forward = prepare_forward(traced(damped)).kernel
    for options in (Options(precise=True), Options(precise=False, debug=True)):
        assert "for.first" not in generate(forward, options).text


@sg.func
def unbounded(v):
    return v + sg.sin(v) * 0.1


@sg.func
def clamped(v):
    return sg.sin(sg.max(sg.min(v, 1.0), -1.0))


def test_only_where_it_is_known() -> None:
    assert guards(prepare_forward(traced(unbounded)).kernel) == 1
    assert "for.first" not in generate(prepare_forward(traced(unbounded)).kernel, FAST).text
    assert guards(prepare_forward(traced(clamped)).kernel) == 0  # nor does it need another first trip
    assert "for.first" not in generate(prepare_forward(traced(clamped)).kernel, FAST).text


def test_control_hangs_on_the_same_bits_everywhere() -> None:
    """A kernel and its gradient know different things of the values; what decides has one code."""

    @sg.func
    def decides(v):
        w = sg.sin(v) * 0.95
        if w > 0.5:
            w = w * 0.5
        return w

    kernel = traced(decides)
    assert guards(prepare_forward(kernel).kernel) == 1
    assert "for.first" not in generate(prepare_forward(kernel).kernel, FAST).text
    assert "sg.sin.lean" in generate(prepare_reverse(kernel).kernel, FAST).text


# ---- sines beside cosines -----------------------------------------------------------------------------------


@sg.func
def swings(v):
    return v + sg.sin(v) * 0.1


def test_the_cosine_that_a_gradient_saves_is_computed_with_the_sine() -> None:
    """One look at the argument for both, also where the library is asked."""
    text = generate(prepare_reverse(traced(swings)).kernel, FAST).text
    assert len(re.findall(r"call float @\"?sg\.(?:sin|cos)\.outside", text)) == 2
    assert "sg.sin.lean" not in text and "sg.cos.lean" not in text
    precise = generate(prepare_reverse(traced(swings)).kernel, Options(precise=True)).text
    assert "outside" not in precise


def test_both_in_one_loop_are_right_for_every_argument() -> None:
    with runtime():
        x, trips, y, steps = sweep(swings)
        kernel = sg.kernel(steps)
        for count in range(6):
            x.from_numpy(np.array(STRANGE, np.float32))
            trips[None] = count
            near_both_ways(kernel, x, y, FEW, trips=trips)


def test_what_decides_is_computed_alone() -> None:
    @sg.func
    def turns(v):
        w = sg.sin(v) - sg.cos(v)
        if w > 0.5:
            w = w - 2.0
        return w + v

    @sg.func
    def free(v):
        return v + sg.sin(v) - sg.cos(v)

    for step, together in ((turns, 0), (free, 1)):
        text = generate(prepare_forward(traced(step)).kernel, FAST).text
        assert len(re.findall(r"^both[.\d]*:", text, flags=re.M)) == together
        assert ("sg.sin.lean" in text) != together
