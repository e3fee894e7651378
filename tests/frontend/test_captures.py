"""Fields and their names in the IR; functions of the language outside kernels; types of operators."""

from __future__ import annotations

import ast
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from frontend_support import Field, body, integers, real, traced
from stackgrad.compiler.errors import KernelSyntaxError, KernelTypeError
from stackgrad.compiler.frontend import type_inference
from stackgrad.compiler.frontend.calls import LOWERINGS
from stackgrad.compiler.frontend.context import EXPRESSIONS, STATEMENTS
from stackgrad.compiler.frontend.diagnostics import ProblemError
from stackgrad.compiler.frontend.functions import ALIASES, EXPORTS, FUNCTIONS, LanguageFunction
from stackgrad.compiler.frontend.protocols import FieldLike, is_field
from stackgrad.compiler.frontend.type_inference import FrontendOptions
from stackgrad.compiler.ir.types import ArrayType, Scalar


def test_one_object_has_one_name() -> None:
    a = real(1.0)
    alias = a

    def k():
        a[0] = alias[0] + 1.0

    assert list(traced(k).arrays) == ["alias"]


def test_different_objects_of_one_name() -> None:
    a = real(1.0)
    other = SimpleNamespace(a=real(2.0))

    @sg.func
    def read():
        return inner_a()

    def make(a: Field) -> Any:
        def inner():
            return a[0]

        return sg.func(inner)

    inner_a = make(real(3.0))

    def k():
        a[0] = other.a[0] + read()

    assert set(traced(k).arrays) == {"a", "other_a", "a.1"}


def test_gradients_are_named_after_their_field() -> None:
    a = real(1.0, needs_grad=True)
    captured = a.grad

    def after():
        a[0] = captured[0] + a.grad[0]

    def before():
        v = captured[0]
        a[0] = v

    def alone():
        captured[0] = 1.0

    for function in (after, before):
        assert traced(function).arrays == {"a": a, "a.grad": a.grad}
        assert "load a.grad" in body(function) and "captured" not in body(function)
    assert list(traced(alone).arrays) == ["captured"]


def test_gradient_of_real_fields_only() -> None:
    a, b = Field(sg.i32, 2, needs_grad=True), Field(sg.f32, 2)

    def k():
        b[0] = a[0]

    assert traced(k).kernel.array_types() == {"a": ArrayType(sg.i32, 1), "b": ArrayType(sg.f32, 1)}


def test_arguments_do_not_share_names_with_fields() -> None:
    n = integers(4)

    @sg.func
    def get():
        return n[0]

    def make() -> Any:
        def k(n: sg.i32):
            get_value = get()
            for i in range(n):
                print(get_value, i)

        return k

    assert [p.name for p in traced(make()).kernel.params] == ["n", "n.1"]


def test_protocol() -> None:
    assert is_field(real(1.0)) and isinstance(real(1.0), FieldLike)
    assert not is_field(np.zeros(3)) and not is_field(3)


# ---- tables ---------------------------------------------------------------------------------------------------------


def test_tables_have_no_holes() -> None:
    for table in (
        EXPRESSIONS,
        STATEMENTS,
        LOWERINGS,
        type_inference.BINARY,
        type_inference.COMPARE,
        type_inference.UNARY,
    ):
        assert table.missing() == [], table.name
    functions = {name for name, value in EXPORTS.items() if isinstance(value, LanguageFunction)}
    assert set(LOWERINGS.keys) == set(FUNCTIONS) == functions
    assert set(ALIASES.values()) <= set(FUNCTIONS)


