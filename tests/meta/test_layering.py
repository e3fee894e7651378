"""Imports between the modules of the package obey ci/layers.toml and run in no circle."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import project_tree as tree
import pytest

Layers = Mapping[str, Sequence[str]]


def load_layers() -> dict[str, list[str]]:
    return dict(tomllib.loads((tree.ROOT / "ci/layers.toml").read_text())["layers"])


def below_root(module: str) -> str:
    return module.removeprefix(tree.PACKAGE).removeprefix(".")


def is_below(module: str, layer: str) -> bool:
    """Whether a module is a layer or inside it. The root layer "" holds what no other layer holds."""
    return not layer or module == layer or module.startswith(layer + ".")


def layer_of(module: str, layers: Layers) -> str:
    """The longest layer that holds the module."""
    return max((layer for layer in layers if is_below(module, layer)), key=len)


def may_import(importer: str, target: str, layers: Layers) -> bool:
    own = layer_of(importer, layers)
    if layer_of(target, layers) == own:
        return True
    return any(allowed and is_below(target, allowed) for allowed in layers[own])


def cycle(graph: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes of one circle, first node repeated at the end; empty if there is none."""
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
    """Modules by the modules they load, at once or inside a function. What only type checkers follow is no circle."""
    return {
        name: sorted({i.target for i in tree.internal_imports(name, path) if not i.for_types} - {name})
        for name, path in sorted(tree.modules().items())
    }


@pytest.mark.parametrize("module", sorted(tree.modules()))
def test_imports_obey_the_layers(module: str) -> None:
    layers = load_layers()
    path = tree.modules()[module]
    wrong = [
        f"{tree.relative(path)}:{i.line}: {module} must not import {i.target}"
        for i in tree.internal_imports(module, path)
        if not may_import(below_root(module), below_root(i.target), layers)
    ]
    assert not wrong, "\n".join([*wrong, "ci/layers.toml says what each layer may import"])


def test_no_circles() -> None:
    found = cycle(import_graph())
    assert not found, " -> ".join(found)


def test_layers_name_what_exists() -> None:
    """A layer or an allowed name that no module has would permit nothing, or hide a typing error."""
    layers = load_layers()
    named = {name for name in layers if name} | {name for allowed in layers.values() for name in allowed}
    exists = {below_root(name) for name in tree.modules()}
    assert sorted(named - exists) == []


LAYERS: Layers = {"": ["low", "high"], "low": [], "low.part": [], "high": ["low.part"]}


@pytest.mark.parametrize(
    ("importer", "target", "allowed"),
    [
        ("high.a", "high.b", True),
        ("high.a", "low.part", True),
        ("high.a", "low.part.inner", True),
        ("high.a", "low.other", False),
        ("high.a", "", False),
        ("low.part", "low.other", False),
        ("low.other", "low.part", False),
        ("low.party", "low.part", False),
        ("low.part", "high", False),
        ("api", "high.a", True),
        ("api", "", True),
    ],
)
def test_rule_decides(importer: str, target: str, allowed: bool) -> None:
    assert may_import(importer, target, LAYERS) is allowed


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


SHOWN_EXACTLY = (
    "compiler.errors",
    "compiler.ir",
    "reference.scalar",
    "compiler.frontend",
    "compiler.passes",
    "compiler.ad",
    "compiler.sizing",
    "backends.base",
    "reference",
    "harness.testing.oracles",
)
"""Rows of the table in ARCHITECTURE.md that say all there is; the others sum up several layers of ci/layers.toml."""


def test_the_table_of_layers_says_what_is_enforced() -> None:
    text = (tree.ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", text, re.MULTILINE)
    quoted = re.compile(r"`(.*?)`")
    shown = {name: set(quoted.findall(imports)) for names, imports in rows for name in quoted.findall(names)}
    layers = load_layers()
    for layer in SHOWN_EXACTLY:
        assert shown[layer] | {"compiler.errors"} == {*layers[layer], "compiler.errors"}, layer
    assert "compiler.ad" not in layers["backends"] and "compiler.driver" in layers["backends.launching.launcher"]
    public = {"math", "session", "fields"}
    above = {name for name, allowed in layers.items() if name.startswith("harness.") and public & set(allowed)}
    assert all(f"`{name}`" in text for name in above)
