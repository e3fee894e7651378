"""Test that every public name has its own docstring, and that stub and reference page are up to date."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.compiler.frontend.calls import _LOOP_OPTIONS
from stackgrad.compiler.frontend.functions import EXPORTS, FUNCTIONS
from stackgrad.compiler.frontend.manual import MANUAL, SECTIONS, Entry
from stackgrad.compiler.ir.ops import OPS
from stackgrad.runtime.session import ALIASES, ARCHES

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import doc_pages  # noqa: E402
import language_stub  # noqa: E402
import public_names as names  # noqa: E402
import reference_page  # noqa: E402
from table_rows import each_row  # noqa: E402


def shown(value: Any) -> str:
    """What `help` prints, without the marks of bold text."""
    return pydoc.plain(pydoc.render_doc(value))


def printed(code: str) -> str:
    """What a program prints in a process of its own."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


# ---- what is generated ----------------------------------------------------------------------------------------------


def test_the_stub_is_current() -> None:
    found = language_stub.STUB.read_text(encoding="utf-8")
    assert found == language_stub.text(), "language.pyi is stale: run python tests/docs/language_stub.py"


def test_the_reference_page_is_current() -> None:
    found = reference_page.PAGE.read_text(encoding="utf-8")
    assert found == reference_page.text(), "docs/reference.md is stale: run python tests/docs/reference_page.py"


def test_the_page_has_every_name() -> None:
    page = reference_page.PAGE.read_text(encoding="utf-8")
    missing = [
        path
        for path, value in names.public_names()
        if f"sg.{path}" not in page and not inspect.ismodule(value) and f"`{path.rpartition('.')[2]}`" not in page
    ]
    assert missing == []
    assert page.count("\n### ") > 200
    assert all(f"`{entry.derivative}`" in page for entry in MANUAL.values() if entry.derivative)


def test_sections_become_lists_and_indented_lines_code() -> None:
    text = "Do it.\n\n    x = 1\n\nArgs:\n    a: One\n        two.\n    b: Three.\n\nReturns:\n    Four\n    five."
    assert reference_page.markdown(text) == (
        "Do it.\n\n```python\nx = 1\n```\n\n*Args:*\n\n* `a`: One two.\n* `b`: Three.\n\n*Returns:*\n\n* Four five."
    )


def test_signatures_are_written_as_in_programs() -> None:
    def function(a: Any, /, b: int = 1, *, c: str = "x", **d: Any) -> float: ...

    assert reference_page.signature(function) == "(a, /, b: int = 1, *, c: str = 'x', **d) -> float"
    assert reference_page.signature(sg.tensor).count("backend: Backend = Backend.NDARRAY") == 1


# ---- docstrings -----------------------------------------------------------------------------------------------------


def without_help(public: Any) -> list[str]:
    """The names without a docstring of their own."""
    return [path for path, value in public if not names.own_text(path, value)]


def test_every_public_name_has_help_of_its_own() -> None:
    public = list(names.public_names())
    assert len(public) > 350 and {path for path, _ in public} >= {"sin", "f32", "cpu", "ad.Tape", "math.pi", "root"}
    assert without_help(public) == [], "no docstring of their own"


def test_names_without_help_are_noticed() -> None:
    class Plain:
        """A class."""

    class Silent(int):
        pass

    wrong = [("x", Plain()), ("Silent", Silent), ("y", Silent(1)), ("number", 3), ("ad.number", 3)]
    assert without_help(wrong) == ["x", "Silent", "y", "number", "ad.number"]
    assert without_help([("Plain", Plain), ("f32", sg.f32), ("math.pi", sg.math.pi)]) == []


def test_equal_texts_belong_to_equal_objects() -> None:
    """A text that several objects share would be that of their class."""
    by_text: dict[str, set[int]] = {}
    for path, value in names.public_names():
        if not names.is_refused(value) and not isinstance(value, sg.types.MatrixSpec):
            by_text.setdefault(names.own_text(path, value) or "", set()).add(id(value))
    assert [text for text, objects in by_text.items() if len(objects) > 1] == []


@each_row("name", sorted(MANUAL))
def test_texts_begin_with_a_sentence(name: str) -> None:
    first = MANUAL[name].text.partition("\n\n")[0]
    assert re.match(r"[A-Z]", first) and first.endswith((".", ":")), first
    assert "{" not in MANUAL[name].text, "a placeholder that stands for nothing"
    assert all(len(line) <= 120 for line in MANUAL[name].text.splitlines())


def test_help_prints_meaning_and_derivative() -> None:
    text = shown(sg.sin)
    assert "\nsin(x, /)\n" in text and "Return the sine of x, an angle in radians." in text
    assert "Derivative: `d sin(x) = cos(x) * dx`." in text and OPS["sin"].edges in text
    assert text.splitlines()[0].endswith("module stackgrad")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (sg.atomic_add, "like `x += value`"),
        (sg.loop_config, "serialize"),
        (sg.graph.do_while, "until the flag is 0"),
        (sg.math.clamp, "clamp(x"),
        (sg.f32, "real numbers of 32 bits"),
        (sg.i8, "from -128 to 127"),
        (sg.simt, "blocks of iterations"),
        (sg.ij, "axes 0 and 1"),
        (sg.math.vec3, "vectors of 3 entries of the default real type"),
        (sg.types.ndarray, "Annotate an array argument"),
        (sg.root, "sg.root.dense"),
        (sg.graph, "records the launches"),
        (sg.types.matrix(2, 3, sg.i32), "matrices of 2 by 3 entries of type i32"),
    ],
)
def test_help_of_objects(value: Any, words: str) -> None:
    assert words in shown(value)


