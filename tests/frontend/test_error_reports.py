# ruff: noqa: F821, F841 - the mistakes are the point
"""Several mistakes in one kernel; mistakes in functions; the text of an error."""

from __future__ import annotations

import pytest
import stackgrad as sg
from frontend_support import Field, failure, integers, marked, real
from stackgrad.compiler.errors import KernelNameError, KernelSyntaxError, KernelTypeError, Unsupported
from stackgrad.compiler.frontend.trace import trace

x, n, grid, zero = real(1, 2, 3), integers(1, 2, 3), Field(sg.f64, (2, 3)), Field(sg.f64)


def test_five_mistakes_are_all_reported_in_order_of_lines() -> None:
    def k(a: sg.f64):
        v = unknown_one
        w = v * 2 + unknown_one
        for i in range(x[0]):
            grid[i] = w
            if x[i] & 1:
                break
        try:
            a = 1.0
        finally:
            pass
        x[0] = sg.sin(v, w)

    error = failure(k, KernelSyntaxError)
    reasons = [d.reason for d in error.diagnostics]
    expected = ["`unknown_one`", "bound of a loop", "2 axes", "`&`", "`break`", "catch exceptions", "`sin` takes"]
    assert len(reasons) == len(expected) and all(e in r for e, r in zip(expected, reasons))
    lines = [d.span.line for d in error.diagnostics if d.span]
    assert lines == sorted(lines) and len(set(lines)) == 7
    assert str(error).count("cure:") == 7 and str(error).count("^") >= 7


def test_class_of_several_mistakes() -> None:
    def types():
        x[0.5] = 1.0
        n[0] = x[0] << 1

    def unsupported():
        sg.simt.Tile16x16.zeros(sg.f32)
        print("{}", x[0])

    def of_indices():
        x[0.5] = 1.0
        n[-1] = 1

    def mixed():
        x[0.5] = 1.0
        sg.simt.Tile16x16.zeros(sg.f32)

    assert len(failure(types, KernelTypeError).diagnostics) == 2
    assert len(failure(of_indices, KernelTypeError).diagnostics) == 2
    assert len(failure(unsupported, Unsupported).diagnostics) == 2
    assert len(failure(mixed, KernelSyntaxError).diagnostics) == 2


def test_two_mistakes_of_one_expression() -> None:
    def k():
        x[0] = first_unknown + second_unknown * first_unknown

    assert [marked(failure(k, KernelNameError), i) for i in (0, 1)] == ["first_unknown", "second_unknown"]
    assert len(failure(k, KernelNameError).diagnostics) == 2


def test_a_mistake_in_a_function_names_the_call_and_is_reported_once() -> None:
    @sg.func
    def wrong(v):
        return v + missing_constant

    def k():
        for i in sg.static(range(4)):
            x[i] = wrong(1.0)
        x[0] = wrong(2.0)

    (found,) = failure(k, KernelNameError).diagnostics
    assert "in `wrong`, called at" in found.reason and found.span is not None
    assert "missing_constant" in found.span.text


def test_what_follows_from_a_mistake_is_silent() -> None:
    def k():
        a, b = missing_pair()
        c = a + b
        for i in range(c):
            d = c * i
            x[i] = sg.sin(d) if d > 0 else -a
        while c < 1:
            c += 1

    (found,) = failure(k, KernelNameError).diagnostics
    assert "missing_pair" in found.reason


def test_the_text_of_an_error() -> None:
    def k():
        zero[None] = x[0] & 1

    with pytest.raises(KernelTypeError) as caught:
        trace(k)
    line = k.__code__.co_firstlineno + 1
    assert str(caught.value).splitlines() == [
        f"{__file__}:{line}:22: `&` works on integers and booleans, not on f64",
        "    zero[None] = x[0] & 1",
        "                 ^^^^^^^^",
        "    cure: convert with `int(...)`, or write `and`, `or` between conditions",
    ]


def test_columns_count_characters() -> None:
    θ = real(1.0)

    def k():
        θ[0] = θ[0] & 1

    error = failure(k, KernelTypeError)
    assert marked(error) == "θ[0] & 1"
