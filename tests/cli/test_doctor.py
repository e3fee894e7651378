"""`stackgrad doctor`, `--version`, `python -m stackgrad`: they work where little is installed."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.cli import doctor


def test_what_is_here(command: Any) -> None:
    found = command("doctor")
    assert found.status == 0
    for word in (f"stackgrad {sg.__version__}", "Python 3.", "numpy", "llvmlite", "LLVM", "CPU", "jax", "rich"):
        assert word in found.out
    backends = found.out.partition("backends\n")[2]
    assert "reference    present: NumPy" in backends and "cpu          present: LLVM" in backends
    assert "cuda" in backends and ("present" in backends.partition("cuda")[2] or "cure:" in backends)


def test_what_is_missing(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", absent)
    found = command("doctor")
    assert found.status == 0
    assert "jax          absent: needed for the oracle of `stackgrad check`; cure: pip install" in found.out


_WITHOUT = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from stackgrad.cli import main
status = main(["doctor"])
assert not set({names!r}) & set(sys.modules)
sys.exit(status)
"""


def test_without_llvm_jax_and_rich() -> None:
    code = _WITHOUT.format(names=("llvmlite", "jax", "rich"))
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    assert "cpu          absent: No module named 'llvmlite" in found.stdout
    assert "cure: pip install llvmlite" in found.stdout and "reference    present" in found.stdout


def test_as_a_module() -> None:
    found = subprocess.run([sys.executable, "-m", "stackgrad", "--version"], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (0, f"stackgrad {sg.__version__}\n")


def test_no_command(capsys: pytest.CaptureFixture[str], command: Any) -> None:
    with pytest.raises(SystemExit) as ending:
        command()
    assert ending.value.code == 2 and "usage: stackgrad" in capsys.readouterr().err