def test_signatures() -> None:
    assert str(inspect.signature(sg.atan2)) == "(y, x, /)"
    assert str(inspect.signature(sg.floor)) == "(x, dtype=None)"
    assert str(inspect.signature(sg.loop_config)) == "(**options)"
    assert str(inspect.signature(Entry("f", "a, b=1, *c", "Do it.").signature.replace)).startswith("(*")
    kind = type(sg.sin)
    assert list(inspect.signature(kind).parameters) == ["name", "python"] and "language" in (kind.__doc__ or "")


@each_row("name", sorted(name for name, python in FUNCTIONS.items() if python is not None))
def test_signatures_fit_the_functions(name: str) -> None:
    """Each call that a signature allows, the function takes outside kernels, as far as numbers of arguments go."""
    python = FUNCTIONS[name]
    assert python is not None
    declared = MANUAL[name].signature.parameters.values()
    ordered = [p for p in declared if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    try:
        taken = inspect.signature(python)
    except ValueError:
        return  # a function of C that tells nothing
    for count in range(sum(p.default is p.empty for p in ordered), len(ordered) + 1):
        taken.bind(*range(count))
    by_name = [p.name for p in ordered if p.kind == p.POSITIONAL_OR_KEYWORD]
    if not any(p.kind == p.VAR_POSITIONAL for p in taken.parameters.values()):
        assert by_name == [name for name in by_name if name in taken.parameters]


def test_texts_name_what_there_is() -> None:
    assert all(option in MANUAL["loop_config"].text for option in _LOOP_OPTIONS)
    for name, entry in MANUAL.items():
        for raised in re.findall(r"^    (\w+): ", entry.text.partition("Raises:")[2], re.MULTILINE):
            assert issubclass(getattr(sg, raised, AssertionError), BaseException), (name, raised)
        parameters = entry.signature.parameters if entry.parameters is not None else {}
        told = re.findall(r"^    \**(\w+): ", entry.text.partition("Args:")[2].partition("\n\n")[0], re.MULTILINE)
        assert told == list(parameters), name


# ---- one list -------------------------------------------------------------------------------------------------------


def test_the_manual_has_the_names_of_the_language() -> None:
    refused = {name for name, value in EXPORTS.items() if names.is_refused(value)}
    assert EXPORTS.keys() - refused - MANUAL.keys() == {"func", "graph"}
    assert MANUAL.keys() - EXPORTS.keys() == set() and not MANUAL.keys() & refused
    assert len(MANUAL) == sum(map(len, SECTIONS.values()))
    assert all(entry.name == name for name, entry in MANUAL.items())


def test_the_table_of_names_decides() -> None:
    others = {*names.arches(), *sg._MODULES, "__version__"}
    assert set(dir(sg)) == {*names.homes(), *EXPORTS, *others}
    assert set(names.arches()) == {*ARCHES, *ALIASES}
    twice = names.homes().keys() & EXPORTS.keys()
    assert twice == {"graph"} and not others & (names.homes().keys() | EXPORTS.keys()) - {"cuda"}


@pytest.mark.parametrize("home", sorted(set(names.homes().values())))
def test_modules_list_what_the_package_takes_from_them(home: str) -> None:
    """Where a module has a list of its own, the names of the package are in it."""
    module = importlib.import_module(f"stackgrad{home}")
    taken = [name for name, at in names.homes().items() if at == home]
    assert all(hasattr(module, name) for name in taken)
    assert set(taken) <= set(getattr(module, "__all__", taken))


@pytest.mark.parametrize("module", names.MODULES)
def test_modules_list_what_they_define(module: str) -> None:
    """What a module defines under a public name is in its list."""
    found = names.module_of(module)
    own = {
        n for n, v in vars(found).items() if not n.startswith("_") and getattr(v, "__module__", "") == found.__name__
    }
    private = {name for name in own if isinstance(vars(found)[name], type(Any))}
    assert own - private - set(found.__all__) <= {"DEFAULT_BUDGET", "Kind", "NdarrayMaker", "C"}


@each_row("page", [p for p in doc_pages.pages() if p.startswith(("README", "docs/", "CONTRIBUTING"))])
def test_pages_use_names_that_there_are(page: str) -> None:
    wrong = []
    for path in set(re.findall(r"(?<![\w.])sg\.([A-Za-z]\w*(?:\.[A-Za-z]\w*)?)(?![\w.]*\*)", doc_pages.text_of(page))):
        first, _, rest = path.partition(".")
        value = getattr(sg, first, None)
        if value is None or rest and first in sg._MODULES and not hasattr(value, rest):
            wrong.append(path)
    assert wrong == []


# ---- what help costs ------------------------------------------------------------------------------------------------


def test_importing_loads_nothing_more() -> None:
    assert printed("import sys, stackgrad; print([m for m in sys.modules if m.startswith('stackgrad.')])") == "[]"


def test_the_manual_is_loaded_when_help_is_asked_for() -> None:
    loaded = "print('stackgrad.compiler.frontend.manual' in sys.modules)"
    code = f"import sys, stackgrad as sg; sg.sin(0.5); sg.f32; {loaded}; sg.sin.__doc__; {loaded}"
    assert printed(code).split() == ["False", "True"]


def test_functions_stay_functions_in_classes() -> None:
    """A function of the language is an attribute of a class like any other object: nothing is bound to it."""

    class Holder:
        act = sg.sin

    assert Holder().act is sg.sin and Holder.act is sg.sin
    assert SimpleNamespace(act=sg.sin).act(0.0) == 0.0
