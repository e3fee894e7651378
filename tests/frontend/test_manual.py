"""The errors and the edge behavior that the manual states are those of kernels and of plain Python."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.compiler.frontend.manual import MANUAL

ERRORS = [
    ("sin", "y[0] = sg.sin(x[0] > 0.0)", "KernelTypeError"),
    ("sin", "y[0] = sg.sin(x)", "KernelTypeError"),
    ("atan2", "y[0] = sg.atan2(x[0], x[0] > 0.0)", "KernelTypeError"),
    ("abs", "y[0] = sg.abs(x[0] > 0.0)", "KernelTypeError"),
    ("floor", "y[0] = sg.floor(x[0], 3)", "KernelTypeError"),
    ("min", "y[0] = sg.min(x[0])", "KernelSyntaxError"),
    ("max", "y[0] = sg.max(x[0], x[0] > 0.0)", "KernelTypeError"),
    ("raw_div", "y[0] = sg.raw_div(n[0], n[1])", "DivisionByZero"),
    ("raw_mod", "y[0] = sg.raw_mod(n[0], n[1])", "DivisionByZero"),
    ("frexp", "m, e = sg.frexp(x[0] > 0.0)", "KernelTypeError"),
    ("cast", "y[0] = sg.cast(x[0], 3)", "KernelTypeError"),
    ("bit_cast", "n[0] = sg.bit_cast(x[0], sg.i32)", "KernelTypeError"),
    ("popcnt", "n[0] = sg.popcnt(x[0])", "KernelTypeError"),
    ("bit_shr", "n[0] = sg.bit_shr(x[0], 1)", "KernelTypeError"),
    ("isnan", "n[0] = sg.isnan(x[0] > 0.0)", "KernelTypeError"),
    ("random", "y[0] = sg.random(3)", "KernelTypeError"),
    ("randn", "y[0] = sg.randn(sg.i32)", "KernelTypeError"),
    ("zero", "y[0] = sg.zero(x)", "KernelTypeError"),
    ("stop_grad", "y[0] = sg.stop_grad(sg.sin)", "KernelTypeError"),
    ("atomic_add", "sg.atomic_add(x[0])", "KernelSyntaxError"),
    ("atomic_and", "sg.atomic_and(x[0], 1)", "KernelTypeError"),
    ("atomic_exchange", "sg.atomic_exchange(x[0])", "KernelSyntaxError"),
    ("atomic_cas", "sg.atomic_cas(x[0], 1.0)", "KernelSyntaxError"),
    ("assume_unique", "n[sg.assume_unique(x[0])] = 1", "KernelTypeError"),
    ("block_local", "sg.block_local(3)", "KernelTypeError"),
    ("cache_read_only", "sg.cache_read_only(3)", "KernelTypeError"),
    ("static", "y[0] = sg.static(x[0])", "KernelTypeError"),
    ("static_assert", "sg.static_assert(False, 'no')", "KernelSyntaxError"),
    ("ndrange", "y[0] = sg.ndrange(3)", "KernelSyntaxError"),
    ("ndrange", "for i, j in sg.ndrange((1, 2, 3), 2): y[i] = 0.0", "KernelTypeError"),
    ("grouped", "y[0] = sg.grouped(x)", "KernelSyntaxError"),
    ("grouped", "for I in sg.grouped(range(0, 3, 2)): y[I] = 0.0", "KernelTypeError"),
    ("loop_config", "sg.loop_config(speed=3)", "KernelSyntaxError"),
    ("loop_config", "sg.loop_config(True)", "KernelSyntaxError"),
    ("assume_in_range", "y[0] = sg.assume_in_range(x[0], 100.0, 0.0, 1.0)", "KernelAssertionError"),
    ("stream_parallel", "y[0] = sg.stream_parallel()", "KernelSyntaxError"),
    ("graph_parallel", "y[0] = sg.graph_parallel(3)", "KernelSyntaxError"),
    ("graph_do_while", "y[0] = sg.graph_do_while(n[0])", "KernelSyntaxError"),
]
"""A statement of a kernel that goes wrong, and the error that the manual states for the function."""


HEAD = "import stackgrad as sg\n\ndef make(x, y, n):\n    @sg.kernel\n    def k():\n"


def kernel_of(statement: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """A kernel that runs a statement once, on reals x and y and on integers n, and these fields."""
    sg.init(arch=sg.reference, default_fp=sg.f64, debug=True)
    fields = {"x": sg.field(sg.f64, 4), "y": sg.field(sg.f64, 4), "n": sg.field(sg.i32, 4)}
    file = folder / "manual_case.py"
    file.write_text(f"{HEAD}        {statement}\n    return k\n")
    spec = importlib.util.spec_from_file_location("manual_case", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make(**fields), fields


@pytest.mark.parametrize(("name", "statement", "error"), ERRORS, ids=[row[1] for row in ERRORS])
def test_stated_errors_are_raised(name: str, statement: str, error: str, tmp_path: Path) -> None:
    assert f"    {error}: " in MANUAL[name].text.partition("Raises:")[2]
    kernel, fields = kernel_of(statement, tmp_path)
    fields["n"][0] = 3
    with pytest.raises(getattr(sg, error)):
        kernel()
        sg.sync()


def test_most_statements_on_errors_are_tested() -> None:
    stated = {name for name, entry in MANUAL.items() if "Raises:" in entry.text}
    alike = {"cos", "tan", "asin", "acos", "tanh", "exp", "log", "sqrt", "rsqrt", "inv", "rcp", "sgn", "ceil", "round"}
    alike |= {"clz", "ffs", "isinf", "one", "pow", "select", "graph_parallel_context"}
    alike |= {f"atomic_{name}" for name in ("sub", "mul", "min", "max", "or", "xor")}
    assert stated - alike == {row[0] for row in ERRORS}


@pytest.mark.parametrize("name", [name for name in MANUAL if name.startswith("atomic_")] + ["graph_do_while"])
def test_what_works_in_kernels_alone_says_so(name: str) -> None:
    assert "KernelSyntaxError: The" in MANUAL[name].text
    with pytest.raises(sg.KernelSyntaxError):
        getattr(sg, name)(1, 2)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (lambda: sg.sqrt(-0.0), -0.0),
        (lambda: sg.rsqrt(-0.0), -math.inf),
        (lambda: sg.round(2.5), 2.0),
        (lambda: sg.floor(2.5, sg.i32), 2),
        (lambda: sg.raw_div(-7, 2), -3),
        (lambda: sg.raw_mod(-7, 2), -1),
        (lambda: sg.popcnt(-1), 32),
        (lambda: sg.popcnt(2**40), 0),
        (lambda: sg.ffs(2**40), 41),
        (lambda: sg.clz(1), 31),
        (lambda: sg.bit_shr(-1, 28), 15),
        (lambda: sg.frexp(8.0), (0.5, 4)),
        (lambda: sg.static(1, 2), (1, 2)),
        (lambda: list(sg.ndrange(2, (1, 3))), [(0, 1), (0, 2), (1, 1), (1, 2)]),
        (lambda: sg.isinf(3), False),
    ],
)
def test_behavior_outside_kernels(found: Any, wanted: Any) -> None:
    assert repr(found()) == repr(wanted)
