# ruff: noqa: B007, C416, F401, F821, F823, F841, RET503 - the mistakes are the point
"""Mistakes: the class, the reason, the cure, the line and what the caret marks.

The line that holds the mistake ends in the comment `# here`.
"""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stackgrad as sg
from frontend_support import Field, failure, integers, marked, real
from stackgrad.compiler.errors import KernelSyntaxError, KernelTypeError, LocatedError, Unsupported
from stackgrad.compiler.frontend.trace import trace

x, n, grid, zero = real(1, 2, 3), integers(1, 2, 3), Field(sg.f64, (2, 3)), Field(sg.f64)
flags = Field(sg.u1, 3)
fields = [x, real(4, 5)]
FACTOR, NAME = 2.0, "text"

CASES: list[Any] = []


def mistake(kind: type[LocatedError], reason: str, at: str, cure: str = "") -> Callable[[Any], Any]:
    """A kernel with one mistake. at: the source text under the carets."""

    def enter(function: Any) -> Any:
        CASES.append(pytest.param(function, kind, reason, at, cure, id=function.__name__))
        return function

    return enter


def plain(v):
    return v


@sg.func
def recursive(v):
    return recursive(v)  # here


@sg.func
def sometimes(v):
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


# ---- names ------------------------------------------------------------------------------------------------------


@mistake(KernelSyntaxError, "the name `FACTR` is not known", "FACTR", "`FACTOR`")
def unknown_name():
    x[0] = FACTR  # here


@mistake(KernelSyntaxError, "has no attribute `sine`", "sg.sine", "`sin`")
def unknown_function():
    x[0] = sg.sine(1.0)  # here


@mistake(KernelSyntaxError, "`v` is first assigned inside the block at line", "v", "`v = 0.0`")
def name_of_an_ended_block():
    for i in range(3):
        if i > 0:
            v = 1.0
        x[i] = v  # here


@mistake(KernelSyntaxError, "`v` is first assigned inside the block at line", "v", "before the block")
def name_of_both_branches():
    for i in range(3):
        if i > 0:
            v = 1.0
        else:
            v = 2.0
        x[i] = v  # here


@mistake(KernelSyntaxError, "`i` is first assigned inside the block", "i")
def index_after_its_loop():
    for _ in range(1):
        for i in range(3):
            x[i] = 0.0
        x[0] = i  # here


@mistake(KernelSyntaxError, "`v` is used before it has a value", "v")
def used_before_assignment():
    x[0] = v  # here
    v = 1.0


@mistake(KernelSyntaxError, "`i` is a loop index and cannot be assigned", "i", "copy it")
def assigned_index():
    for i in range(3):
        i = 2  # here


@mistake(KernelSyntaxError, "`a` is an argument of the kernel and cannot be assigned", "a", "copy it")
def assigned_argument(a: sg.f64):
    a = 2.0  # here
    x[0] = a


@mistake(KernelSyntaxError, "`a` cannot be assigned", "a", "copy it")
def augmented_argument(a: sg.f64):
    a += 2.0  # here


@mistake(KernelSyntaxError, "`i` has a meaning here already", "i", "another name")
def index_that_shadows():
    i = 0
    for i in range(3):  # here
        x[i] = 1.0


@mistake(KernelTypeError, "the field `x` cannot be assigned as a whole", "x", "`x[i] = ...`")
def assigned_field():
    x = 1.0  # here


@mistake(KernelSyntaxError, "`zero` is used before it has a value", "zero")
def augmented_field():
    zero += 1.0  # here


# ---- elements ---------------------------------------------------------------------------------------------------


@mistake(KernelTypeError, "`grid` has 2 axes, but is indexed with 1", "grid[i]", "`grid[i, j]`")
def too_few_indices():
    for i in range(2):
        x[i] = grid[i]  # here


@mistake(KernelTypeError, "`x` has 1 axis, but is indexed with 2", "x[i, 0]", "`x[i]`")
def too_many_indices():
    for i in range(2):
        x[i, 0] = 1.0  # here


@mistake(KernelTypeError, "`zero` has 0 axes, but is indexed with 1", "zero[0]", "`zero[None]`")
def index_of_a_scalar_field():
    zero[0] = 1.0  # here


