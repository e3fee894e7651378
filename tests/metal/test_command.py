"""`stackgrad ir FILE --stage metal`, and what `stackgrad doctor` says of Metal."""

from __future__ import annotations

from pathlib import Path

import pytest
from stackgrad.cli import main

TEXT = """kernel half(x: f32[1]) { serial {
  %0: i32 = const 0 %1: f32 = load x[%0] %2: f32 = mul %1, %1 store x[%0], %2 } }"""


def test_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str], translator: None) -> None:
    path = tmp_path / "half.kir"
    path.write_text(TEXT)
    assert main(["ir", str(path), "--stage", "metal"]) == 0
    out = capsys.readouterr().out
    assert "kernel void task_0(constant " in out and "// The argument block of half" in out
    assert "address of x: f32[1]" in out and "// task_0: threadgroups of 1; " in out


def test_stage_of_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "half.kir"
    path.write_text(TEXT.replace("f32", "f64"))
    assert main(["ir", str(path), "--stage", "metal"]) == 1
    assert "Metal has no f64: `%1: f64 = load x[%0]`" in capsys.readouterr().err


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    row = capsys.readouterr().out.partition("metal        absent: ")[2]
    assert "nothing launches them, because no Metal device was at hand" in row and "cure: " in row
