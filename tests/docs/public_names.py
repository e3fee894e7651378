"""List the public names of the package with their docstrings, for the stub, the reference page and tests."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any

import stackgrad as sg
from stackgrad.compiler.frontend.functions import EXPORTS
from stackgrad.compiler.frontend.manual import MANUAL
from stackgrad.compiler.frontend.refused_names import RefusedName
from stackgrad.runtime.session import ALIASES, ARCHES

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("ad", "capture", "jax", "linalg", "math", "torch", "types", "types.primitive_types")
PLAIN = (bool, int, float, str, list, tuple, dict)
"""Types of Python whose objects carry no docstring: the text below the assignment is that of the name."""


def arches() -> tuple[str, ...]:
    """Return the names that `sg.init(arch=...)` accepts."""
    return (*ARCHES, *ALIASES)


def homes() -> dict[str, str]:
    """Return the module of each public name that is not only a name of the kernel language."""
    return dict(sg._HOMES)


def module_of(name: str) -> ModuleType:
    """Return a module below the package, such as `ad` or `types.primitive_types`."""
    found: Any = sg
    for part in name.split("."):
        found = getattr(found, part)
    assert isinstance(found, ModuleType)
    return found


def public_names() -> Iterator[tuple[str, Any]]:
    """Return every public name, such as `f32`, `ad` or `ad.Tape`, with its object."""
    for name in dir(sg):
        yield name, getattr(sg, name)
    for module in MODULES:
        for name in module_of(module).__all__:
            yield f"{module}.{name}", getattr(module_of(module), name)


def written_below(module: str, name: str) -> str | None:
    """Return the text below a name's assignment in a module, or in the module that the name is imported from."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    for line, following in zip(tree.body, tree.body[1:]):
        given = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        names = {target.id for target in given if isinstance(target, ast.Name)}
        if name in names and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            return str(following.value.value)
    for line in tree.body:
        if isinstance(line, ast.ImportFrom) and name in {alias.name for alias in line.names}:
            return written_below(home_of(line, module), name)
    return None


def home_of(line: ast.ImportFrom, module: str) -> str:
    """Return the module from which another module imports a name."""
    package = sys.modules[module].__package__ or ""
    return resolve_name("." * line.level + (line.module or ""), package)


def own_text(path: str, value: Any) -> str | None:
    """Return a public object's own docstring, not that of its class or of a base class."""
    module, _, name = path.rpartition(".")
    if name in arches() and isinstance(value, ModuleType):
        value = name  # a module of this name hides the text once it is loaded, and means the same
    if isinstance(value, PLAIN) and type(value).__doc__ == value.__doc__:
        if not module and name in EXPORTS:
            return MANUAL[name].text
        return written_below(module_of(module).__name__ if module else sg.__name__, name)
    text = value.__doc__
    if not isinstance(text, str) or not isinstance(value, type) and text == type(value).__doc__:
        return None
    # A dataclass without a docstring gets one from Python that repeats its parameters.
    made = isinstance(value, type) and text.startswith(f"{value.__name__}(")
    return None if made else inspect.cleandoc(text)


def is_refused(value: Any) -> bool:
    """Return True if a name stands for something that the language refuses."""
    return isinstance(value, RefusedName)