@mistake(KernelTypeError, "an index is an integer, not f64", "0.5 * x[1]", "int(")
def real_index():
    n[0] = int(x[0.5 * x[1]])  # here


@mistake(KernelTypeError, "the index -1 is negative", "-1", "n - 1")
def negative_index():
    zero[None] = x[-1]  # here


@mistake(KernelTypeError, "`x` has 1 axis, but is indexed with 0", "x[None]", "`x[i]`")
def none_index():
    x[None] = 1.0  # here


@mistake(KernelTypeError, "the field `n` has no gradient", "n.grad", "needs_grad=True")
def missing_gradient():
    x[0] = n.grad[0]  # here


@mistake(KernelSyntaxError, "`x.fill` cannot be used in a kernel", "x.fill")
def method_of_a_field():
    x.fill(0.0)  # here


@mistake(KernelTypeError, "a number cannot be indexed", "v[0]", "component")
def indexed_number():
    v = 1.0
    x[0] = v[0]  # here


@mistake(KernelTypeError, "a number is expected here, not the field `x`", "x + 1.0", "`x[i]`")
def field_as_a_number():
    zero[None] = x + 1.0  # here


@mistake(KernelTypeError, "a sequence `fields` is indexed with a value that is not known at compile time",
         "fields[i]", "sg.static(range(n))")  # fmt: skip
def dynamic_index_of_a_list():
    for i in range(2):
        fields[i][0] = 1.0  # here


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


@mistake(KernelTypeError, "the step of a range is an integer known at compile time", "n[0]")
def dynamic_step():
    for i in range(0, 3, n[0]):  # here
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


@mistake(KernelTypeError, "a local holds one number, not a tuple", "v = pair(1)", "unpack")
def tuple_in_a_local():
    v = pair(1)  # here


@mistake(KernelTypeError, "a local holds a number, not the field `x`", "v = x", "sg.static")
def field_in_a_local():
    v = x  # here


@mistake(KernelTypeError, "a local holds a number, not None", "v = nothing(1.0)", "return a value")
def result_of_nothing():
    v = nothing(1.0)  # here


@mistake(KernelTypeError, "a number is expected here, not a string `NAME`", "NAME * 2.0")
def text_as_a_number():
    x[0] = NAME * 2.0  # here


# ---- loops ------------------------------------------------------------------------------------------------------


@mistake(KernelSyntaxError, "`break` cannot leave a parallel loop", "break", "`continue`")
def break_of_a_parallel_loop():
    for i in range(3):
        if x[i] > 1:
            break  # here


@mistake(KernelSyntaxError, "`return` inside a parallel loop", "return", "`continue`")
def return_of_a_parallel_loop():
    for i in range(3):
        if x[i] > 1:
            return  # here


@mistake(KernelTypeError, "nothing that a kernel can loop over", "n[0]", "`range(n[0])`")
def loop_over_a_number():
    for i in n[0]:  # here
        x[i] = 1.0


@mistake(KernelTypeError, "nothing that a kernel can loop over", "fields", "sg.static(fields)")
def loop_over_a_list():
    for f in fields:  # here
        f[0] = 1.0


@mistake(KernelTypeError, "this loop has 2 axes and 3 indices", "i, j, m")
def wrong_number_of_targets():
    for i, j, m in grid:  # here
        grid[i, j] = m


@mistake(Unsupported, "this loop has 2 axes and one index", "cell", "`for i, j in ...`")
def index_vector():
    for cell in grid:  # here
        grid[cell] = 1.0


@mistake(Unsupported, "`grouped` makes an index vector", "sg.grouped(grid)")
def grouped_loop():
    for cell in sg.grouped(grid):  # here
        grid[cell] = 1.0


@mistake(KernelTypeError, "the 0-d field `zero` has no indices", "zero", "zero[None]")
def loop_over_a_scalar_field():
    for i in zero:  # here
        x[i] = 1.0


@mistake(KernelSyntaxError, "the name `unknown_field` is not known", "unknown_field")
def inner_loop_over_an_unknown_name():
    for i in range(2):
        for j in unknown_field:  # here
            x[i] = j


