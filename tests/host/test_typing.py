"""Test the type stubs: they declare every public name, and no name that does not exist."""

from __future__ import annotations

import ast
from collections.abc import Callable
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.compiler.frontend.functions import FUNCTIONS
from stackgrad.compiler.frontend.refused_names import RefusedName
from table_rows import each_row

HOME = Path(str(sg.__file__)).parent
LANGUAGE = ast.parse((HOME / "language.pyi").read_text())


def imported(line: ast.ImportFrom) -> set[str]:
    """Names that an import gives; `*` gives those that language.pyi declares, or imports under a name of their own."""
    names = {alias.asname or alias.name for alias in line.names}
    if names != {"*"}:
        return names
    aliases = [alias for inner in LANGUAGE.body if isinstance(inner, ast.ImportFrom) for alias in inner.names]
    return {*declared(), *(alias.asname for alias in aliases if alias.asname is not None)}


def declared() -> dict[str, ast.stmt]:
    """What language.pyi declares, by name: no name twice."""
    found: dict[str, ast.stmt] = {}
    for line in LANGUAGE.body:
        name = line.name if isinstance(line, ast.FunctionDef) else None
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            name = line.target.id
        if name is not None:
            assert name not in found, name
            found[name] = line
    return found


def bound(line: ast.stmt) -> set[str]:
    """Names that a line of the root package binds, for type checkers."""
    if isinstance(line, ast.If) and ast.unparse(line.test) == "TYPE_CHECKING":
        return {name for inner in line.body if isinstance(inner, ast.ImportFrom) for name in imported(inner)}
    if isinstance(line, ast.Assign):
        return {node.id for target in line.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return set()


def visible() -> set[str]:
    names = set().union(*map(bound, ast.parse((HOME / "__init__.py").read_text()).body))
    return {name for name in names if not name.startswith("_")} | {"__version__"}


def test_every_name_is_visible_to_type_checkers() -> None:
    assert visible() - set(dir(sg)) == set()
    assert set(dir(sg)) - visible() == set()


def test_dir_does_not_grow_with_what_is_loaded() -> None:
    before = dir(sg)
    import stackgrad.cli  # noqa: F401
    import stackgrad.reference  # noqa: F401

    assert dir(sg) == before and "cli" not in before


def kind_of(line: ast.stmt) -> str:
    return ast.unparse(line.annotation) if isinstance(line, ast.AnnAssign) else "function"


@each_row("name", sorted(declared()))
def test_is_what_it_is_declared_as(name: str) -> None:
    """A function of the language is declared as one, a refused name as Refused, a scalar type as a number."""
    line = declared()[name]
    value, kind = getattr(sg, name), kind_of(line)
    if kind == "function":
        assert callable(value) and not isinstance(value, RefusedName)
    elif kind == "TypeAlias" and name != "Template":
        assert isinstance(line, ast.AnnAssign) and line.value is not None
        assert ast.unparse(line.value) == ("float" if value.is_real else "int")
    elif kind not in ("TypeAlias", "Any"):  # Names of modules have attributes that no class declares.
        assert type(value).__name__ == kind


def most(function: Callable[..., Any]) -> float:
    """Return the maximum number of positional arguments of a function."""
    parameters = signature(function).parameters.values()
    if any(p.kind is Parameter.VAR_POSITIONAL for p in parameters):
        return float("inf")
    return sum(p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD) for p in parameters)


@pytest.mark.parametrize("name", ["select", "cast", "raw_div", "raw_mod", "bit_shr", "popcnt", "zero", "stop_grad"])
def test_takes_as_many_arguments_as_declared(name: str) -> None:
    line = declared()[name]
    assert isinstance(line, ast.FunctionDef)
    function = FUNCTIONS[name]
    assert function is not None
    assert len(line.args.posonlyargs) + len(line.args.args) == most(function)


@pytest.mark.parametrize("kind", [sg.ScalarField, sg.MatrixField, sg.StructField, sg.ScalarNdarray, sg.MatrixNdarray])
def test_kinds_have_what_their_base_declares(kind: type) -> None:
    """The interface of Tensor, declared for type checkers alone, is that of every kind."""
    tree = ast.parse((HOME / "data" / "fields" / "kinds.py").read_text())
    (tensor,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tensor")
    (block,) = (node for node in tensor.body if isinstance(node, ast.If))
    names = [node.name for node in block.body if isinstance(node, ast.FunctionDef)]
    assert len(names) > 15
    slots = {slot for base in kind.__mro__ for slot in getattr(base, "__slots__", ())}
    missing = [name for name in names if not hasattr(kind, name) and name not in slots | set(kind.__annotations__)]
    assert missing == ["__iter__"]
