"""The package is imported by its own name, and importing it is cheap.

`import compiler` from inside a checkout would load a second copy of every table beside `stackgrad.compiler`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import project_tree as tree
import pytest

FOLDERS = frozenset({"compiler", "reference", "backends", "harness"})
HEAVY = ("llvmlite", "jax", "jaxlib", "hypothesis", "rich", "cuda", "vulkan")


def bare_imports(source: ast.AST) -> list[tree.Import]:
    """Imports of a mapped folder by its bare name."""
    return [i for i in tree.imports(source) if i.target.split(".")[0] in FOLDERS]


def root_imports(module: str, path: Path) -> list[tree.Import]:
    return [i for i in tree.internal_imports(module, path) if i.target == tree.PACKAGE]


def test_no_folder_is_imported_by_its_bare_name() -> None:
    wrong = [
        f"{tree.relative(path)}:{i.line}: import {i.target} as {tree.PACKAGE}.{i.target}"
        for path in tree.python_files()
        for i in bare_imports(tree.syntax(path))
    ]
    assert not wrong, "\n".join(wrong)


def test_no_module_imports_the_root() -> None:
    """The root gathers what the layers make, lazily; a layer that asks it back closes a circle."""
    wrong = [
        f"{tree.relative(path)}:{i.line}: imports the root package"
        for name, path in tree.modules().items()
        if "." in name.removeprefix(f"{tree.PACKAGE}.")
        for i in root_imports(name, path)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "source",
    [
        "import compiler",
        "import compiler.ir.walk as w",
        "from reference import scalar",
        "def f():\n    from backends.base import Options",
        "if TYPE_CHECKING:\n    import harness",
        "importlib.import_module('reference.scalar')",
    ],
)
def test_bare_imports_are_found(source: str) -> None:
    assert len(bare_imports(ast.parse(source))) == 1


@pytest.mark.parametrize("source", ["import stackgrad.compiler", "from stackgrad import reference", "import compilers"])
def test_proper_imports_pass(source: str) -> None:
    assert bare_imports(ast.parse(source)) == []


def loaded_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys\nprint(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_after("import stackgrad")
    assert "stackgrad" in loaded
    assert sorted(loaded & set(HEAVY)) == []


def test_the_probe_sees_what_is_loaded() -> None:
    assert "llvmlite" in loaded_after("import stackgrad, llvmlite")
