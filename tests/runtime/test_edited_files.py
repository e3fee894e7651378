"""A file that is edited after it was imported: what was imported is compiled, or nothing is."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import linecache
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.compiler.frontend.source import read_source
from stackgrad.compiler.frontend.source_check import imported_names, is_text_of

HEAD = "import math\nimport stackgrad as sg\n\nC = 2.0\n\n"
KERNEL = """@sg.kernel
def k(v: sg.f64) -> sg.f64:
    # first
    w = v * 3.0 + C
    for j in range(2):
        w += float(j)
    return w
"""

Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports a text as a module of its own file."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(text: str, name: str = "edited") -> ModuleType:
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


def edit(module: ModuleType, old: str, new: str) -> None:
    """Change the file of a module, and its time."""
    file = Path(str(module.__file__))
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("3.0", "4.0"),
        ("3.0", "3"),
        ("v * 3.0", "v + 3.0"),
        ("+ C", "- C"),
        ("+ C", "+ D"),
        ("range(2)", "range(3)"),
        ("w += float(j)", "v += float(j)"),
        ("float(j)", "math.sin(j)"),
        ("3.0 + C", "3.0 + C if v > 0 else 0.0"),
        ("    return w\n", "    w = 1.0\n    return w\n"),
        ("3.0", "-3.0"),
        ("3.0 + C", "3.0 + C + 0.0"),
        ("def k(v: sg.f64)", "def k(v: sg.f64, w: sg.f64)"),
        ("    for j in range(2):\n        w += float(j)\n", ""),
    ],
)
def test_an_edit_of_the_kernel_is_refused(load: Load, old: str, new: str) -> None:
    module = load(HEAD + KERNEL)
    edit(module, old, new)
    with pytest.raises(sg.KernelSyntaxError) as caught:
        module.k(1.0)
    (found,) = caught.value.diagnostics
    assert "line 6 of" in found.reason and "is not what `k` was compiled from" in found.reason
    assert "run the program again, or reload the module" in found.cure
    assert found.span is not None and (found.span.file, found.span.line) == (module.__file__, 6)
    assert "^" in str(caught.value)
    edit(module, new, old) if new else Path(str(module.__file__)).write_text(HEAD + KERNEL)
    assert module.k(1.0) == 6.0, "the old text again"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import math", "# a comment\n\nimport math\nimport random"),
        ("C = 2.0", "C = 5.0"),
        ("    # first\n", ""),
        ("# first", "# first,\n    # then"),
        ("\n@sg.kernel", "\ndef k(v):\n    return 2.0\n\n\n@sg.kernel"),
        ("v * 3.0 + C", "(v * 3.0\n         + C)  # in two lines"),
        ("w += float(j)", "w += float( j )"),
        ("    return w\n", "    return w\n\n\ndef other():\n    return\n"),
    ],
)
def test_an_edit_elsewhere_is_none(load: Load, old: str, new: str) -> None:
    module = load(HEAD + KERNEL)
    edit(module, old, new)
    assert module.k(1.0) == 6.0


def test_errors_are_located_in_the_file_as_it_is_now(load: Load) -> None:
    module = load(HEAD + KERNEL.replace("v * 3.0", "v & 1"))
    edit(module, "import math", "# a\n# b\nimport math")
    with pytest.raises(sg.KernelTypeError) as caught:
        module.k(1.0)
    assert "edited.py:11:" in str(caught.value) and "v & 1" in str(caught.value)


def test_a_function_that_is_inlined(load: Load) -> None:
    helper = load("import stackgrad as sg\n\n@sg.func\ndef scaled(v):\n    return v * 2.0\n", "helping")

    @sg.kernel
    def k(v: sg.f64) -> sg.f64:  # type: ignore[valid-type]
        return helper.scaled(v)

    edit(helper, "2.0", "5.0")
    with pytest.raises(sg.KernelSyntaxError, match="is not what `scaled` was compiled from") as caught:
        k(1.0)
    assert "helper.scaled(v)" in str(caught.value)
    edit(helper, "5.0", "2.0")
    assert k(1.5) == 3.0


def test_what_was_traced_before_the_edit_goes_on(load: Load) -> None:
    module = load(HEAD + KERNEL)
    assert module.k(1.0) == 6.0
    edit(module, "3.0", "4.0")
    assert module.k(2.0) == 9.0
    module.C = 3.0
    assert module.k(2.0) == 10.0, "traced again, from the text that was read"


def test_lines_that_python_read_before_the_edit(load: Load) -> None:
    module = load(HEAD + KERNEL)
    linecache.getlines(str(module.__file__))
    edit(module, "3.0", "4.0")
    assert module.k(1.0) == 6.0


def test_a_reload_takes_the_new_text(load: Load) -> None:
    module = load(HEAD + KERNEL)
    assert module.k(1.0) == 6.0
    edit(module, "3.0", "40.0")
    new = load(Path(str(module.__file__)).read_text())
    assert new.k(1.0) == 43.0


def test_a_file_that_is_gone_or_broken(load: Load) -> None:
    module, other = load(HEAD + KERNEL), load(HEAD + KERNEL, "other")
    edit(module, "return w", "return (w")
    with pytest.raises(sg.KernelSyntaxError, match="does not parse|was compiled from"):
        module.k(1.0)
    Path(str(other.__file__)).unlink()
    with pytest.raises(sg.KernelSyntaxError, match="the source of `k` is not available"):
        other.k(1.0)


FORMS = '''
from __future__ import annotations
import stackgrad as sg
import math as m
from math import pi

def decorated(*given, **named):
    return lambda function: function

def outer(a, b):
    c = a + b

    class Inside:
        __private = 4.0

        @decorated(lambda v: v, key=[k for k in range(3)])
        @sg.func
        def method(self, v: sg.f64 = 2.0, *, w: float = m.pi) -> sg.f64:
            """A text."""
            return v * self.__private + c + w

        @sg.func
        def nested(self, v):
            items = [v * k for k in sg.static(range(3))]
            return items[0] + items[2] + sum([k for k in (1, 2)])

    def count():
        nonlocal c
        c += 1.0

    @sg.func
    def itself(v):
        return itself(v) if v > -0.0 else c

    def with_assertion(v):
        assert v > 0.0, f"only {v}"
        return v + pi

    return [Inside.method.function, Inside.nested.function, count, itself.function, with_assertion, decorated]
'''


def test_forms_of_functions(load: Load) -> None:
    for function in load(FORMS).outer(1.0, 2.0):
        source = read_source(function)
        assert source.tree.name == function.__name__
        assert is_text_of(source.tree, function.__code__, imports=lambda: {"m"})


def test_assertions_that_a_test_run_rewrote() -> None:
    @sg.kernel
    def k(v: sg.f64) -> sg.f64:  # type: ignore[valid-type]
        assert v > 0.0, "positive"
        return v * 2.0

    assert k(3.0) == 6.0
    tree, code = read_source(k.__wrapped__).tree, k.__wrapped__.__code__
    assert is_text_of(tree, code) and "@pytest_ar" in code.co_names
    tree.body[-1].value.right.value = 5.0  # type: ignore[attr-defined]
    try:
        assert not is_text_of(tree, code)
    finally:
        tree.body[-1].value.right.value = 2.0  # type: ignore[attr-defined]


def test_an_import_hook_that_adds_checks(load: Load) -> None:
    class Hook:
        """A loader that puts statements into functions."""

    text = HEAD + KERNEL
    module = load(text)
    more = text.replace("    w = v", "    check(v)\n    w = v")
    space: dict[str, Any] = {"__loader__": Hook(), "check": print}
    exec(compile(more, str(module.__file__), "exec", dont_inherit=True), space)
    assert space["k"](1.0) == 6.0
    edit(module, "3.0", "4.0")
    exec(compile(more, str(module.__file__), "exec", dont_inherit=True), space)
    linecache.checkcache()
    read_source.__globals__["_read"].cache_clear()
    with pytest.raises(sg.KernelSyntaxError, match="is not what `k` was compiled from"):
        space["k"](1.0)


def test_examples_of_a_docstring() -> None:
    text = """
