"""Test the wheel: its packages are those of the checkout, and it works outside of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import project_tree as tree
import pytest


def settings() -> dict[str, Any]:
    return tomllib.loads((tree.ROOT / "pyproject.toml").read_text())


def packages_of(modules: Iterable[str], files: Mapping[str, Path]) -> set[str]:
    """Packages among the modules: those whose file is an `__init__.py`."""
    return {name for name in modules if files[name].name == "__init__.py"}


def packages_without_init(modules: Iterable[str]) -> set[str]:
    """Folders that hold modules but no `__init__.py`: setuptools would ship them as nothing at all."""
    names = set(modules)
    return {name.rpartition(".")[0] for name in names if "." in name} - names


def differences(listed: Iterable[str], present: Iterable[str]) -> list[str]:
    here, there = set(listed), set(present)
    return [
        *(f"{name}: in the tree, not in pyproject.toml" for name in sorted(there - here)),
        *(f"{name}: in pyproject.toml, not in the tree" for name in sorted(here - there)),
    ]


def test_package_list_equals_tree() -> None:
    listed = settings()["tool"]["setuptools"]["packages"]
    assert len(listed) == len(set(listed))
    assert differences(listed, packages_of(tree.modules(), tree.modules())) == []


def test_every_folder_is_a_package() -> None:
    assert packages_without_init(tree.modules()) == set()


def test_differences_are_found() -> None:
    assert len(differences(["a", "a.b"], ["a", "a.c"])) == 2
    assert packages_without_init(["a", "a.b.c"]) == {"a.b"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the project's files, unpacked: the checkout stays as it is."""
    base = tmp_path_factory.mktemp("wheel")
    for path in tree.project_files():
        copy = base / "source" / tree.relative(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(base), str(base / "source")]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    (archive,) = base.glob("*.whl")
    with zipfile.ZipFile(archive) as file:
        file.extractall(base / "installed")
    return base / "installed"


def shipped(wheel: Path) -> set[str]:
    """Files of the package in the wheel, by their path."""
    files = {p.relative_to(wheel).as_posix() for p in wheel.rglob("*") if p.is_file()}
    return {path for path in files if ".dist-info/" not in path}


def test_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    expected = {
        f"{name.replace('.', '/')}{'/__init__.py' if path.name == '__init__.py' else '.py'}"
        for name, path in tree.modules().items()
    }
    data = settings()["tool"]["setuptools"]["package-data"]
    expected |= {f"{name.replace('.', '/')}/{file}" for name, files in data.items() for file in files}
    assert shipped(wheel) == expected


def test_wheel_carries_its_license(wheel: Path) -> None:
    (found,) = wheel.glob("*.dist-info/licenses/LICENSE")
    assert found.read_text() == (tree.ROOT / "LICENSE").read_text()
    assert "stackgrad contributors" in found.read_text()


def test_wheel_is_imported_from_outside(wheel: Path, tmp_path: Path) -> None:
    """Every package comes from the wheel, none from the checkout that may be installed beside it."""
    packages = sorted(packages_of(tree.modules(), tree.modules()))
    code = (
        f"import importlib, stackgrad, stackgrad.compiler.ir.parser\n"
        f"for name in {[*packages, 'stackgrad.compiler.ir.parser']!r}:\n"
        f"    file = importlib.import_module(name).__file__\n"
        f"    assert file.startswith({str(wheel)!r}), (name, file)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(wheel)}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
