"""Write docs/reference.md from the docstrings of all public names:  python tests/docs/reference_page.py

The page is never edited by hand: a test fails if it is not what this module makes.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

_HERE = str(Path(__file__).resolve().parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import public_names as names  # noqa: E402
import stackgrad as sg  # noqa: E402
from stackgrad.compiler.frontend.manual import MANUAL, SECTIONS  # noqa: E402
from stackgrad.compiler.ir.types import Scalar  # noqa: E402
from stackgrad.data.snodes import Axes  # noqa: E402
from stackgrad.types import MatrixSpec  # noqa: E402

PAGE = names.ROOT / "docs" / "reference.md"
HEAD = """\
# Reference

Every public name of `import stackgrad as sg`, with its docstring: `help(sg.sin)` prints the same text. The page is made
by `python tests/docs/reference_page.py`; a test fails while it says something else. What works of the dialect is listed
in [dialect.md](dialect.md), and how derivatives are taken in [autodiff.md](autodiff.md).

A derivative is an equation of differentials: `d sin(x) = cos(x) * dx` says that reverse mode multiplies the adjoint of
`sin(x)` by `cos(x)`, and forward mode the tangent of `x`. Tests compare these equations with what the compiler does.
Values at kinks and poles are in [ad.md](ad.md).
"""
TOPICS = {
    "Start and stop": (".runtime.session",),
    "Kernels": (".launch.kernels", ".launch.classes", ".launch.dispatch"),
    "Fields and arrays": (".data.fields", ".data.ndarrays", ".data.names", ".data.views"),
    "Vectors, matrices and structs": (".data.values", ".types"),
    "Placing fields": (".data.snodes",),
    "Linear algebra of small matrices": (".linalg",),
    "Streams, graphs and devices": (".runtime.streams", ".launch.graphs", ".runtime.gpu"),
    "Profiles and reports": (".runtime.profiling", ".runtime.report"),
    "Errors and warnings": (".compiler.errors", ".runtime.usage_errors", ".backends.disk_cache"),
}
"""Sections about names that are no functions of the kernel language, with the modules that define them."""
MODULES = ("ad", "math", "linalg", "types", "types.primitive_types", "capture", "torch", "jax")
IN_TABLES = (Axes, MatrixSpec, int, float, list)
"""Types whose objects have a row of a table in place of an entry."""
PRINTED = (bool, int, float, str, tuple, type(None))
"""Types of defaults that are shown as they are."""
PARAGRAPH = "\n\n"
Kinds = inspect.Parameter
SECTION = re.compile(r"(Args|Returns|Raises|Yields|Attributes):")


def markdown(text: str) -> str:
    """Return a docstring as Markdown, with sections as lists and indented lines as code."""
    return "\n\n".join(_paragraph(part) for part in text.split("\n\n"))


def _paragraph(part: str) -> str:
    first, _, rest = part.partition("\n")
    if SECTION.fullmatch(first):
        return f"*{first}*\n\n" + "\n".join(_items(inspect.cleandoc(f"\n{rest}"), first != "Returns:"))
    if part.startswith("    "):
        code = textwrap.dedent(part).rstrip()
        return f"```{'python' if _is_program(code) else 'text'}\n{code}\n```"
    return part


def _is_program(code: str) -> bool:
    """Return True if a block is Python; other blocks are lines of text, each with a note beside it."""
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def _items(text: str, named: bool) -> Iterator[str]:
    """Return the items of a docstring's section, one for each line."""
    if not named:
        yield f"* {' '.join(text.split())}"
        return
    for item in re.split(r"\n(?! )", text):
        name, colon, said = item.partition(":")
        yield f"* `{name}`: {' '.join(said.split())}" if colon else f"* {' '.join(item.split())}"


