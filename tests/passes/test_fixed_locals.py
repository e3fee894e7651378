"""Test the analysis of locals with the same value at every read, and that machine code keeps no memory for them."""

from __future__ import annotations

import numpy as np
import pytest
from stackgrad.backends import registry
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.compiler.analysis.fixed_locals import fixed_locals
from stackgrad.compiler.ir.parser import parse_kernel

HEAD = "%1: i32 = const 0 %2: i32 = const 3 %3: f32 = load x[%1] %4: u1 = cmp_lt %3, %3"

FIXED = {
    "read below": "local v: f32 set v, %3 %5: f32 = get v store x[%1], %5",
    "read deeper": "local v: f32 set v, %3 if %4 { %5: f32 = get v store x[%1], %5 }",
    "read in a loop": "local v: f32 set v, %3 for %6: i32 in %1 .. %2 { %5: f32 = get v store x[%1], %5 }",
    "set in a loop": "for %6: i32 in %1 .. %2 { local v: f32 set v, %3 %5: f32 = get v store x[%1], %5 }",
    "declared outside": "local v: f32 if %4 { set v, %3 %5: f32 = get v store x[%1], %5 }",
    "never read": "local v: f32 set v, %3",
}

VARYING = {
    "set twice": "local v: f32 set v, %3 set v, %3 %5: f32 = get v store x[%1], %5",
    "read before": "local v: f32 %5: f32 = get v set v, %3 store x[%1], %5",
    "read after the block": "local v: f32 if %4 { set v, %3 } %5: f32 = get v store x[%1], %5",
    "read in the other arm": "local v: f32 if %4 { set v, %3 } else { %5: f32 = get v store x[%1], %5 }",
    "read one trip later": "local v: f32 for %6: i32 in %1 .. %2 { %5: f32 = get v store x[%1], %5 set v, %3 }",
    "declared again": "local v: f32 set v, %3 for %6: i32 in %1 .. %2 { local v: f32 %5: f32 = get v store x[%1], %5 }",
    "never set": "local v: f32 %5: f32 = get v store x[%1], %5",
}


def _kernel(body: str):
    return parse_kernel(f"kernel k(x: f32[1]) {{ serial {{ {HEAD} {body} }} }}")


@pytest.mark.parametrize("body", FIXED.values(), ids=FIXED)
def test_has_one_value(body):
    assert fixed_locals(_kernel(body).tasks[0].body) == {"v"}


@pytest.mark.parametrize("body", VARYING.values(), ids=VARYING)
def test_may_have_another_value(body):
    assert fixed_locals(_kernel(body).tasks[0].body) == set()


def test_stop_of_a_loop_is_in_memory():
    body = "local v: u1 set v, %4 for %6: i32 in %1 .. %2 until v { store x[%1], %3 }"
    assert fixed_locals(_kernel(body).tasks[0].body) == set()


@pytest.mark.parametrize("body", [*FIXED.values(), *VARYING.values()], ids=[*FIXED, *VARYING])
def test_code_gives_what_the_reference_gives(body):
    found = []
    for name in ("reference", "cpu"):
        kernel, x = _kernel(body), np.array([2.5, 1.0], np.float32)
        registry.get(name).compile(kernel, Options()).run({"x": x}, {}, Sizes(), Draws())
        found.append(x)
    assert np.array_equal(*found)


@pytest.mark.parametrize(("bodies", "memory"), [(FIXED, 0), (VARYING, 1)])
def test_memory(bodies, memory):
    backend = registry.get("cpu")
    for body in bodies.values():
        assert backend.ir_text(_kernel(body), optimize=False).count("alloca float") == memory, body
