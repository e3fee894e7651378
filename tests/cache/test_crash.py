"""Test that a defect of the compiler writes a folder with all data to reproduce it, which the error names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.backends import crash
from stackgrad.backends.base import Options
from stackgrad.backends.cpu.backend import CpuBackend
from stackgrad.backends.llvm import module
from stackgrad.compiler import driver
from stackgrad.compiler.ir.nodes import Get
from stackgrad.compiler.ir.parser import parse_kernel

KERNEL = parse_kernel("kernel k(y: f64[1]) { serial { %0: i32 = const 0 %1: f64 = const 1.5 store y[%0], %1 } }")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "crashes"
    folder.mkdir()
    monkeypatch.setenv("STACKGRAD_CRASH_DIR", str(folder))
    monkeypatch.setattr(crash, "_written", [])
    return folder


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a defect: a code generator that does not terminate blocks."""
    honest = module.launch_function

    def launch(state: Any) -> Any:
        made = honest(state)
        made.blocks[-1].terminator = None
        return made

    monkeypatch.setattr(module, "launch_function", launch)


def bundle(message: str) -> Path:
    found = re.search(r"send the folder (\S+)$", message)
    assert found, message
    return Path(found[1])


def test_what_llvm_refuses(broken: None, place: Path) -> None:
    with pytest.raises(sg.InternalError, match="kernel k: LLVM failed: LLVM refuses the generated code: .*") as caught:
        CpuBackend().compile(KERNEL, Options(precise=False))
    folder = bundle(str(caught.value))
    assert folder.parent == place and folder.stat().st_mode & 0o777 == 0o700
    assert parse_kernel((folder / "kernel.kir").read_text()) == KERNEL
    assert 'define  i32 @"launch"' in (folder / "module.ll").read_text()
    message = (folder / "message.txt").read_text()
    assert "LLVM refuses the generated code" in message and "Traceback" in message
    about = json.loads((folder / "about.json").read_text())
    assert about["stackgrad"] == sg.__version__ and about["options"] == repr(Options(precise=False))
    assert about["llvm"].startswith("LLVM ") and about["numpy"] and about["cpu"]
    assert about["environment"]["STACKGRAD_CRASH_DIR"] == str(place)


def test_what_the_linker_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = module.launch_function

    def launch(state: Any) -> Any:
        from stackgrad.backends.codegen.builder import IRBuilder
        from stackgrad.backends.codegen.types import VOID

        made = honest(state)
        missing = state.declare("no.such.function", VOID, [])
        IRBuilder(made.blocks[0]).call(missing, [])
        return made

    monkeypatch.setattr(module, "launch_function", launch)
    with pytest.raises(sg.InternalError, match="the linker refuses the code: .*launch") as caught:
        CpuBackend().compile(KERNEL, Options())
    assert '@"no.such.function"()' in (bundle(str(caught.value)) / "module.ll").read_text()


def test_no_place_for_a_bundle(broken: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the message carries the text."""
    monkeypatch.setenv("STACKGRAD_CRASH_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(sg.InternalError, match="LLVM failed") as caught:
        CpuBackend().compile(KERNEL, Options())
    assert '@"launch"' in str(caught.value) and "send the folder" not in str(caught.value)


def test_bundles_are_few(broken: None, place: Path) -> None:
    for _ in range(12):
        with pytest.raises(sg.InternalError, match="LLVM failed"):
            CpuBackend().compile(KERNEL, Options())
    assert len(list(place.iterdir())) == 10


def test_nothing_is_written_where_nothing_is_wrong(place: Path) -> None:
    CpuBackend().compile(KERNEL, Options())
    assert not list(place.iterdir())


@pytest.mark.parametrize("cached", ["0", "1"])
def test_what_the_verifier_refuses(cached: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that reads a local which nobody has declared."""

    def spoil(kernel: Any) -> Any:
        (task, *rest) = kernel.tasks
        body = tuple(Get(s.result, "nobody") if type(s).__name__ == "Const" else s for s in task.body)
        return replace(kernel, tasks=(replace(task, body=body), *rest))

    monkeypatch.setenv("STACKGRAD_CACHE", cached)
    monkeypatch.setenv("STACKGRAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(driver, "FORWARD", [*driver.FORWARD, ("spoil", spoil)])
    sg.init(arch=sg.cpu, debug=True)
    y = sg.field(sg.f32, shape=3)

    @sg.kernel
    def fill() -> None:
        for i in range(3):
            y[i] = 1.5

    with pytest.raises(sg.InternalError, match="prepare_forward made what the verifier refuses: .*nobody") as caught:
        fill()
    folder = bundle(str(caught.value))
    assert parse_kernel((folder / "source.kir").read_text()).name == "fill"
    assert json.loads((folder / "about.json").read_text())["check"] is True
    sg.reset()


def test_a_bad_text_kernel_is_the_mistake_of_its_author(place: Path) -> None:
    sg.init(arch=sg.cpu, debug=True)
    with pytest.raises(sg.VerifyError):
        sg.kernel_from_text("kernel k(y: f64[1]) { serial { %0: i32 = const 0 %1: f64 = get v store y[%0], %1 } }")(
            y=sg.ndarray(sg.f64, 3)
        )
    assert not list(place.iterdir())
    sg.reset()
