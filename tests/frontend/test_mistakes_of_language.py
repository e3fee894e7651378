# ruff: noqa: B007, C416, F401, F821, F823, F841, RET503 - the mistakes are the point
"""What is not in the language, and mistakes in signatures and results."""

from __future__ import annotations

from typing import Any

import pytest
import stackgrad as sg
from frontend_support import integers, real
from mistakes import Mistakes, check_mistake
from stackgrad.compiler.errors import KernelSyntaxError, KernelTypeError, LocatedError, Unsupported

x, n = real(1, 2, 3), integers(1, 2, 3)
FACTOR, NAME = 2.0, "text"

mistake = Mistakes()


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


# ---- signatures and results -------------------------------------------------------------------------------------


@mistake(KernelSyntaxError, "the argument `a` of the kernel has no type", "a", "`a: sg.f32`")
def missing_annotation(a):  # here
    x[0] = a


@mistake(Unsupported, "the annotation `list` of `a` is no type of an argument", "a: list", "scalar type")
def wrong_annotation(a: list):  # here
    x[0] = 1.0


@mistake(KernelSyntaxError, "the kernel takes `*rest`", "rest")
def variadic(*rest):  # here
    x[0] = 1.0


@mistake(KernelSyntaxError, "returns a value, its signature does not say which", "return x[0]", "-> sg.f32")
def returned_value():
    return x[0]  # here


@mistake(Unsupported, "a printed text cannot hold `{}`", 'print("{}", x[0])')
def print_of_a_template():
    print("{}", x[0])  # here


@pytest.mark.parametrize(("function", "kind", "reason", "at", "cure"), mistake)
def test_mistake(function: Any, kind: type[LocatedError], reason: str, at: str, cure: str) -> None:
    check_mistake(function, kind, reason, at, cure)
