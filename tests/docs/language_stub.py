"""Write src/stackgrad/language.pyi from the table of names and the manual:  python tests/docs/language_stub.py

The stub is never edited by hand: a test fails if it is not what this module makes.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

_HERE = str(Path(__file__).resolve().parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import public_names as names  # noqa: E402
import stackgrad as sg  # noqa: E402
from stackgrad.compiler.frontend.functions import EXPORTS  # noqa: E402
from stackgrad.compiler.frontend.manual import MANUAL, Entry  # noqa: E402

STUB = names.ROOT / "src" / "stackgrad" / "language.pyi"
HEAD = '''\
# ruff: noqa - a script has written this file
"""Tell type checkers and editors the public names of the package; at run time it finds them at first use.

Operands are Any: in a kernel one function takes numbers, vectors and matrices of every type. A scalar type is the
Python number that it stands for, so that `n: sg.i32` declares a parameter and `sg.field(sg.f32)` a field: as an object
it is a `Scalar`, which no annotation can name. A parameter that is a template may be anything. The file is made by
`python tests/docs/language_stub.py` from the table of names and from the manual of the kernel language.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

from .compiler.frontend.refused_names import RefusedName
'''
TYPED = {
    "func": "def func(function: _F) -> _F:",
    "template": "def template() -> Any:",
    "Template": "Template: TypeAlias = Any",
}
"""Names whose declaration for type checkers differs from what they are."""
SCALARS = (".compiler.ir.types", ".data.primitive_types")
"""Homes of names that are declared as Python's numbers."""


def documented(line: str, text: str) -> str:
    """Return a declaration with its docstring, inside of a function or below a name."""
    assert '"""' not in text and "\\" not in text, line
    indent = "    " if line.startswith("def ") else ""
    first, *more = text.splitlines()
    if not more:
        return f'{line}\n{indent}"""{first}"""\n'
    body = "".join(f"{indent}{inner}\n" if inner else "\n" for inner in more)
    return f'{line}\n{indent}"""{first}\n{body}{indent}"""\n'


def function(entry: Entry) -> str:
    """Return the first line of a function's definition, with Any for operands without an annotation."""
    node = ast.parse(f"def {entry.name}({entry.parameters}) -> {entry.returns}: ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    given = node.args
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
        if argument is not None and argument.annotation is None:
            argument.annotation = ast.Name("Any")
    return ast.unparse(node).partition("\n")[0]


def declaration(name: str, value: Any) -> str:
    """Return the declaration of a name of the language, or of a name whose type is given by hand."""
    if name in TYPED:
        return TYPED[name]
    if names.is_refused(value):
        return f"{name}: RefusedName"
    if names.homes().get(name) in SCALARS:
        return f"{name}: TypeAlias = {'float' if value.is_real else 'int'}"
    entry = MANUAL[name]
    return f"{name}: {entry.returns}" if entry.parameters is None else function(entry)


def imports() -> list[str]:
    """Return the lines that import names from the modules of the package."""
    homes = {name: home for name, home in names.homes().items() if home not in SCALARS and name not in TYPED}
    lines = [f"from . import {', '.join(f'{module} as {module}' for module in sg._MODULES)}"]
    for home in dict.fromkeys(homes.values()):
        lines += [f"from {home} import (", *(f"    {name} as {name}," for name, at in homes.items() if at == home), ")"]
    return lines


def text() -> str:
    """Return the text of the stub."""
    parts = [HEAD + "\n".join(imports()) + "\n", '_F = TypeVar("_F", bound=Callable[..., Any])\n']
    for name, value in names.public_names():
        told = name in TYPED or names.homes().get(name) in SCALARS
        if "." not in name and (told or name in EXPORTS and name not in names.homes()):
            found = names.own_text(name, value)
            assert found is not None, name
            parts.append(documented(declaration(name, value), found))
    return "\n".join(parts)


if __name__ == "__main__":
    STUB.write_text(text(), encoding="utf-8")