def signature(value: Any) -> str:
    """Return the text of a call of an object, or "" for a class whose docstring lists no arguments."""
    if isinstance(value, type) and "\nArgs:" not in inspect.cleandoc(value.__doc__ or ""):
        return ""
    found = inspect.signature(value)
    text = [_parameter(parameter) for parameter in found.parameters.values()]
    kinds = [parameter.kind for parameter in found.parameters.values()]
    if Kinds.KEYWORD_ONLY in kinds and Kinds.VAR_POSITIONAL not in kinds:
        text.insert(kinds.index(Kinds.KEYWORD_ONLY), "*")
    if Kinds.POSITIONAL_ONLY in kinds:
        text.insert(kinds.count(Kinds.POSITIONAL_ONLY), "/")
    result = _annotation(found.return_annotation)
    return f"({', '.join(text)})" + (f" -> {result}" if result not in ("", "None") else "")


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {Kinds.VAR_POSITIONAL: "*", Kinds.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    annotation = _annotation(parameter.annotation)
    declared = f"{stars}{parameter.name}" + (f": {annotation}" if annotation else "")
    if parameter.default is Kinds.empty:
        return declared
    default = _default(parameter.default)
    return f"{declared} = {default}" if annotation else f"{declared}={default}"


def _default(value: Any) -> str:
    """Return a default value as a program would write it."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, Scalar):
        return f"sg.{value.name}"
    return repr(value) if isinstance(value, PRINTED) else "..."


def _annotation(given: Any) -> str:
    """Return an annotation as the program has it, or "" if it says nothing."""
    text = given if isinstance(given, str) else getattr(given, "__name__", "")
    return "" if text in ("Any", "_empty") else text.strip("'")


def heading(paths: Sequence[str]) -> str:
    """Return the heading of an entry with all names of one object; classes are marked as such."""
    kind = "class " if isinstance(value_of(paths[0]), type) else ""
    return kind + ", ".join(f"sg.{path}" for path in paths)


def anchor(paths: Sequence[str]) -> str:
    """Return the anchor of an entry's heading."""
    return re.sub(r"[^\w -]", "", heading(paths).lower()).replace(" ", "-")


def entry(paths: Sequence[str]) -> str:
    """Return the part of the page about one object."""
    path, value = paths[0], value_of(paths[0])
    text = names.own_text(path, value)
    assert text is not None, path
    called = signature(value) if callable(value) else ""
    head = f"### {heading(paths)}\n\n" + (f"`sg.{path}{called}`\n\n" if called else "")
    methods = list(_methods(value)) if isinstance(value, type) else []
    return head + markdown(text) + ("\n\n*Methods and properties:*\n\n" + "\n".join(methods) if methods else "") + "\n"


def entries(paths: Iterable[str]) -> list[list[str]]:
    """Return the names of a section that have entries, grouped by object."""
    found: dict[int, list[str]] = {}
    for path in paths:
        if not isinstance(value_of(path), IN_TABLES):
            found.setdefault(id(value_of(path)), []).append(path)
    return list(found.values())


def rows(paths: Iterable[str]) -> str:
    """Return the table of a section's names that have no entry."""
    found = [(f"`sg.{path}`", _summary(path, v)) for path in paths if isinstance(v := value_of(path), IN_TABLES)]
    return table(("name", "meaning"), found) if found else ""


def _methods(kind: type) -> Iterator[str]:
    """Return the public methods and properties of a class that have a docstring, with its first paragraph."""
    for name in sorted(dir(kind)):
        found = inspect.getattr_static(kind, name)
        ours = any(name in vars(base) and base.__module__.startswith(sg.__name__) for base in kind.__mro__)
        hidden = name.startswith("_") or issubclass(kind, sg.Tensor) and name not in INTERFACE
        function = isinstance(found, property) or callable(getattr(found, "__func__", found))
        if ours and not hidden and function and not isinstance(found, type) and (text := inspect.getdoc(found)):
            yield f"* `{name}`: {' '.join(text.partition(PARAGRAPH)[0].split())}"


def _interface() -> set[str]:
    """Return the names that every field and ndarray has, as declared for type checkers."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(sg.Tensor) or sg))
    (tensor,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tensor")
    inner = [node for node in ast.walk(tensor) if isinstance(node, (ast.FunctionDef, ast.AnnAssign))]
    return {getattr(node, "name", None) or ast.unparse(getattr(node, "target", node)) for node in inner}


INTERFACE = _interface()


def table(heads: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    """Return a Markdown table of two columns."""
    lines = [f"| {heads[0]} | {heads[1]} |", "|---|---|"]
    return "\n".join([*lines, *(f"| {left} | {right.replace('|', chr(92) + '|')} |" for left, right in rows)]) + "\n"


def scalars() -> str:
    """Return the section on scalar types, each with its long name."""
    homes = names.homes()
    long = {getattr(sg, name): name for name, home in homes.items() if home == ".data.primitive_types"}
    rows = [
        (f"`sg.{name}`, `sg.{long[value]}`" if value in long else f"`sg.{name}`", _summary(name, value))
        for name, home in homes.items()
        if home == ".compiler.ir.types" and (value := getattr(sg, name))
    ]
    said = "As annotations they declare numbers, as arguments the elements of memory; a call converts a number.\n\n"
    return "## Scalar types\n\n" + said + table(("type", "values"), rows)


def _summary(path: str, value: Any) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join((names.own_text(path, value) or "").partition("\n\n")[0].split())


def refused() -> str:
    """Return the section on names that the language refuses."""
    rows = [(f"`sg.{name}`", f"{v.reason}; {v.cure}") for name, v in names.public_names() if names.is_refused(v)]
    said = "Using one of these names raises `sg.Unsupported` with this text and the line of the program.\n\n"
    return "## Refused names\n\n" + said + table(("name", "reason; what to write instead"), rows)


def plain() -> str:
    """Return the section on names that are texts: architectures and levels of the log."""
    levels = [name for name, row in MANUAL.items() if row.parameters is None]
    rows = [(f"`sg.{name}`", _summary(name, value_of(name))) for name in (*names.arches(), *levels, "__version__")]
    return "## Architectures, levels of the log, version\n\n" + table(("name", "meaning"), rows)


def sections() -> Iterator[tuple[str, list[str]]]:
    """Return the titles of the sections, with the names in each that have an entry."""
    homes = names.homes()
    listed = {name for name, _ in names.public_names()}
    for title, rows in SECTIONS.items():
        yield title, [name for name, row in rows.items() if row.parameters is not None]
    for title, modules in TOPICS.items():
        extra = ["func"] if title == "Kernels" else []
        yield title, extra + [name for name, home in homes.items() if home in modules and name in listed]
    for module in MODULES:
        own = [name for name in names.module_of(module).__all__ if not _stands_elsewhere(module, name)]
        yield f"`sg.{module}`", [f"{module}.{name}" for name in own]


def _stands_elsewhere(module: str, name: str) -> bool:
    """Return True if the package has a module's object under the same name."""
    value = getattr(names.module_of(module), name)
    return getattr(sg, name, None) is value or name == "primitive_types" or names.is_refused(value)


def value_of(path: str) -> Any:
    """Return the object that a public name denotes."""
    module, _, name = path.rpartition(".")
    return getattr(names.module_of(module) if module else sg, name)


def text() -> str:
    """Return the text of the page."""
    parts = [HEAD, index(), scalars(), plain()]
    for title, paths in sections():
        module = title.strip("`").removeprefix("sg.")
        parts.append(f"## {title}\n")
        if module in MODULES:
            parts.append(markdown(inspect.getdoc(names.module_of(module)) or "") + "\n")
            parts.append(also(module))
        parts += [rows(paths), *map(entry, entries(paths))]
    return "\n".join(filter(None, [*parts, refused()]))


def also(module: str) -> str:
    """Return a line on the names of a module that are also names of the package."""
    found = names.module_of(module)
    shared = [f"`{name}`" for name in found.__all__ if getattr(sg, name, None) is getattr(found, name)]
    return f"Also names of this module, as of `sg` itself: {', '.join(shared)}.\n" if shared else ""


def index() -> str:
    """Return links to all entries, by section."""
    lines = [
        "## All names\n",
        "[Scalar types](#scalar-types), [architectures, levels of the log](#architectures-levels-of-the-log-version),"
        " [refused names](#refused-names)\n",
    ]
    for title, paths in sections():
        if not paths:
            continue
        links = [f"[{path.rpartition('.')[2]}](#{anchor(group)})" for group in entries(paths) for path in group]
        others = [path.rpartition(".")[2] for path in paths if isinstance(value_of(path), IN_TABLES)]
        lines.append(f"**{title}**: {', '.join(links + others)}\n")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
