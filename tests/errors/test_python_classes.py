"""Every located error is also the exception that Python has for such a mistake, under the names of the peers too."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.compat.lookup import source_of, value_of
from stackgrad.compiler.errors import ExecutionError, LocatedError


def _field() -> Any:
    return sg.field(sg.f64, shape=3)


def syntax() -> None:
    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        with open("file"):
            pass

    run()


def name() -> None:
    x = _field()

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        x[0] = valeu  # type: ignore[name-defined]  # noqa: F821

    run()


def early_name() -> None:
    x = _field()

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        x[0] = value  # type: ignore[used-before-def]  # noqa: F821
        value = 2.0  # noqa: F841

    run()


def types() -> None:
    x = _field()

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        x[0] = x[0] << 1

    run()


def index_count() -> None:
    x = _field()

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        x[0, 1] = 1.0

    run()


def index_of_vector() -> None:
    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        v = sg.Vector([1.0, 2.0])
        v[2] = 1.0

    run()


def index_of_constants() -> None:
    x, table = _field(), (1.0, 2.0)

    @sg.kernel
    def run():  # type: ignore[no-untyped-def]
        x[0] = table[2]

    run()


def argument() -> None:
    @sg.kernel
    def run(n: sg.i32):  # type: ignore[no-untyped-def, valid-type]
        pass

    run("text")


def argument_count() -> None:
    @sg.kernel
    def run(n: sg.i32):  # type: ignore[no-untyped-def, valid-type]
        pass

    run()


CASES: dict[Callable[[], None], tuple[type, str, set[str], set[type]]] = {
    syntax: (sg.KernelSyntaxError, "with open", {"CompilationError", "SyntaxError"}, {SyntaxError}),
    name: (sg.KernelNameError, "valeu", {"CompilationError", "NameError"}, {NameError}),
    early_name: (sg.KernelNameError, "value", {"CompilationError", "NameError"}, {NameError}),
    types: (sg.KernelTypeError, "x[0] << 1", {"CompilationError", "TypeError"}, {TypeError}),
    index_count: (
        sg.KernelIndexError,
        "x[0, 1]",
        {"CompilationError", "TypeError", "IndexError"},
        {TypeError, IndexError},
    ),
    index_of_vector: (
        sg.KernelIndexError,
        "v[2]",
        {"CompilationError", "TypeError", "IndexError"},
        {TypeError, IndexError},
    ),
    index_of_constants: (
        sg.KernelIndexError,
        "table[2]",
        {"CompilationError", "TypeError", "IndexError"},
        {TypeError, IndexError},
    ),
    argument: (
        sg.CallError,
        "def run",
        {"CompilationError", "TypeError", "RuntimeTypeError", "RuntimeError"},
        {TypeError, RuntimeError},
    ),
    argument_count: (
        sg.CallError,
        "def run",
        {"CompilationError", "TypeError", "RuntimeTypeError", "RuntimeError"},
        {TypeError, RuntimeError},
    ),
}
PYTHON = {SyntaxError, NameError, TypeError, IndexError, RuntimeError, AssertionError, AttributeError, ValueError}
NAMES = ("Compilation", "Syntax", "Name", "Type", "Index", "RuntimeType", "Runtime", "Assertion")


@pytest.fixture(params=["reference", "cpu"])
def arch(request: pytest.FixtureRequest) -> None:
    sg.init(arch=getattr(sg, request.param), default_fp=sg.f64, debug=True)


def raised(call: Callable[[], None]) -> LocatedError:
    with pytest.raises(LocatedError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("call", CASES, ids=lambda call: call.__name__)
def test_the_exceptions_of_python_catch_it(call: Callable[[], None], arch: None) -> None:
    kind, text, _, python = CASES[call]
    error = raised(call)
    assert type(error) is kind and {one for one in PYTHON if isinstance(error, one)} == python
    shown = "".join(traceback.format_exception(error))
    for place in (str(error), shown):
        assert "test_python_classes.py:" in place and text in place and "^" in place and "cure:" in place
    assert str(error) in shown, "nothing of the message is lost"


@pytest.mark.parametrize("peer", ["taichi", "quadrants"])
@pytest.mark.parametrize("call", CASES, ids=lambda call: call.__name__)
def test_the_names_of_the_peers_catch_it(call: Callable[[], None], peer: str, arch: None) -> None:
    error, caught = raised(call), set()
    for stem in NAMES:
        value, _ = value_of(peer, "lang.exception", f"{peer.capitalize()}{stem}Error")
        if isinstance(error, value):
            caught.add(f"{stem}Error")
    assert caught == CASES[call][2]


def test_an_index_outside_at_run_time_is_an_assertion_of_the_peers(arch: None) -> None:
    x = _field()

    @sg.kernel
    def run(n: sg.i32):  # type: ignore[no-untyped-def, valid-type]
        x[n] = 1.0

    for kind in (sg.OutOfBounds, AssertionError, IndexError, RuntimeError, ExecutionError):
        with pytest.raises(kind, match="is outside|out of"):
            run(7)


@pytest.mark.parametrize("call", CASES, ids=lambda call: call.__name__)
@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_says_the_same(call: Callable[[], None], again: Callable[[Any], Any], arch: None) -> None:
    error = raised(call)
    found = again(error)
    assert type(found) is type(error) and str(found) == str(error) and found.diagnostics == error.diagnostics


@pytest.mark.expensive
def test_the_interpreter_shows_the_whole_message(tmp_path: Path) -> None:
    """Python formats a SyntaxError in a way of its own; the line and the cure are shown all the same."""
    program = tmp_path / "program.py"
    program.write_text(
        "import stackgrad as sg\nsg.init(arch=sg.cpu)\n\n@sg.kernel\ndef run():\n    del run\n\nrun()\n", "utf-8"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "KernelSyntaxError" in done.stderr
    assert f"{program}:6:5" in done.stderr and "^^^^^^^" in done.stderr and "cure:" in done.stderr


def test_every_peer_has_the_names() -> None:
    for peer in ("taichi", "quadrants"):
        for stem in NAMES:
            assert source_of(peer, "", f"{peer.capitalize()}{stem}Error") is not None