>>> import stackgrad as sg
>>> factor = 2.0
>>> @sg.kernel
... def k(v: sg.f64) -> sg.f64:
...     return v * factor
>>> k(3.0)
6.0
>>> factor = 4.0
>>> k(3.0)
12.0
"""
    test = doctest.DocTestParser().get_doctest(text, {}, "example", "example.txt", 0)
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_a_cell_that_was_run_twice() -> None:
    def run(number: float) -> Any:
        text, file = f"@sg.kernel\ndef k(v: sg.f64) -> sg.f64:\n    return v * {number}\n", "<cell of a notebook>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        space: dict[str, Any] = {"sg": sg}
        exec(compile(text, file, "exec", dont_inherit=True), space)
        return space["k"]

    first = run(2.0)
    assert first(1.0) == 2.0
    second = run(3.0)
    third = run(4.0)
    assert third(1.0) == 4.0
    with pytest.raises(sg.KernelSyntaxError, match="is not what `k` was compiled from"):
        second(1.0)


def test_names_that_a_module_imports() -> None:
    import ast

    text = "import a, b.c as d\ntry:\n    from e import f as g\nexcept E:\n    pass\ndef h():\n    import i\n"
    assert imported_names(ast.parse(text)) == {"a", "d", "g"}


def test_the_comparison_is_cheap(load: Load) -> None:
    function = load(HEAD + KERNEL).k.__wrapped__
    tree = read_source(function).tree
    spent = []
    for _ in range(20):
        begin = time.perf_counter()
        assert is_text_of(tree, function.__code__)
        spent.append(time.perf_counter() - begin)
    assert min(spent) < 1e-3
