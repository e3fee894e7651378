"""The checkout as data: its files, the module that each Python file is, and what each module imports.

Everything that judges the tree itself (tests/meta) reads it through here. Invariant: modules are named as they are
imported (`stackgrad.compiler.ir.walk`), never by folder, and an import is resolved to the module that it loads,
wherever in the file it stands: relative, inside a function or under TYPE_CHECKING.
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
    """Paths that `git ls-files` gives. The checkout may belong to another user, as in containers."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", *arguments]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for path in output.split("\0") if path]


def of_the_project(tracked: Iterable[str], untracked: Iterable[str]) -> list[str]:
    """Tracked files, and new ones in folders that hold tracked files: what the next commit may contain."""
    known = list(tracked)
    folders = {path.split("/")[0] for path in known if "/" in path}
    return sorted({*known, *(path for path in untracked if "/" in path and path.split("/")[0] in folders)})


@cache
def project_files() -> tuple[Path, ...]:
    """Absolute paths of the project's files, sorted. Raises CalledProcessError outside a git checkout."""
    paths = of_the_project(_git("--cached"), _git("--others", "--exclude-standard"))
    return tuple(path for path in (ROOT / p for p in paths) if path.is_file())


def python_files() -> tuple[Path, ...]:
    """Every Python file of the project."""
    return tuple(path for path in project_files() if path.suffix == ".py")


def relative(path: Path) -> str:
    """A path as it is written in messages: from the root of the checkout, with slashes."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: str, folders: Mapping[str, str]) -> str | None:
    """The module that a file is, by the folder map of pyproject.toml; None for files outside the package."""
    for package, folder in folders.items():
        below = PurePosixPath(path)
        if path.endswith(".py") and below.is_relative_to(folder):
            parts = below.relative_to(folder).with_suffix("").parts
            return ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])
    return None


@cache
def modules() -> dict[str, Path]:
    """File of each module of the package, by name."""
    folders = package_folders(ROOT / "pyproject.toml")
    named = ((module_name(relative(path), folders), path) for path in python_files())
    return {name: path for name, path in named if name is not None}


@cache
def syntax(path: Path) -> ast.Module:
    """The syntax tree of a file. Raises SyntaxError."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@dataclass(frozen=True)
class Import:
    """One module that a file loads, and the line that asks for it. for_types: under `if TYPE_CHECKING` alone."""

    target: str
    line: int
    for_types: bool = False


def _base(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The absolute name behind the dots of a `from` import; outside the package the dots stay."""
    if not node.level or not module:
        return "." * node.level + (node.module or "")
    parts = module.split(".")
    keep = len(parts) - node.level + (1 if is_package else 0)
    return ".".join([*parts[: max(keep, 0)], *([node.module] if node.module else [])])


def _dynamic(node: ast.Call) -> str | None:
    """The constant argument of `import_module(...)` or `__import__(...)`."""
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
    """Everything inside the bodies of `if TYPE_CHECKING:`."""
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }


def imports(tree: ast.AST, module: str = "", is_package: bool = False, known: Iterable[str] = ()) -> list[Import]:
    """What the statements of a module load. `known` tells `from package import module` from an attribute."""
    names, typing = frozenset(known), _typing_nodes(tree)
    found = {
        Import(target, getattr(node, "lineno", 0), node in typing)
        for node in ast.walk(tree)
        for target in _targets(node, module, is_package, names)
    }
    return sorted(found, key=lambda i: (i.line, i.target))


def internal_imports(module: str, path: Path) -> list[Import]:
    """What one of our modules loads of ours. A name that no file has counts for its nearest existing package."""
    known = modules()
    found = imports(syntax(path), module, path.name == "__init__.py", known)
    ours = [i for i in found if i.target.split(".")[0] == PACKAGE]
    return [replace(i, target=nearest(i.target, known)) for i in ours]


def nearest(name: str, known: Iterable[str]) -> str:
    """The longest prefix of a dotted name that is a module: `pkg.module.attribute` is `pkg.module`."""
    names = frozenset(known)
    while name not in names and "." in name:
        name = name.rpartition(".")[0]
    return name