@mistake(KernelSyntaxError, "`range` takes 1 to 3 values", "range()")
def range_of_nothing():
    for i in range():  # here
        x[i] = 1.0


@mistake(KernelSyntaxError, "`sg.ndrange` stands only after `in` of a loop", "sg.ndrange(3)")
def ndrange_as_a_value():
    x[0] = sg.ndrange(3)  # here


@mistake(KernelSyntaxError, "`else` after a loop", "x[0] = 1.0")
def for_else():
    for i in range(3):
        x[i] = 0.0
    else:
        x[0] = 1.0  # here


@mistake(KernelSyntaxError, "`else` after a loop", "x[0] = 1.0")
def while_else():
    while n[0] > 0:
        n[0] -= 1
    else:
        x[0] = 1.0  # here


# ---- calls ------------------------------------------------------------------------------------------------------


@mistake(KernelSyntaxError, "`plain` is not a function that kernels can call", "plain(1.0)", "@sg.func")
def plain_function():
    x[0] = plain(1.0)  # here


@mistake(KernelSyntaxError, "`recursive` calls itself", "recursive(v)", "loop")
def recursion():
    x[0] = recursive(1.0)


@mistake(KernelSyntaxError, "`sometimes` can end without returning a value", "def sometimes(v):", "every path")
def missing_return():
    x[0] = sometimes(1.0)


@mistake(KernelTypeError, "`one_or_two` returns 1 or 2 values", "return v, v")
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


@mistake(Unsupported, "`sg.Vector`: local vectors and matrices are not supported", "sg.Vector", "scalar local")
def vector():
    v = sg.Vector([1.0, 2.0])  # here
    x[0] = v[0]


@mistake(Unsupported, "`@` multiplies matrices", "x[0] @ x[1]")
def matrix_product():
    x[0] = x[0] @ x[1]  # here


@mistake(KernelTypeError, "`m` is not known at compile time", "m", "sg.static(range")
def static_of_a_local():
    m = 3
    for i in sg.static(range(m)):  # here
        x[i] = 1.0


@mistake(KernelTypeError, "an element of a field is not known at compile time", "n[0]")
def static_of_an_element():
    if sg.static(n[0] > 1):  # here
        x[0] = 1.0


@mistake(KernelSyntaxError, "static assertion failed: too small", "sg.static_assert(FACTOR > 3, 'too small')")
def static_assertion():
    sg.static_assert(FACTOR > 3, 'too small')  # here


@mistake(KernelSyntaxError, "the static value `a` cannot change in a block that may run or not", "a")
def static_value_in_a_branch():
    a = sg.static(1)
    if n[0] > 0:
        a = sg.static(2)  # here
    x[0] = a


# ---- what is not in the language --------------------------------------------------------------------------------


@mistake(KernelSyntaxError, "a kernel cannot catch exceptions", "try:", "`if`")
def try_statement():
    try:  # here
        x[0] = 1.0
    except ValueError:
        x[0] = 2.0


@mistake(KernelSyntaxError, "`with` is not part of the kernel language", "with NAME:")
def with_statement():
    with NAME:  # here
        x[0] = 1.0


@mistake(KernelSyntaxError, "a kernel cannot hold a lambda", "lambda v: v", "@sg.func")
def lambda_expression():
    f = lambda v: v  # here


@mistake(KernelSyntaxError, "a class cannot be defined inside a kernel", "class A:")
def class_definition():
    class A:  # here
        pass


@mistake(KernelSyntaxError, "a function cannot be defined inside a kernel", "def f():", "@sg.func")
def function_definition():
    def f():  # here
        pass


@mistake(KernelSyntaxError, "a kernel cannot delete names", "del v")
def deletion():
    v = 1.0
    del v  # here


@mistake(KernelSyntaxError, "a kernel cannot rebind globals", "global FACTOR", "0-d field")
def global_statement():
    global FACTOR  # here


@mistake(KernelSyntaxError, "a kernel cannot yield", "yield x[0]")
def generator():
    yield x[0]  # here


@mistake(KernelSyntaxError, "a kernel has no lists", "[1.0, 2.0]", "sg.static")
def list_display():
    v = [1.0, 2.0]  # here


