"""Arguments that no type holds, packages that are not there, folders that cannot be made: errors with a cure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.cli import main
from stackgrad.compiler.errors import KernelTypeError, StackgradError, short_repr
from stackgrad.runtime.usage_errors import MissingPackage, OptionError

HUGE = 10**400
UNWRITABLE = 10**5000
"""Python writes no integer of so many digits."""


class Mute:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.fixture(autouse=True)
def runtime() -> Iterator[None]:
    sg.init(arch=sg.reference)
    yield
    sg.reset()


TYPES: dict[str, Any] = {
    "real": sg.f32,
    "double": sg.f64,
    "whole": sg.i32,
    "unsigned": sg.u64,
    "flag": sg.u1,
    "template": sg.template(),
    "pair": sg.types.vector(2, sg.f32),
    "pair_of_whole": sg.types.vector(2, sg.i32),
}


def kernel_of(name: str) -> Any:
    """A kernel whose one parameter is of this kind."""
    x, is_pair = sg.field(sg.f32, 4, needs_grad=True), name.startswith("pair")

    def fill(n):  # type: ignore[no-untyped-def]
        for i in x:
            x[i] = n[0] if sg.static(is_pair) else n

    fill.__annotations__["n"] = TYPES[name]
    return sg.kernel(fill)


NEVER = {
    "None": None,
    "text": "a",
    "bytes": b"1",
    "complex": 1j,
    "complex64": np.complex64(1),
    "object": object(),
    "mute": Mute(),
    "time": np.timedelta64(3, "s"),
    "date": np.datetime64("2020"),
}
NUMBERS = {
    "huge": HUGE,
    "minus": -HUGE,
    "unwritable": UNWRITABLE,
    "nan": float("nan"),
    "inf": float("inf"),
    "f64": np.float64(1e300),
    "long": np.longdouble(1),
    "u64": np.uint64(2**63),
    "bool": np.bool_(True),
}


@pytest.mark.parametrize("name", ["real", "double", "whole", "unsigned", "flag", "pair", "pair_of_whole", "template"])
def test_no_argument_ends_in_an_error_of_python(name: str) -> None:
    kernel = kernel_of(name)
    for value in (*NEVER.values(), *NUMBERS.values()):
        for given in (value, [value, value], (value,), np.array([value, value], object)):
            for call in (kernel, kernel.grad):
                try:
                    call(given)
                except StackgradError as error:
                    assert "cure:" in str(error) or name == "template"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("real", HUGE, "the parameter n: f32 cannot take 1000000"),
        ("real", UNWRITABLE, "an integer of 16610 bits"),
        ("double", -HUGE, "it does not fit"),
        ("whole", UNWRITABLE, "cannot take an integer of 16610 bits: it does not fit"),
        ("whole", float("nan"), "cannot take float nan"),
        ("unsigned", -1, "cannot take -1: it does not fit"),
        ("real", Mute(), "cannot take Mute <Mute>"),
        ("real", 1j, "cannot take complex 1j"),
        ("real", None, "NoneType None"),
        ("double", np.timedelta64(3, "s"), "cannot take timedelta64"),
        ("flag", 0.5, "cannot take float 0.5"),
        ("pair", [HUGE, HUGE], "it does not fit"),
        ("pair", UNWRITABLE, "cannot take int an integer of 16610 bits"),
    ],
    ids=short_repr,
)
def test_an_argument_that_does_not_fit_is_refused_at_the_kernel(name: str, value: Any, reason: str) -> None:
    with pytest.raises(KernelTypeError) as caught:
        kernel_of(name)(value)
    text = str(caught.value)
    assert reason in text and "cure: " in text and f"{__file__}:" in text and "^" in text


def test_numbers_of_the_text_that_no_type_holds() -> None:
    x = sg.field(sg.f32, 4)

    @sg.kernel
    def conversion():
        for i in x:
            x[i] = float(10**400)

    @sg.kernel
    def literal():
        for i in x:
            x[i] = x[i] * 10**5000

    for kernel, reason in ((conversion, "float(1000"), (literal, "the constant 10 ** 5000 is too large")):
        with pytest.raises(KernelTypeError) as caught:
            kernel()
        assert reason in str(caught.value) and "^" in str(caught.value)


def test_what_a_message_shows_of_a_value() -> None:
    assert short_repr([1, 2]) == "[1, 2]" and short_repr("a" * 200, 10) == "'aaaaaaaaa"
    assert short_repr(Mute()) == "<Mute>" and short_repr(UNWRITABLE) == "an integer of 16610 bits"


# ---- packages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "module", "name"), [("to_torch", "torch", "torch"), ("to_jax", "jax.numpy", "JAX")])
def test_a_package_that_is_not_installed(method: str, module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    structs = sg.types.struct(a=sg.f32).field(3)
    for made in (sg.field(sg.f32, 3), sg.ndarray(sg.f32, 3), sg.Vector.field(2, sg.f32, 3), structs):
        if hasattr(made, method):
            with pytest.raises(MissingPackage, match=f"{name} is not installed\n    cure: pip install 'stackgrad\\["):
                getattr(made, method)()
    assert issubclass(MissingPackage, ImportError)


# ---- folders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ("campaign", "{file}/x", "--cases", "1"),
        ("campaign", "{file}", "--cases", "1"),
        ("fuzz", "--cases", "1", "--corpus", "{file}/x"),
        ("fuzz", "--cases", "1", "--findings", "{file}/x"),
        ("report", "{file}"),
        ("report", "{folder}"),
        ("report", "{missing}"),
        ("ir", "{missing}.kir"),
        ("ir", "{folder}"),
        ("ir", "{missing}.py:k"),
        ("check", "{missing}.py"),
        ("explain", "{missing}.py"),
        ("replay", "{missing}"),
        ("reduce", "{missing}"),
        ("bisect", "{file}"),
        ("check", "--json", "{file}/x.json", "{file}"),
    ],
)
def test_files_that_are_not_there_or_cannot_be_made(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    paths = {name: str(tmp_path / name) for name in ("file", "folder", "missing")}
    assert main([part.format(**paths) for part in command]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"stackgrad {command[0]}: ") and str(tmp_path) in said and "Traceback" not in said


@pytest.mark.expensive
def test_a_page_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    options = ["--cases", "1", "--unit", "1", "--seed", "3", "--backends", "cpu"]
    assert main(["campaign", str(tmp_path / "c"), *options]) in (0, 1)
    assert main(["report", str(tmp_path / "c"), "--html", str(tmp_path / "file" / "page.html")]) == 2
    assert f"{tmp_path / 'file' / 'page.html'}: Not a directory; cure:" in capsys.readouterr().err


def test_texts_that_cannot_be_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STACKGRAD_DUMP_IR", str(tmp_path / "file" / "dump"))
    with pytest.raises(OptionError, match=r"(?s)STACKGRAD_DUMP_IR: .*dump: Not a directory.*cure: name a folder"):
        kernel_of("real")(1.0)


def test_a_bundle_that_cannot_be_written_hides_no_defect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stackgrad.backends.crash import crash_error

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STACKGRAD_CRASH_DIR", str(tmp_path / "file" / "crash"))
    kernel = sg.kernel_from_text("kernel k() { serial { } }").kernel
    assert "kernel k: LLVM refuses it: why" in str(crash_error("LLVM refuses it", ValueError("why"), {"k": kernel}, {}))
