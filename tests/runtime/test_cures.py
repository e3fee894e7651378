"""Names that the package does not have: the error says what to write instead."""

from __future__ import annotations

import math
import re

import pytest
import stackgrad as sg
from stackgrad.runtime.cures import CURES, cure_of
from table_rows import each_row


def message(name: str) -> str:
    with pytest.raises(AttributeError) as caught:
        getattr(sg, name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("Tape", "cure: use sg.ad.Tape"),
        ("FwdMode", "cure: use sg.ad.FwdMode"),
        ("no_grad", "cure: use sg.ad.no_grad"),
        ("clear_all_gradients", "cure: use sg.ad.clear_all_gradients"),
        ("complex_kernel", "cure: decorate with sg.ad.grad_replaced"),
        ("complex_kernel_grad", "cure: decorate with sg.ad.grad_for(function)"),
        ("ext_arr", "cure: annotate with sg.types.ndarray(dtype, ndim)"),
        ("external_arr", "cure: annotate with sg.types.ndarray(dtype, ndim)"),
        ("any_arr", "cure: annotate with sg.types.ndarray(dtype, ndim)"),
        ("inside_kernel", "cure: remove it: a function decorated with sg.func runs in kernels and in Python"),
        ("determinant", "cure: use sg.math.determinant"),
        ("vector", "cure: use sg.types.vector"),
        ("kernel_profiler_print", "cure: use sg.profile()"),
        ("opengl", "cure: choose sg.cpu, sg.cuda, sg.vulkan or sg.reference"),
        ("TaichiSyntaxError", "cure: catch sg.KernelSyntaxError"),
        ("SOA", "cure: use sg.Layout.SOA"),
        ("sinh", "cure: write (sg.exp(x) - sg.exp(-x)) / 2.0"),
        ("tape", "did you mean sg.ad.Tape"),
        ("hessain", "did you mean sg.ad.hessian"),
        ("feild", "did you mean sg.field"),
        ("Matix", "did you mean sg.Matrix"),
    ],
)
def test_the_error_names_the_cure(name: str, cure: str) -> None:
    assert message(name).startswith(f"module 'stackgrad' has no attribute {name!r}. {cure}")


def test_nothing_is_suggested_where_nothing_is_alike() -> None:
    assert message("zzqqxx") == "module 'stackgrad' has no attribute 'zzqqxx'"
    assert cure_of("zzqqxx", dir(sg)) == ""


def test_cures_are_about_names_that_are_missing() -> None:
    assert CURES.keys() & set(dir(sg)) == set()


@each_row("name", sorted(CURES))
def test_cures_name_what_there_is(name: str) -> None:
    named = re.findall(r"sg\.([A-Za-z_]\w*(?:\.[A-Za-z]\w*)*)", CURES[name])
    for path in named:
        value = sg
        for part in path.split("."):
            value = getattr(value, part)


FORMULAS = {
    "sinh": math.sinh,
    "cosh": math.cosh,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "atanh": math.atanh,
    "atan": math.atan,
    "log10": math.log10,
    "exp2": lambda x: 2.0**x,
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x),
}


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_formulas_are_the_functions(name: str) -> None:
    """Rounded to twelve digits, as the formulas cancel a few of them."""
    formula = CURES[name].removeprefix("write ")
    for x in {"acosh": (1.5, 3.0), "atanh": (-0.5, 0.25)}.get(name, (0.3, 1.75)):
        assert f"{eval(formula, {'sg': sg, 'x': x}):.12e}" == f"{FORMULAS[name](x):.12e}"
