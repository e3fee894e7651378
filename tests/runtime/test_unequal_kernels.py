"""What keeps kernels from sharing a trace: annotations as text, attributes of funcs, modules, names, code, texts."""

from __future__ import annotations

import importlib.util
import linecache
import os
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.launch import kernels

KIND = sg.f32
TABLE = ModuleType("table")


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch, fresh_runtime: None) -> list[str]:
    """The names of the kernels that were traced, in order."""
    made: list[str] = []
    trace = kernels.trace_function

    def traced(function: Any, *args: Any, **keywords: Any) -> Any:
        made.append(function.__name__)
        return trace(function, *args, **keywords)

    monkeypatch.setattr(kernels, "trace_function", traced)
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    return made


def _by_text(x: Any, value: Any) -> Any:
    @sg.func
    def rounded(v: KIND):  # type: ignore[no-untyped-def, valid-type]
        return v

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        x[0] = rounded(0.1)

    return k


def _by_attribute(x: Any, value: Any) -> Any:
    @sg.func
    def half(v):  # type: ignore[no-untyped-def]
        return v / 2

    half.scale = value  # type: ignore[attr-defined]

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        x[0] = half(half.scale)  # type: ignore[attr-defined]

    return k


def _by_module(x: Any, value: Any) -> Any:
    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        x[0] = TABLE.entry

    return k


class Quantity(float):
    unit: float


def _by_unit(x: Any, value: Any) -> Any:
    length = Quantity(2.0)
    length.unit = value

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        x[0] = length * length.unit

    return k


def _module(entry: float) -> ModuleType:
    made = ModuleType("table")
    made.entry = entry  # type: ignore[attr-defined]
    return made


def _by_large_vector(x: Any, value: Any) -> Any:
    v = sg.Vector([value] * 600, dt=sg.f64)

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        x[0] = v[599]

    return k


@pytest.mark.parametrize(
    ("make", "name", "values", "expected"),
    [
        (_by_text, "KIND", (sg.f32, sg.f64), (float(np.float32(0.1)), 0.1)),
        (_by_attribute, "", (2.0, 4.0), (1.0, 2.0)),
        (_by_unit, "", (2.0, 4.0), (4.0, 8.0)),
        (_by_module, "TABLE", (_module(2.0), _module(4.0)), (2.0, 4.0)),
    ],
)
def test_what_tells_kernels_apart(
    make: Any, name: str, values: Any, expected: Any, traces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = sg.field(sg.f64, 1)
    for count, (value, result) in enumerate(zip(values, expected), 1):
        if name:
            monkeypatch.setitem(globals(), name, value)
        for _ in range(2):
            make(x, value)()
            assert x[0] == result and len(traces) == count


@pytest.mark.parametrize("is_argument", [False, True])
def test_a_large_vector_is_compared_by_its_entries(is_argument: bool, traces: list[str]) -> None:
    x = sg.field(sg.f64, 1)

    @sg.kernel
    def of(given: sg.template()):  # type: ignore[no-untyped-def, valid-type]
        x[0] = given.vector[599]

    for value in (2.0, 4.0, 2.0):
        if is_argument:
            of(SimpleNamespace(vector=sg.Vector([value] * 600, dt=sg.f64)))
        else:
            _by_large_vector(x, value)()
        assert x[0] == value


def test_a_kernel_sees_that_a_name_means_another_module(traces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    x = sg.field(sg.f64, 1)
    k = _by_module(x, None)
    for count, entry in enumerate((2.0, 4.0), 1):
        monkeypatch.setitem(globals(), "TABLE", _module(entry))
        for _ in range(6):
            k()
            assert x[0] == entry and len(traces) == count


def test_a_kernel_sees_that_a_func_has_another_attribute(traces: list[str]) -> None:
    x = sg.field(sg.f64, 1)

    @sg.func
    def half(v):  # type: ignore[no-untyped-def]
        return v / 2

    @sg.kernel
    def k():  # type: ignore[no-untyped-def]
        x[0] = half(half.scale)  # type: ignore[attr-defined]

    for count, scale in enumerate((2.0, 4.0), 1):
        half.scale = scale  # type: ignore[attr-defined]
        for _ in range(6):
            k()
            assert x[0] == scale / 2 and len(traces) == count


def test_a_kernel_has_its_own_name(traces: list[str]) -> None:
    x = sg.field(sg.f64, 1)

    def make(name: str) -> Any:
        def k():  # type: ignore[no-untyped-def]
            x[0] = 1.0

        k.__name__ = name
        return sg.kernel(k)

    for name in ("one", "two", "one"):
        k = make(name)
        k()
        assert k.ir().name == name
    assert traces == ["one", "two"]


@sg.func
def replaced(v):  # type: ignore[no-untyped-def]
    return v


def test_other_code_of_a_global_function_is_noticed(traces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools that load modules anew, as those of notebooks, give functions other code and keep the objects."""
    x = sg.field(sg.f64, 1)

    def make() -> Any:
        @sg.kernel
        def k():  # type: ignore[no-untyped-def]
            x[0] = replaced(3.0)

        return k

    def double(v):  # type: ignore[no-untyped-def]
        return v + v

    for _ in range(2):
        make()()
        assert x[0] == 3.0
    monkeypatch.setattr(replaced.function, "__code__", double.__code__)  # type: ignore[attr-defined]
    for _ in range(2):
        make()()
        assert x[0] == 6.0
    assert traces == ["k", "k"]


TYPED = """
import stackgrad as sg

def make(x):
    @sg.kernel
    def k():
        v: sg.KIND = 0.1
        x[0] = v
    return k

@sg.kernel
def whole(x: sg.template()):
    v: sg.KIND = 0.1
    x[0] = v
"""
ROUNDED = {"f32": float(np.float32(0.1)), "f64": 0.1, "f16": float(np.float16(0.1))}


def _loaded(file: Path, kind: str, seconds: int) -> Any:
    """Return the module of a file that was just written, `seconds` after it was written first."""
    file.write_text(TYPED.replace("KIND", kind))
    os.utime(file, (seconds, seconds))
    found = importlib.util.spec_from_file_location("typed", file)
    assert found is not None and found.loader is not None
    made = importlib.util.module_from_spec(found)
    exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), made.__dict__)
    return made


def _registered(kind: str) -> Any:
    """Return what a text of the program defines that is registered as a file, in place of the text before."""
    text = TYPED.replace("KIND", kind)
    linecache.cache["<typed>"] = len(text), None, text.splitlines(keepends=True), "<typed>"
    names: dict[str, Any] = {"__name__": "typed"}
    exec(compile(text, "<typed>", "exec", dont_inherit=True), names)
    return SimpleNamespace(**names)


@pytest.mark.parametrize("is_file", [True, False])
def test_equal_code_of_other_texts_is_another_kernel(is_file: bool, tmp_path: Path, traces: list[str]) -> None:
    """Python ignores the types of locals, so that code stays the same when they change."""
    x = sg.field(sg.f64, 1)
    modules = []
    for seconds, kind in enumerate(("f32", "f64", "f16", "f32"), 1_000_000):
        module = _loaded(tmp_path / "typed.py", kind, seconds) if is_file else _registered(kind)
        modules.append((kind, module))
        for k in (module.make(x), lambda whole=module.whole: whole(x)):
            x[0] = 0.0
            k()
            assert x[0] == ROUNDED[kind]
    for kind, module in modules:
        module.whole(x)
        assert x[0] == ROUNDED[kind], "a kernel keeps the text it was traced from"
