"""Where kernels come from: files, notebooks, exec, prompts; closures and late binding."""

from __future__ import annotations

import inspect
import linecache
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from frontend_support import DOUBLE, execute, failure, integers, marked, real, traced
from stackgrad.compiler.errors import KernelNameError, KernelSyntaxError, KernelTypeError
from stackgrad.compiler.frontend.source import local_names, read_source
from stackgrad.compiler.frontend.trace import trace

x = real(1, 2, 3)
FACTOR = 2.0


def decorated(*values: Any) -> Any:
    return lambda function: function


def define(source: str, file: str, known: bool) -> Any:
    """The function `k` that the text defines; `known`: linecache has the text, as for the cell of a notebook."""
    source = textwrap.dedent(source)
    if known:
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"x": x, "sg": sg, "decorated": decorated}
    exec(compile(source, file, "exec"), space)
    return space["k"]


CELL = """
    # a comment

    def k():
        for i in range(3):
            x[i] = {}
"""


def test_cell_of_a_notebook() -> None:
    k = define(CELL.format("i * 0.5"), "<ipython-input-7-abc>", known=True)
    execute(k)
    assert list(x.data) == [0, 0.5, 1]
    wrong = define(CELL.format("x[i] & 1"), "<ipython-input-8-abc>", known=True)
    error = failure(wrong, KernelTypeError)
    assert marked(error) == "x[i] & 1"
    assert str(error).startswith("<ipython-input-8-abc>:6:")


@pytest.mark.parametrize(
    ("file", "cure"), [("<string>", "linecache.cache"), ("<stdin>", "Python 3.13"), ("/nowhere/at/all.py", "readable")]
)
def test_no_source(file: str, cure: str) -> None:
    k = define(CELL.format("1.0"), file, known=False)
    error = failure(k, KernelSyntaxError)
    (found,) = error.diagnostics
    assert "the source of `k` is not available" in found.reason and cure in found.cure
    assert found.span is not None and (found.span.file, found.span.line) == (file, 4)


def test_function_without_source_called_by_a_kernel_with_one() -> None:
    helper = sg.func(define("def k(v):\n    return v", "<string>", known=False))

    def k():
        x[0] = helper(1.0)

    error = failure(k, KernelSyntaxError)
    assert "is not available" in error.diagnostics[0].reason and marked(error) == "helper(1.0)"


def test_interactive_prompt() -> None:
    program = """
from types import SimpleNamespace
import stackgrad as sg
from stackgrad.compiler.frontend.trace import trace
def k():
    print("inside")

try:
    print(trace(k).kernel.tasks != ())
except sg.KernelSyntaxError as error:
    print(error)

"""
    done = subprocess.run([sys.executable, "-i"], input=program, capture_output=True, text=True, timeout=60)
    if sys.version_info >= (3, 13):
        assert "True" in done.stdout
    else:
        assert "<stdin>" in done.stdout and "Python 3.13" in done.stdout


def test_kernels_made_of_lambdas_and_objects_are_refused() -> None:
    assert "lambda" in failure(lambda: None, KernelSyntaxError).diagnostics[0].reason
    with pytest.raises(KernelSyntaxError, match="made of a Python function"):
        trace(np.sin)


def test_coroutine_is_refused() -> None:
    async def k():
        x[0] = 1.0

    assert "asynchronous" in failure(k, KernelSyntaxError).diagnostics[0].reason


def test_file_that_changed(tmp_path: Path) -> None:
    file = tmp_path / "changing.py"
    file.write_text("def k():\n    x[0] = 1.0\n")
    space: dict[str, Any] = {"x": x}
    exec(compile(file.read_text(), str(file), "exec"), space)
    file.write_text("y = 1\n" * 5)
    linecache.checkcache(str(file))
    assert "does not define `k`" in str(failure(space["k"], KernelSyntaxError))


LAID_OUT = '''
@decorated(
    1,
    2,
)
@decorated("def k():")
def k(
    a: sg.f64,
    b: "sg.i32",
    c: int = 0,
) -> None:
    """A text
that is not indented
    """
    x[0] = (
        a
        + b
        + c
    )
'''


def test_decorators_above_and_signatures_over_lines() -> None:
    k = define(LAID_OUT, "laid_out.py", known=True)
    made = traced(k)
    assert [(a.name, a.type) for a in made.arguments] == [("a", sg.f64), ("b", sg.i32), ("c", sg.i32)]
    execute(k, 1.5, 2, 3)
    assert x.data[0] == 6.5
    store = made.kernel.tasks[0].body[-1]
    span = made.kernel.span(store.loc)
    lines, first = inspect.getsourcelines(k)
    assert span is not None and lines[span.line - first].strip() == "x[0] = ("


def test_closures_are_read_when_the_kernel_is_traced() -> None:
    gain, target = 1.0, x

    def k():
        target[0] = gain * FACTOR

    gain = 3.0
    execute(k)
    assert x.data[0] == 6.0
    gain, target = 5, integers(7)
    made = execute(k)
    assert list(made.arrays) == ["target"] and target.data[0] == 10


def test_closure_that_is_empty() -> None:
    def k():
        x[0] = later

    error = failure(k, KernelNameError)
    assert marked(error) == "later"
    later = 1.0
    execute(k)
    assert x.data[0] == later


def test_globals_are_read_when_the_kernel_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    def k():
        x[0] = FACTOR

    monkeypatch.setitem(globals(), "FACTOR", np.float32(4))
    execute(k)
    assert x.data[0] == 4.0


def test_function_of_another_module_keeps_its_names_and_its_file(tmp_path: Path) -> None:
    file = tmp_path / "other.py"
    file.write_text("FACTOR = 7.0\ndef scaled(v):\n    return FACTOR * v\n\ndef bad(v):\n    return v & 1\n")
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    scaled, bad = sg.func(space["scaled"]), sg.func(space["bad"])

    def k():
        x[0] = scaled(FACTOR)

    def wrong():
        x[0] = bad(1.5) + x[0.5]

    execute(k)
    assert x.data[0] == 14.0
    first, second = failure(wrong, KernelTypeError).diagnostics
    assert first.span and first.span.file == __file__ and "an index is an integer" in first.reason
    assert second.span and (second.span.file, second.span.line) == (str(file), 6)


def test_name_of_the_kernel() -> None:
    def k():
        x[0] = 1.0

    assert traced(k).kernel.name == "k"
    assert trace(k, DOUBLE, name="step").kernel.name == "step"


def test_source_is_read_once() -> None:
    def k():
        x[0] = 1.0

    assert read_source(k) is read_source(k)


def test_annotations_of_python_and_numpy() -> None:
    def k(a: float, b: int, c: bool, d: np.float32, e: np.int64):
        x[0] = a + b + c + d + e

    assert [a.type for a in traced(k).arguments] == [sg.f64, sg.i32, sg.u1, sg.f32, sg.i64]


def test_locals_have_the_line_that_first_assigns_them() -> None:
    """Indices of comprehensions are none of them, in versions of Python that list them too."""

    def function(a, *rest):
        b = [c for c in a]
        d, (e, *f) = b, rest
        for g in (h := d):
            d += g
        c1 = [h for h in e]
        return c1, f, h

    source, code = read_source(function), function.__code__
    with_index = code.replace(co_varnames=(*code.co_varnames, "c"), co_nlocals=code.co_nlocals + 1)
    found = {name: line - source.first_line for name, line in local_names(with_index, source.tree).items()}
    assert found == {"a": 0, "rest": 0, "b": 1, "d": 2, "e": 2, "f": 2, "g": 3, "h": 3, "c1": 5}
