"""Imports between the modules of the package obey ci/contracts.toml and run in no circle."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import project_tree as tree
import pytest
from link_tree import package_folders

CONTRACTS = tree.ROOT / "ci/contracts.toml"


def lint(package: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package below a folder."""
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [str(program), str(CONTRACTS), "--no-cache", "--no-logo"],
        cwd=package,
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a copy of the package as one tree, to plant mistakes in."""
    top = tmp_path_factory.mktemp("package")
    folders = package_folders(tree.ROOT / "pyproject.toml")
    for name in sorted(folders, key=len):
        only_code = shutil.ignore_patterns("__pycache__", "*.so", "*.spv")
        shutil.copytree(tree.ROOT / folders[name], top / name.replace(".", "/"), ignore=only_code)
    return top


def test_contracts_are_kept(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


PLANTED = {
    "compiler/sizing": ("def f():\n    from ..ad import plan", "The compiler: from the pipelines down to errors"),
    "backends/spirv": ("from ..llvm import module", "Backends: from the registry down to what a backend is"),
    "reference": ("from ..compiler.ad import plan", "No executor knows how a derivative is made"),
    "harness/testing/oracles": ("from ....compiler.passes import simplify", "An oracle shares nothing"),
    "runtime": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..launch import program",
        "The public package: from the command line down to the compiler",
    ),
    "harness/testing": ("from ..tools.fuzz import loop", "The harness: tools use what judges"),
}
"""A module to plant in each folder, and the contract that it breaks."""


def test_a_broken_contract_is_found(copy: Path) -> None:
    for folder, (source, _) in PLANTED.items():
        (copy / "stackgrad" / folder / "planted.py").write_text(source + "\n")
    done = lint(copy)
    for folder in PLANTED:
        (copy / "stackgrad" / folder / "planted.py").unlink()
    said = " ".join(done.stdout.split())
    assert done.returncode == 1, done.stderr
    for folder, (_, contract) in PLANTED.items():
        module = f"stackgrad.{folder}.planted".replace("/", ".")
        assert re.search(rf"{re.escape(contract)}[^.]* BROKEN", said), f"{contract}: not broken by {module}"
        assert module in said, f"{module} is not named"


def cycle(graph: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the nodes of one cycle, with the first node repeated at the end; empty if there is none."""
    done: set[str] = set()
    path: list[str] = []

    def visit(node: str) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        path.append(node)
        found = next((c for c in map(visit, graph.get(node, ())) if c), [])
        path.pop()
        done.add(node)
        return found

    return next((c for c in map(visit, graph) if c), [])


def import_graph() -> dict[str, list[str]]:
    """Return, for each module, the modules that it imports, except those imported for type checkers only."""
    return {
        name: sorted({i.target for i in tree.internal_imports(name, path) if not i.for_types} - {name})
        for name, path in sorted(tree.modules().items())
    }


def test_no_circles() -> None:
    found = cycle(import_graph())
    assert not found, " -> ".join(found)


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, ["a", "b", "c", "a"]),
        ({"a": ["b", "c"], "b": ["c"], "c": []}, []),
        ({"x": ["a"], "a": ["b"], "b": ["a"]}, ["a", "b", "a"]),
    ],
)
def test_circles_are_found(graph: dict[str, list[str]], found: list[str]) -> None:
    assert cycle(graph) == found


KNOWN = ("stackgrad", "stackgrad.a", "stackgrad.a.b", "stackgrad.a.c", "stackgrad.d")


@pytest.mark.parametrize(
    ("source", "targets"),
    [
        ("from . import c", ["stackgrad.a.c"]),
        ("from .c import name", ["stackgrad.a.c"]),
        ("from .. import d", ["stackgrad.d"]),
        ("from .. import name", ["stackgrad"]),
        ("from ..d import name", ["stackgrad.d"]),
        ("import stackgrad.d", ["stackgrad.d"]),
        ("def f():\n    from ..d import name", ["stackgrad.d"]),
        ("if TYPE_CHECKING:\n    from ..d import name", ["stackgrad.d"]),
        ("import importlib\nimportlib.import_module('stackgrad.d')", ["importlib", "stackgrad.d"]),
        ("import_module('..d', __package__)", ["stackgrad.d"]),
    ],
)
def test_imports_are_resolved(source: str, targets: list[str]) -> None:
    found = tree.imports(ast.parse(source), "stackgrad.a.b", is_package=False, known=KNOWN)
    assert [i.target for i in found] == targets


def test_imports_for_types_are_told_apart() -> None:
    source = "from . import c\nif TYPE_CHECKING:\n    from .. import d\nelse:\n    import stackgrad.a"
    found = tree.imports(ast.parse(source), "stackgrad.a.b", known=KNOWN)
    assert [(i.target, i.for_types) for i in found] == [
        ("stackgrad.a.c", False),
        ("stackgrad.d", True),
        ("stackgrad.a", False),
    ]


def test_a_package_resolves_its_own_dots() -> None:
    found = tree.imports(ast.parse("from .b import name"), "stackgrad.a", is_package=True, known=KNOWN)
    assert [i.target for i in found] == ["stackgrad.a.b"]


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("src/stackgrad/__init__.py", "stackgrad"),
        ("src/stackgrad/api.py", "stackgrad.api"),
        ("compiler/ir/walk.py", "stackgrad.compiler.ir.walk"),
        ("compiler/ir/__init__.py", "stackgrad.compiler.ir"),
        ("tests/ir/test_walk.py", None),
    ],
)
def test_modules_are_named(path: str, module: str | None) -> None:
    folders = tree.package_folders(tree.ROOT / "pyproject.toml")
    assert tree.module_name(path, folders) == module


def test_new_files_count_only_inside_the_project() -> None:
    tracked = ["pyproject.toml", "compiler/a.py"]
    assert tree.of_the_project(tracked, ["compiler/b.py", "notes/c.py", "d.py"]) == [
        "compiler/a.py",
        "compiler/b.py",
        "pyproject.toml",
    ]


def test_every_module_has_one_file() -> None:
    files = [path for path in tree.modules().values()]
    assert len(files) == len(set(files))
    assert Path(tree.modules()["stackgrad.compiler.ir.walk"]) == tree.ROOT / "compiler/ir/walk.py"
