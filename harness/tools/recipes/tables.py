"""Find the tables of operations and statements, with the file and the line of each one.

A table registers itself when its module is imported. Modules that make tables are recognized by their text, so that
nothing else has to be imported.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ....compiler import __path__ as compiler_folders
from ....compiler.ir.nodes import STATEMENTS
from ....compiler.ir.ops import OPS
from ....compiler.ir.table import TABLES, Table

PACKAGE = __name__.partition(".")[0]
KINDS = ("operation", "statement")
FEW = 12
"""Most keys that a description of a partial table lists one by one."""


@dataclass(frozen=True)
class Place:
    """Represent the source location of a top-level name of a module.

    Attributes:
        module: name of the module.
        name: name of the variable, class or function.
        path: absolute path of the module's file.
        line: number of the line that binds the name.
    """

    module: str
    name: str
    path: Path
    line: int

    def relative(self) -> str:
        """Return the path of the file, relative to the root of the checkout."""
        return self.path.relative_to(root()).as_posix()


@cache
def root() -> Path:
    """Return the folder of the checkout that the package was imported from.

    Raises:
        LookupError: the package was not imported from a checkout.
    """
    folder = Path(next(iter(compiler_folders))).resolve().parent
    if not (folder / "pyproject.toml").is_file() or not (folder / "tests").is_dir():
        raise LookupError(f"{folder} is no checkout of {PACKAGE}")
    return folder


def _module_files() -> Iterator[tuple[str, Path]]:
    """Yield the name and the file of each module of the compiler, the backends, the reference and the harness."""
    for part in ("compiler", "reference", "backends", "harness"):
        package = importlib.import_module(f"{PACKAGE}.{part}")
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not info.name.endswith("__main__"):
                folder = Path(info.module_finder.path)  # type: ignore[union-attr]
                last = info.name.rpartition(".")[2]
                yield info.name, folder / last / "__init__.py" if info.ispkg else folder / f"{last}.py"


@cache
def load() -> tuple[Table[Any, Any], ...]:
    """Return all tables of operations and statements, in the order of their modules' names.

    The modules that make a table or add entries to one are imported.
    """
    for name, path in _module_files():
        if f"{Table.__name__}(" in path.read_text(encoding="utf-8"):
            importlib.import_module(name)
    found = [table for table in TABLES if kind_of(table) and table.module.partition(".")[0] == PACKAGE]
    return tuple(sorted(found, key=lambda table: (order(table.module), table.name)))


def order(module: str) -> tuple[int, str]:
    """Return a key that sorts modules by part: compiler, reference, backends, harness."""
    parts = ("compiler", "reference", "backends", "harness")
    part = module.split(".")[1]
    return (parts.index(part) if part in parts else len(parts), module)


def kind_of(table: Table[Any, Any]) -> str:
    """Return "operation" or "statement", which the keys of a table are, or "" if they are neither."""
    if table.keys and all(key in OPS for key in table.keys):
        return "operation"
    known = {*STATEMENTS, *STATEMENTS.values()}
    return "statement" if table.keys and all(key in known for key in table.keys) else ""


def of_kind(kind: str) -> list[Table[Any, Any]]:
    """Return the tables whose keys are of the given kind: operations, or statement classes."""
    return [table for table in load() if kind_of(table) == kind]


def coverage(table: Table[Any, Any]) -> str:
    """Return a note on the keys that a partial table has, or "" if the table is complete."""
    every = list(OPS) if kind_of(table) == "operation" else list(STATEMENTS)
    keys = [getattr(key, "__name__", key) for key in table.keys]
    left_out = [key for key in every if key not in keys]
    if not left_out:
        return ""
    if len(keys) <= FEW:
        return f"only {', '.join(keys)}"
    return f"all but {', '.join(left_out)}"


def place_of(table: Table[Any, Any]) -> Place:
    """Return the source location of the variable that holds a table."""
    module = sys.modules[table.module]
    name = next(name for name, value in vars(module).items() if value is table)
    return place(module, name)


def place(module: ModuleType, name: str) -> Place:
    """Return the source location of a top-level name of a module.

    Raises:
        LookupError: the module does not bind the name.
    """
    path = Path(inspect.getfile(module)).resolve()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if name in bound_names(node):
            return Place(module.__name__, name, path, node.lineno)
    raise LookupError(f"{module.__name__} does not bind {name}")


def bound_names(node: ast.stmt) -> list[str]:
    """Return the names that an assignment or a definition binds."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)]