# ---- functions outside kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("sin", (0.5,), math.sin(0.5)),
        ("atan2", (1, 2), math.atan2(1, 2)),
        ("rsqrt", (4.0,), 0.5),
        ("inv", (4.0,), 0.25),
        ("log", (0.0,), -math.inf),
        ("abs", (-3,), 3),
        ("sgn", (-2.5,), -1.0),
        ("floor", (-0.5,), -1.0),
        ("round", (2.5,), 2.0),
        ("ceil", (1.2, sg.i32), 2),
        ("pow", (2, 10), 1024),
        ("min", (3, 1, 2), 1),
        ("max", (1.0, 2), 2),
        ("select", (True, 1, 2), 1),
        ("cast", (2.7, sg.i32), 2),
        ("bit_cast", (1.0, sg.i32), 0x3F800000),
        ("popcnt", (-1,), 32),
        ("clz", (1,), 31),
        ("ffs", (8,), 4),
        ("raw_div", (-7, 2), -3),
        ("raw_mod", (-7, 2), -1),
        ("frexp", (8.0,), (0.5, 4)),
        ("isnan", (math.nan,), True),
        ("isinf", (-math.inf,), True),
        ("static", (5,), 5),
        ("bit_shr", (-1, 28), 15),
    ],
)
def test_python_meaning(name: str, args: tuple[Any, ...], expected: Any) -> None:
    found = getattr(sg, name)(*args)
    assert found == expected and type(found) in (type(expected), int, float)


def test_what_has_no_meaning_outside_kernels() -> None:
    with pytest.raises(KernelSyntaxError, match="inside kernels only"):
        sg.atomic_add(1, 2)


def test_func_is_plain_python_outside_kernels() -> None:
    @sg.func
    def double(v):
        """Twice."""
        return 2 * v

    assert double(4) == 8 and double.__doc__ == "Twice." and double.__name__ == "double"
    assert list(sg.ndrange(2, (1, 3))) == [(0, 1), (0, 2), (1, 1), (1, 2)] and list(sg.ndrange(3)) == [0, 1, 2]


# ---- promotion ------------------------------------------------------------------------------------------------------

SINGLE = FrontendOptions()


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        (ast.Add, "i32", "i64", "i64"),
        (ast.Add, "i32", "f16", "f16"),
        (ast.Mult, "u8", "i32", "i32"),
        (ast.Add, "u32", "i32", "u32"),
        (ast.Add, "u1", "u1", "i32"),
        (ast.Sub, "u1", "f64", "f64"),
        (ast.Div, "i64", "i32", "f32"),
        (ast.Div, "f64", "i32", "f64"),
        (ast.FloorDiv, "i8", "i16", "i16"),
        (ast.BitAnd, "u1", "u1", "u1"),
        (ast.BitOr, "u1", "i16", "i16"),
        (ast.LShift, "u8", "i32", "u8"),
        (ast.RShift, "i64", "i32", "i64"),
        (ast.Pow, "i32", "f32", "f32"),
    ],
)
def test_operand_types(operator: type[ast.operator], left: str, right: str, expected: str) -> None:
    types: dict[str, Scalar] = {name: getattr(sg, name) for name in (left, right)}
    assert (
        type_inference.operand_type(type_inference.BINARY[operator], types[left], types[right], SINGLE).name == expected
    )


@pytest.mark.parametrize(
    ("value", "expected"), [(True, "u1"), (3, "i32"), (-(2**31), "i32"), (2**31, "i64"), (2**63, "u64"), (0.5, "f32")]
)
def test_literal_types(value: Any, expected: str) -> None:
    assert type_inference.literal_type(value, SINGLE).name == expected


def test_literal_that_is_too_large() -> None:
    with pytest.raises(ProblemError, match="64 bits") as caught:
        type_inference.literal_type(2**64, SINGLE)
    assert caught.value.kind is KernelTypeError


def test_shift_right_of_unsigned_types_is_logical() -> None:
    row = type_inference.BINARY[ast.RShift]
    assert type_inference.operation(row, sg.u32) == "bit_shr" and type_inference.operation(row, sg.i32) == "bit_sar"


def test_warnings() -> None:
    n, u = integers(0), integers(0, dtype=sg.u32)

    def k(a: sg.f64):
        n[0] = a
        n[0] = 2.0
        n[0] += 0.5
        u[0] = u[0] + -1

    reasons = [w.reason for w in traced(k).warnings]
    assert len(reasons) == 3
    assert all(part in reason for part, reason in zip(["`n[0]` of type i32", "`n[0]`", "-1 becomes unsigned"], reasons))
    assert all(w.span is not None and w.cure for w in traced(k).warnings)
