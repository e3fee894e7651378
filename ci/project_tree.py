"""This module represents the checkout as data: its files, the module of each file, and the imports of each module.

Everything that judges the tree itself (tests/meta) reads it through this module. Invariant: modules are named as they
are imported (`stackgrad.compiler.ir.walk`), never by folder. An import is resolved to the module that it loads,
wherever it stands in the file: relative, inside a function or under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath

from link_tree import ROOT, package_folders

PACKAGE = "stackgrad"


def _git(*arguments: str) -> list[str]:
    """Return the paths that `git ls-files` prints, also in a checkout that belongs to another user."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", *arguments]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for path in output.split("\0") if path]


def of_the_project(tracked: Iterable[str], untracked: Iterable[str]) -> list[str]:
    """Return the files that the next commit may contain: tracked files, and new files in folders with tracked ones."""
    known = list(tracked)
    folders = {path.split("/")[0] for path in known if "/" in path}
    return sorted({*known, *(path for path in untracked if "/" in path and path.split("/")[0] in folders)})


@cache
def project_files() -> tuple[Path, ...]:
    """Return the absolute paths of the project's files, sorted.

    Raises:
        CalledProcessError: this is not a git checkout.
    """
    paths = of_the_project(_git("--cached"), _git("--others", "--exclude-standard"))
    return tuple(path for path in (ROOT / p for p in paths) if path.is_file())


def python_files() -> tuple[Path, ...]:
    """Return every Python file of the project."""
    return tuple(path for path in project_files() if path.suffix == ".py")


def relative(path: Path) -> str:
    """Return a path relative to the root of the checkout, with slashes, for messages."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: str, folders: Mapping[str, str]) -> str | None:
    """Return the dotted module name of a file, or None for files outside of the package."""
    for package, folder in folders.items():
        below = PurePosixPath(path)
        if path.endswith(".py") and below.is_relative_to(folder):
            parts = below.relative_to(folder).with_suffix("").parts
            return ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])
    return None


@cache
def modules() -> dict[str, Path]:
    """Return a mapping from the name of each module of the package to its file."""
    folders = package_folders(ROOT / "pyproject.toml")
    named = ((module_name(relative(path), folders), path) for path in python_files())
    return {name: path for name, path in named if name is not None}


@cache
def syntax(path: Path) -> ast.Module:
    """Return the syntax tree of a file.

    Raises:
        SyntaxError: the file is not valid Python.
    """
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@dataclass(frozen=True)
class Import:
    """Represent the import of one module by a file.

    Attributes:
        target: the module.
        line: the line that loads it.
        for_types: True if it is loaded only under `if TYPE_CHECKING`.
    """

    target: str
    line: int
    for_types: bool = False


def _base(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """Return the absolute module name of a `from` import. Outside of the package a relative name is left as it is."""
    if not node.level or not module:
        return "." * node.level + (node.module or "")
    parts = module.split(".")
    # One dot in a package means the package itself, in a plain module the package around it.
    keep = len(parts) - node.level + (1 if is_package else 0)
    return ".".join([*parts[: max(keep, 0)], *([node.module] if node.module else [])])


def _dynamic(node: ast.Call) -> str | None:
    """Return the constant argument of `import_module(...)` or `__import__(...)`, or None for any other call."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
        return str(node.args[0].value)
    return None


def _targets(node: ast.AST, module: str, is_package: bool, known: Iterable[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _base(node, module, is_package)
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            yield inner if inner in known else base
    elif isinstance(node, ast.Call):
        text = _dynamic(node)
        if text is not None:
            level = len(text) - len(text.lstrip("."))
            yield _base(ast.ImportFrom(text.lstrip(".") or None, [], level), module, is_package)


def _typing_nodes(tree: ast.AST) -> set[ast.AST]:
    """Return all syntax nodes inside of the bodies of `if TYPE_CHECKING:` statements."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }


def imports(tree: ast.AST, module: str = "", is_package: bool = False, known: Iterable[str] = ()) -> list[Import]:
    """Return the imports of a module, also those by `import_module(...)`.

    `known` names all modules, to tell `from package import module` from the import of an attribute.
    """
    names, typing = frozenset(known), _typing_nodes(tree)
    found = {
        Import(target, getattr(node, "lineno", 0), node in typing)
        for node in ast.walk(tree)
        for target in _targets(node, module, is_package, names)
    }
    return sorted(found, key=lambda i: (i.line, i.target))


def internal_imports(module: str, path: Path) -> list[Import]:
    """Return the modules of this project that the given module imports.

    A name without a file counts for its nearest existing package.
    """
    known = modules()
    found = imports(syntax(path), module, path.name == "__init__.py", known)
    ours = [i for i in found if i.target.split(".")[0] == PACKAGE]
    return [replace(i, target=nearest(i.target, known)) for i in ours]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the longest prefix of a dotted name that is a known module, such as `a.b` for `a.b.attribute`."""
    names = frozenset(known)
    while name not in names and "." in name:
        name = name.rpartition(".")[0]
    return name
