"""Test which real values must not be contracted, and that the time to find them is linear in the kernel's size."""

from __future__ import annotations

import pytest
from stackgrad.compiler.analysis.decisions import decisive_values
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.statement import Value


def _kernel(count: int):
    """Return a kernel that reads and writes one array `count` times, and then branches on it."""
    steps = "\n".join(
        f"%{10 + 2 * k}: f32 = load x[%1]\n%{11 + 2 * k}: f32 = add %{10 + 2 * k}, %2\nstore x[%1], %{11 + 2 * k}"
        for k in range(count)
    )
    decision = "%3: f32 = load x[%1]\n%4: u1 = cmp_lt %3, %2\nif %4 { store y[%1], %3 }"
    head = "%1: i32 = const 0\n%2: f32 = const 1.0"
    return parse_kernel(f"kernel k(x: f32[1], y: f32[1]) {{ serial {{\n{head}\n{steps}\n{decision}\n}} }}")


def test_what_an_array_holds_decides_if_the_array_does():
    found = {value.id for value in decisive_values(_kernel(3))}
    assert found == {2, 3, *range(10, 16)}


@pytest.mark.parametrize("count", [50, 200])
def test_time_is_in_proportion_to_the_kernel(count, monkeypatch):
    kernel, looked_up = _kernel(count), []
    monkeypatch.setattr(Value, "__hash__", lambda self: looked_up.append(1) or self.id)
    decisive_values(kernel)
    assert len(looked_up) < 20 * count