@mistake(KernelSyntaxError, "a kernel has no comprehensions", "[i for i in range(3)]")
def comprehension():
    v = [i for i in range(3)]  # here


@mistake(KernelSyntaxError, "a kernel has no slices", ":2")
def slice_of_a_field():
    x[:2] = 1.0  # here


@mistake(KernelSyntaxError, "`is` and `in` compare objects known at compile time alone", "n[0] in (1, 2)")
def membership():
    if n[0] in (1, 2):  # here
        x[0] = 1.0


@mistake(KernelSyntaxError, "a kernel cannot raise", "raise ValueError", "assert")
def raise_statement():
    raise ValueError  # here


@mistake(KernelSyntaxError, "a kernel cannot import", "import math")
def import_statement():
    import math  # here


@mistake(KernelSyntaxError, "a formatted string is taken only by", 'f"{NAME}"')
def formatted_string():
    v = f"{NAME}"  # here


@mistake(KernelSyntaxError, "a complex literal has no meaning", "1j")
def complex_literal():
    x[0] = 1j  # here


# ---- signatures and results ---------------------------------------------------------------------------------------


@mistake(KernelSyntaxError, "the argument `a` of the kernel has no type", "a", "`a: sg.f32`")
def missing_annotation(a):  # here
    x[0] = a


@mistake(Unsupported, "the annotation `list` of `a` is no scalar type", "a: list", "scalar type")
def wrong_annotation(a: list):  # here
    x[0] = 1.0


@mistake(KernelSyntaxError, "the kernel takes `*rest`", "rest")
def variadic(*rest):  # here
    x[0] = 1.0


@mistake(Unsupported, "a kernel returns no value", "return x[0]", "0-d field")
def returned_value():
    return x[0]  # here


@mistake(Unsupported, "the message of an assertion is known at compile time", 'f"{x[0]}"')
def assertion_with_a_value():
    assert x[0] > 0.0, f"{x[0]}"  # here


@mistake(Unsupported, "a printed text cannot hold `{}`", 'print("{}", x[0])')
def print_of_a_template():
    print("{}", x[0])  # here


@pytest.mark.parametrize(("function", "kind", "reason", "at", "cure"), CASES)
def test_mistake(function: Any, kind: type[LocatedError], reason: str, at: str, cure: str) -> None:
    error = failure(function, kind)
    (found,) = error.diagnostics
    assert reason in found.reason
    assert cure in found.cure
    assert marked(error) == at or marked(error).partition("  #")[0] == at
    assert found.span is not None and found.span.file == __file__
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[found.span.line - 1]
    assert line == found.span.text and (line.endswith("# here") or at.startswith(("def ", "return v, v")))
    assert found.span.render().splitlines()[1:] == str(error).splitlines()[1:-1]


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
        v = sg.Vector([1.0])
        return 1

    def mixed():
        x[0.5] = 1.0
        v = sg.Vector([1.0])

    assert len(failure(types, KernelTypeError).diagnostics) == 2
    assert len(failure(unsupported, Unsupported).diagnostics) == 2
    assert len(failure(mixed, KernelSyntaxError).diagnostics) == 2


def test_two_mistakes_of_one_expression() -> None:
    def k():
        x[0] = first_unknown + second_unknown * first_unknown

    assert [marked(failure(k, KernelSyntaxError), i) for i in (0, 1)] == ["first_unknown", "second_unknown"]
    assert len(failure(k, KernelSyntaxError).diagnostics) == 2


def test_a_mistake_in_a_function_names_the_call_and_is_reported_once() -> None:
    @sg.func
    def wrong(v):
        return v + missing_constant

    def k():
        for i in sg.static(range(4)):
            x[i] = wrong(1.0)
        x[0] = wrong(2.0)

    (found,) = failure(k, KernelSyntaxError).diagnostics
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

    (found,) = failure(k, KernelSyntaxError).diagnostics
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


@pytest.mark.parametrize("name", ["sg.Matrix", "sg.Vector"])
def test_vectors_by_other_names(name: str) -> None:
    def k():
        v = sg.Matrix([[1.0]]) if sg.static(name == "sg.Matrix") else sg.Vector([1.0])

    (found,) = failure(k, Unsupported).diagnostics
    assert name in found.reason
