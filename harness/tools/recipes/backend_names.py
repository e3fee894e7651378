"""Find the code that names a backend: strings, imports of backend packages, and lines of configuration files.

The reference and the CPU are left out as names, because they are also the default and the judge everywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from ....backends import registry
from .tables import bound_names, root

ORDINARY = ("reference", "cpu")
CONFIGURATION = ("pyproject.toml", "ci/contracts.toml", "ci/matrix.toml")
FOLDERS = ("backends", "compiler", "reference", "harness", "src", "ci", "tests")
TOP = "(module)"
"""Name of a place outside assignments and definitions."""


def names() -> tuple[str, ...]:
    """Return the names of the backends that the recipe looks for in the code; `cpu` and `reference` are everywhere."""
    return tuple(name for name in registry.BACKENDS if name not in ORDINARY)


def own_folders(name: str) -> tuple[str, ...]:
    """Return the folders of a backend, in which its name is expected and not reported."""
    module = registry.BACKENDS[name].module
    package = module.rpartition(".")[0].partition(".")[2].replace(".", "/")
    return (f"{package}/", f"tests/{name}/")


def _files() -> Iterator[Path]:
    """Yield the paths of the Python files of the checkout that are searched."""
    for folder in FOLDERS:
        for path in sorted((root() / folder).rglob("*.py")):
            if "/tests/findings/" not in path.as_posix():
                yield path


@cache
def places() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return {file path: {top-level name in the file: backends that its code mentions}}."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for path in _files():
        text, relative = path.read_text(encoding="utf-8"), path.relative_to(root()).as_posix()
        wanted = [name for name in names() if name in text and not relative.startswith(own_folders(name))]
        if wanted and (named := _named(text, wanted)):
            found[relative] = named
    for relative in CONFIGURATION:
        text = (root() / relative).read_text(encoding="utf-8")
        if wanted := [name for name in names() if _in_configuration(text, name)]:
            found[relative] = {"": tuple(wanted)}
    return found


def _in_configuration(text: str, name: str) -> bool:
    """Return True if a configuration file mentions a backend, as a quoted word or at the end of a package name."""
    return f'"{name}"' in text or f".{name}" in text


def _named(text: str, wanted: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the backends that the code of each top-level name in a module mentions."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(text).body:
        mentioned = {name for inner in ast.walk(node) for name in wanted if _mentions(inner, name)}
        if mentioned:
            title = next(iter(bound_names(node)), TOP)
            found.setdefault(title, set()).update(mentioned)
    return {title: tuple(sorted(some)) for title, some in found.items()}


def _mentions(node: ast.AST, name: str) -> bool:
    """Return True if a node is the name of a backend as a string, or imports from its package."""
    if isinstance(node, ast.ImportFrom) and node.module:
        return f".backends.{name}" in f".{node.module}" or f"backends.{name}." in f"{node.module}."
    return isinstance(node, ast.Constant) and node.value == name
