# ruff: noqa: B007, C416, F401, F821, F823, F841, RET503 - the mistakes are the point
"""Mistakes in types and calls."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import stackgrad as sg
from frontend_support import Field, integers, real
from mistakes import Mistakes, check_mistake
from stackgrad.compiler.errors import KernelSyntaxError, KernelTypeError, LocatedError, Unsupported

x, n = real(1, 2, 3), integers(1, 2, 3)
flags = Field(sg.u1, 3)
FACTOR, NAME = 2.0, "text"

mistake = Mistakes()


@sg.func
def recursive(v):
    return recursive(v)  # here


@sg.func
def sometimes(v):  # here
    if v > 0:
        return v


@sg.func
def one_or_two(v):
    if v > 0:
        return v
    return v, v  # here


@sg.func
def pair(v):
    return v, v


@sg.func
def nothing(v):
    x[0] = v


@sg.func
def inverse(v, low=0.0):
    return low + 1.0 / v


# ---- types ------------------------------------------------------------------------------------------------------


@mistake(KernelTypeError, "`&` works on integers and booleans, not on f64", "x[0] & 1", "int(")
def bits_of_a_real():
    n[0] = x[0] & 1  # here


@mistake(KernelTypeError, "`<<` shifts integers, not f64", "x[0] << 2", "int(")
def shifted_real():
    n[0] = x[0] << 2  # here


@mistake(KernelTypeError, "`>>` shifts integers, not f64", "4 >> x[0]")
def shift_by_a_real():
    n[0] = 4 >> x[0]  # here


@mistake(KernelTypeError, "`~` works on integers and booleans, not on f64", "~x[0]")
def inverted_real():
    n[0] = ~x[0]  # here


@mistake(KernelTypeError, "a boolean has no sign", "-(x[0] > 1)", "int(")
def negated_boolean():
    n[0] = -(x[0] > 1)  # here


@mistake(KernelTypeError, "`sin` takes numbers, not a boolean", "sg.sin(x[0] > 1)", "int(")
def sine_of_a_boolean():
    x[0] = sg.sin(x[0] > 1)  # here


@mistake(KernelTypeError, "a condition is a boolean or an integer, not f64", "x[0]", "`x != 0.0`")
def real_condition():
    if x[0]:  # here
        n[0] = 1


@mistake(KernelTypeError, "a condition is a boolean or an integer, not f64", "not x[0]")
def negated_real():
    while not x[0]:  # here
        n[0] = 1


@mistake(KernelTypeError, "a condition is a boolean or an integer, not f64", "n[0] > 0 and x[0]")
def real_operand_of_and():
    if n[0] > 0 and x[0]:  # here
        n[0] = 1


@mistake(KernelTypeError, "the bound of a loop is an integer, not f64", "x[0]", "sg.cast")
def real_bound():
    for i in range(x[0]):  # here
        n[i] = 1


@mistake(KernelTypeError, "the step of a range is an integer, not f64", "x[0]")
def real_step():
    for i in range(0, 3, x[0]):  # here
        n[i] = 1


@mistake(KernelTypeError, "the step of a range is zero", "0")
def zero_step():
    for i in range(3, 1, 0):  # here
        n[i] = 1


@mistake(KernelTypeError, "there is no atomic `add` on elements of type u1", "flags[0] += 1")
def atomic_on_booleans():
    flags[0] += 1  # here


@mistake(KernelTypeError, "cannot be multiplied in place by a real value", "n[0] *= 0.5", "int(")
def integer_element_times_real():
    n[0] *= 0.5  # here


@mistake(KernelTypeError, "`bit_cast` keeps the bits", "sg.bit_cast(x[0], sg.i32)", "sg.cast")
def bit_cast_of_another_width():
    n[0] = sg.bit_cast(x[0], sg.i32)  # here


@mistake(KernelTypeError, "`popcnt` takes an integer, not f64", "sg.popcnt(x[0])")
def bits_counted_in_a_real():
    n[0] = sg.popcnt(x[0])  # here


@mistake(KernelTypeError, "`cast` needs a scalar type", "sg.cast(x[0], 32)")
def cast_to_no_type():
    n[0] = sg.cast(x[0], 32)  # here


@mistake(KernelTypeError, "the constant expression 1 // 0 fails", "1 // 0")
def constant_division_by_zero():
    n[0] = 1 // 0  # here


@mistake(KernelTypeError, "an integer is divided by zero", "n[1] % 0")
def division_by_the_constant_zero():
    n[0] = n[1] % 0  # here


@mistake(KernelTypeError, "an integer to a negative power", "n[1] ** -1", "float(")
def negative_power_of_an_integer():
    n[0] = n[1] ** -1  # here


@mistake(KernelTypeError, "2 names are assigned from 3 values", "a, b = 1, 2, 3")
def wrong_number_of_values():
    a, b = 1, 2, 3  # here


@mistake(KernelTypeError, "and structs, not the field `x`", "v = x", "sg.static")
def field_in_a_local():
    v = x  # here


@mistake(KernelTypeError, "and structs, not None", "v = nothing(1.0)", "return a value")
def result_of_nothing():
    v = nothing(1.0)  # here


@mistake(KernelTypeError, "a number is expected here, not a string `NAME`", "NAME * 2.0")
def text_as_a_number():
    x[0] = NAME * 2.0  # here


# ---- calls ------------------------------------------------------------------------------------------------------


@mistake(
    KernelSyntaxError, "`textwrap.dedent` is not a function that kernels can call", "textwrap.dedent(1.0)", "`def`"
)
def function_of_a_library():
    x[0] = textwrap.dedent(1.0)  # here


@mistake(KernelSyntaxError, "`recursive` calls itself", "recursive(v)", "loop")
def recursion():
    x[0] = recursive(1.0)


@mistake(KernelSyntaxError, "`sometimes` can end without returning a value", "def sometimes(v):", "every path")
def missing_return():
    x[0] = sometimes(1.0)


@mistake(KernelTypeError, "`one_or_two` returns a real number or 2 values", "return v, v")
def returns_differ():
    x[0] = one_or_two(1.0)


@mistake(KernelSyntaxError, "`inverse` is called without its argument `v`", "inverse()")
def missing_argument():
    x[0] = inverse()  # here


@mistake(KernelSyntaxError, "`inverse` does not take 3 arguments", "inverse(1, 2, 3)", "(v, low)")
def too_many_arguments():
    x[0] = inverse(1, 2, 3)  # here


@mistake(KernelSyntaxError, "`inverse` does not take the keyword `high`", "inverse(1, high=2)")
def unknown_keyword_of_a_function():
    x[0] = inverse(1, high=2)  # here


@mistake(KernelSyntaxError, "`sin` does not take the keyword `out`", "x", "`sin(x)`")
def keyword_where_none_is_taken():
    x[0] = sg.sin(1.0, out=x)  # here


@mistake(KernelSyntaxError, "`sin` takes 1 argument, 2 given", "sg.sin(1.0, x[0])")
def wrong_number_of_arguments():
    x[0] = sg.sin(1.0, x[0])  # here


@mistake(KernelSyntaxError, "`*` is taken only before a tuple of known length", "*n[0]")
def star_argument():
    x[0] = max(*n[0])  # here


@mistake(KernelSyntaxError, "`min` takes two values or more", "min(1.0)")
def minimum_of_one():
    x[0] = min(1.0)  # here


@mistake(KernelTypeError, "`@` multiplies matrices and vectors, not a value of type f64", "x[0] @ x[1]", "`*`")
def matrix_product():
    x[0] = x[0] @ x[1]  # here


@mistake(KernelTypeError, "`m` is not known at compile time", "m", "sg.static(range")
def static_of_a_local():
    m = 3
    for i in sg.static(range(m)):  # here
        x[i] = 1.0


@mistake(KernelTypeError, "`n[0]` is not known at compile time", "n[0]", "static")
def static_of_an_element():
    if sg.static(n[0] > 1):  # here
        x[0] = 1.0


@mistake(KernelSyntaxError, "static assertion failed: too small", 'sg.static_assert(FACTOR > 3, "too small")')
def static_assertion():
    sg.static_assert(FACTOR > 3, "too small")  # here


@mistake(KernelSyntaxError, "the static value `a` cannot change in a block that may run or not", "a")
def static_value_in_a_branch():
    a = sg.static(1)
    if n[0] > 0:
        a = sg.static(2)  # here
    x[0] = a


@pytest.mark.parametrize(("function", "kind", "reason", "at", "cure"), mistake)
def test_mistake(function: Any, kind: type[LocatedError], reason: str, at: str, cure: str) -> None:
    check_mistake(function, kind, reason, at, cure)
