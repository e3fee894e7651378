"""Forms of integer values: real numbers that an index comes from are symbols, whatever they are."""

from __future__ import annotations

import pytest
from stackgrad.compiler.analysis.affine import IndexForms, is_own
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.walk import walk

KERNEL = """kernel k(x: f64[1] grad, y: f64[1] grad) {{
  bounds {{ %0: i32 = const 0 %1: i32 = shape y, 0 }} parallel %2: i32 in %0 .. %1 {{
    %3: f64 = const {number} %4: f64 = tanh %3 %5: f64 = abs %3 %6: i64 = cast %5
    %7: i64 = const 3 %8: i64 = bit_and %6, %7
    %9: f64 = load x[%8] %10: f64 = mul %9, %4 store y[%2], %10
  }} }}"""


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "0.25", "3.0"])
def test_a_real_number_is_no_number_of_an_element(number: str) -> None:
    """An index that is cast from a constant that is no number of any element is taken for one that is not known."""
    kernel = parse_kernel(KERNEL.format(number=number))
    made = {s.result: s for task in kernel.tasks for s in walk(task.body) if isinstance(s, n.Const)}
    forms = IndexForms(kernel.tasks[0])
    real = next(value for value in made if value.type.is_real)
    assert forms.form(real).terms
    whole = next(value for value in made if not value.type.is_real and made[value].value == 3)
    assert forms.form(whole).constant == 3 and not forms.form(whole).terms
    prepare_reverse(kernel)


def test_a_multiple_that_wraps_comes_again() -> None:
    """i · 2^31 is one of two numbers of 32 bits, so iterations share elements; of a short box they do not."""
    text = """kernel k(x: f64[1]) {{ bounds {{ %0: i32 = const 0 %1: i32 = {end} }} parallel %2: i32 in %0 .. %1 {{
        %3: i32 = const {factor} %4: i32 = mul %2, %3 %5: f64 = const 1.0 %6: f64 = atomic add x[%4], %5 }} }}"""
    for end, factor, own in (
        ("shape x, 0", -(2**31), False),
        ("shape x, 0", 65536, False),
        ("const 100", 65536, True),
        ("shape x, 0", 8, True),
        ("shape x, 0", 3, True),
    ):
        task = parse_kernel(text.format(end=end, factor=factor)).tasks[0]
        forms = IndexForms(task)
        update = next(s for s in task.body if isinstance(s, n.Atomic))
        assert is_own(tuple(map(forms.form, update.indices)), task, forms) == own, (end, factor)
