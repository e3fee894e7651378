"""Test loops that pop, on GPUs: loads of several trips are grouped, and the gradient stays the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.backends.base import Options
from stackgrad.backends.codegen.target import CPU
from stackgrad.backends.cuda.code import generate
from stackgrad.backends.cuda.ptx import ptx
from stackgrad.backends.llvm.module import generate as on_cpu
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.launch.kernels import trace_function

FAST = Options(precise=False)


def gradient(step: Callable[[Any], Any], nested: bool = False) -> Kernel:
    """Return the grad kernel of v = step(v), repeated n times, or n times n times if `nested`."""
    sg.init(arch=sg.cpu)
    x, y = (sg.field(sg.f32, 16, needs_grad=True) for _ in range(2))
    n = sg.field(sg.i32, ())

    def steps():
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                if sg.static(nested):
                    for _ in range(n[None]):
                        v = step(v)
                else:
                    v = step(v)
            y[i] = v

    return prepare_reverse(trace_function(steps).kernel).kernel


@sg.func
def short(v):
    return v * v * 0.5 + 0.1


@sg.func
def long(v):
    for _ in sg.static(range(60)):
        v = sg.sin(v) * 0.95
    return v


def groups(text: str) -> int:
    """Return the number of loops in PTX that execute several trips at a time."""
    return len(re.findall(r"^pops\.head", text, flags=re.M))


@pytest.mark.parametrize("step, nested, wanted", [(short, False, 1), (long, False, 0), (short, True, 1)])
def test_innermost_loops_of_few_statements(step, nested, wanted):
    kernel = gradient(step, nested)
    assert groups(generate(kernel, FAST).text) == wanted
    assert groups(generate(kernel, Options(debug=True)).text) == 0
    assert groups(on_cpu(kernel, FAST, CPU).text) == 0


def test_loads_of_four_trips_stand_in_one_block():
    blocks = re.split(r"^\$L.*:$", ptx(gradient(short), options=FAST), flags=re.M)
    assert max(block.count("ld.global") for block in blocks) >= 4
