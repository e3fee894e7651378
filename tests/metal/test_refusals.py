"""What Metal does not have is refused with statement, line and cure; what can be had in another way is not."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from metal_support import Make
from stackgrad.backends import registry
from stackgrad.backends.base import Concurrency, Options, Sizes
from stackgrad.backends.limits import check
from stackgrad.backends.metal.backend import MetalBackend
from stackgrad.compiler.driver import prepare_forward, prepare_reverse
from stackgrad.compiler.errors import DeviceError, Unsupported
from stackgrad.compiler.ir.parser import parse_kernel


def atomic(statement: str, dtype: str = "i64") -> str:
    return f"""kernel k(x: {dtype}[1], y: {dtype}[1]) {{
      bounds {{ %0: i32 = const 0 %1: i32 = shape y, 0 }} parallel %2: i32 in %0 .. %1 {{
        %9: i32 = const 0 %3: {dtype} = load y[%2] {statement} }} }}"""


@pytest.mark.parametrize(
    ("text", "statement", "reason"),
    [
        (
            "kernel k(x: f64[1]) { serial { %0: i32 = const 0 %1: f64 = load x[%0] store x[%0], %1 } }",
            "%1: f64 = load x[%0]",
            "Metal has no f64",
        ),
        ("kernel k() { serial { local_array a: f64[3] } }", "local_array a: f64[3]", "Metal has no f64"),
        ('kernel k() { serial { print "hello" } }', 'print "hello"', "print is not available in GPU code"),
    ],
)
def test_refused(text: str, statement: str, reason: str) -> None:
    with pytest.raises(Unsupported) as caught:
        check(parse_kernel(text), "metal")
    assert reason in str(caught.value) and f"`{statement}`" in str(caught.value) and "cure: " in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        "%4: i64 = atomic add x[%9], %3",
        "%4: i64 = atomic bit_xor x[%9], %3",
        "%4: i64 = atomic max y[%2], %3 store x[%9], %4",
    ],
)
def test_64_bits_without_their_old_value(make: Make, statement: str) -> None:
    """Sums and bits fall into halves; an element of the iteration's own needs no atomic."""
    text = make(atomic(statement)).entries[-1].text
    assert "sg_add_u64(" in text or "sg_xor_u64(" in text or "atomic_max" not in text


def test_the_line_of_a_program() -> None:
    """Where a kernel comes from Python, with the line."""
    sg.init(arch=sg.reference)

    @sg.kernel
    def doubled(x: sg.types.ndarray(sg.f64, 1)):
        for i in x:
            x[i] = x[i] * 2.0

    doubled(np.zeros(3))
    with pytest.raises(Unsupported) as caught:
        check(prepare_forward(doubled.ir()).kernel, "metal")
    assert "test_refusals.py:" in str(caught.value) and "x[i] = x[i] * 2.0" in str(caught.value)


COUNTED = """kernel power(x: f32[1] grad, n: i32[1], y: f32[1] grad) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load x[%2] %4: i32 = load n[%2]
    local v: f32 set v, %3
    while { %5: f32 = get v %6: f32 = const 100.0 %7: u1 = cmp_lt %5, %6 } test %7 {
      %8: f32 = get v %9: f32 = mul %8, %8 set v, %9 }
    %10: f32 = get v store y[%2], %10 } }"""


def test_counting_kernels_need_maxima_of_64_bits(translator: None) -> None:
    """Of depths, which are never negative: the unsigned maximum that Metal has."""
    from stackgrad.backends.metal.program import program

    counting = prepare_reverse(parse_kernel(COUNTED)).counting
    assert counting is not None
    text = "".join(entry.text for entry in program(counting, Options()).entries)
    assert "atomic_max_explicit(reinterpret_cast<device atomic_ulong*>(address), value" in text


def test_the_backend_says_what_is_untested() -> None:
    probe = registry.probe_all()["metal"]
    assert not probe.available and "no Metal device was at hand to test it" in probe.reason and probe.cure
    backend = registry.get("metal")
    kernel = parse_kernel("kernel k() { serial { } }")
    assert isinstance(backend, MetalBackend) and backend.rows_in_flight(kernel, 0, Sizes(), Options()) == Concurrency(1)
    with pytest.raises(DeviceError, match="cure: "):
        backend.compile(kernel, Options())
    backend.reset()
    assert backend.heap_report()["real"] == {"current": 0, "peak": 0}
