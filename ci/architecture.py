"""This script writes ARCHITECTURE.md from the import rules, the docstrings of packages, and the lists of passes.

Run `python ci/architecture.py`. Everything on the page is taken from the code, or ensured by a test that the page
names; tests/docs/test_architecture.py fails when the page is stale.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"

HEAD = """# Architecture

`python ci/architecture.py` writes this page from the code. [CONTRIBUTING.md](CONTRIBUTING.md) says how to change the
code, [docs/index.md](docs/index.md) lists all pages, [docs/glossary.md](docs/glossary.md) has the words, and
[docs/teaching/reverse_mode.py](docs/teaching/reverse_mode.py) shows the central transform in 300 lines that run.
"""

LAYERS = """
## Layers

A package imports what stands below it. `|` parts packages that know nothing of each other. `ci/contracts.toml` has the
rules, for imports of type checkers too, and import-linter checks them.

"""

WAY = """
## The way of a kernel

"""

PACKAGES = """
## Packages

Read them in this order. The sentence of a package is that of its docstring; each of its modules begins with one, too.

| package | what it is | page |
| --- | --- | --- |
"""

PROMISES = """
## What holds everywhere

| promise | held by |
| --- | --- |
"""

TAIL = """
How to add an operation, a statement, a pass or a backend: [docs/recipes.md](docs/recipes.md), made from the tables.
"""

READING_ORDER: dict[str, str] = {
    "compiler/ir": "ir",
    "reference": "ir",
    "compiler/frontend": "dialect",
    "compiler/frontend/manual": "reference",
    "compiler/analysis": "bounds",
    "compiler/passes": "",
    "compiler/ad": "reverse_mode",
    "compiler/sizing": "sizing",
    "backends": "support",
    "backends/launching": "heap",
    "backends/codegen": "",
    "backends/llvm": "",
    "backends/llvm/branching": "",
    "backends/llvm/masked": "decisions/0008-lanes-on-cpu",
    "backends/spirv": "vulkan",
    "backends/host": "decisions/0007-launches",
    "backends/device": "heap",
    "backends/cpu": "threads",
    "backends/cuda": "cuda",
    "backends/vulkan": "vulkan",
    "backends/metal": "metal",
    "src/stackgrad": "",
    "src/stackgrad/runtime": "",
    "src/stackgrad/data": "",
    "src/stackgrad/launch": "decisions/0007-launches",
    "src/stackgrad/autodiff": "autodiff",
    "src/stackgrad/interop": "",
    "src/stackgrad/compat": "migrating",
    "src/stackgrad/compat/algorithms": "migrating",
    "src/stackgrad/compat/children": "migrating",
    "src/stackgrad/compat/simt": "blocks",
    "src/stackgrad/cli": "diagnosis",
    "harness/testing": "harness",
    "harness/tools": "harness",
    "harness/compat": "genesis",
}
"""The packages in the order in which to read them, each with the page of docs/ that explains it."""

HELD: dict[str, str] = {
    "A file has at most 400 lines and a function at most 40; exceptions are listed.": "tests/meta/test_sizes.py",
    "An import of the package loads neither llvmlite nor JAX.": "tests/meta/test_imports.py",
    "A table of operations or statements has a row for each, or a reason why not.": "tests/meta/test_tables.py",
    "State of a module that changes is listed with its reason.": "tests/meta/test_module_state.py",
    "No tolerance of a test is chosen by hand.": "tests/meta/test_tolerances.py",
    "What a page names exists.": "tests/docs/test_names.py",
    "Every error that speaks of a kernel has a file, a line, a caret, a reason and a cure.": "tests/errors",
    "A move of files changes no generated code.": "ci/golden.sh",
}
"""Promises, each with the test or the script that holds it."""


def layers(contract: str) -> list[str]:
    """Return the layers of packages that an import rule in ci/contracts.toml names, from top to bottom."""
    with (ROOT / "ci/contracts.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return list(next(c["layers"] for c in contracts if c["id"] == contract))


def drawing() -> Iterator[str]:
    """Yield the lines of the layer diagram: the packages of each import rule, without their common prefix."""
    width = 100
    for contract, prefix in (
        ("package", "stackgrad."),
        ("harness", "stackgrad."),
        ("backends", "stackgrad.backends."),
        ("compiler", "stackgrad.compiler."),
    ):
        yield f"┌─ {prefix.rstrip('.').removeprefix('stackgrad.')} ".ljust(width - 1, "─") + "┐"
        for layer in layers(contract):
            text = layer.replace(prefix, "").replace(" : ", "  ").replace(" | ", " | ")
            yield f"│ {text}".ljust(width - 1) + "│"
        yield "└".ljust(width - 1, "─") + "┘"


def pipelines() -> dict[str, list[str]]:
    """Return the names of the passes in each list of passes (pipeline) of compiler/driver.py."""
    found: dict[str, list[str]] = {}
    for node in ast.parse((ROOT / "compiler/driver.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.List):
            found[node.target.id] = [name for item in node.value.elts for name in _names(item, found)]
    return found


def _names(item: ast.expr, known: dict[str, list[str]]) -> list[str]:
    """Return the names of the passes that an entry of a list of passes in compiler/driver.py refers to."""
    if isinstance(item, ast.Starred) and isinstance(item.value, ast.Name):
        return [f"{item.value.id.lower()}…"] if item.value.id in known else []
    if isinstance(item, ast.Tuple) and isinstance(item.elts[0], ast.Constant):
        return [str(item.elts[0].value)]
    return []


def way() -> Iterator[str]:
    """Yield the lines of the diagram of all passes that a kernel goes through from Python function to backend."""
    passes = pipelines()

    def steps(name: str) -> list[str]:
        return [f"      {' → '.join(passes[name][k : k + 5])}" for k in range(0, len(passes[name]), 5)]

    yield "Python function ── compiler/frontend ──▶ kernel of stage `source`"
    yield "  │"
    yield "  ├─ forward"
    yield from steps("FORWARD")
    yield "      ──▶ forward kernel ──▶ backend"
    yield "  │"
    yield "  └─ gradient"
    yield from steps("BEFORE_REVERSE")
    yield "      tidy… = " + " → ".join(passes["TIDY"][:3])
    yield "              → " + " → ".join(passes["TIDY"][3:])
    yield "      ── compiler/ad ──▶ grad kernel ──▶ backend"
    yield "                          └─ compiler/sizing ──▶ sizes as expressions, or a counting kernel"
    yield "                             ── backends/launching ──▶ room for the adstacks of each launch"


def summary(package: str) -> str:
    """Return the first sentence of the docstring of a package."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    first = (ast.get_docstring(tree) or "").split("\n\n")[0]
    return " ".join(first.split())


def page() -> str:
    """Return the text of ARCHITECTURE.md."""
    rows = (
        f"| `{package}/` | {summary(package)} | {f'[{name}](docs/{name}.md)' if name else ''} |"
        for package, name in READING_ORDER.items()
    )
    held = (f"| {promise} | `{test}` |" for promise, test in HELD.items())
    fenced = lambda lines: "```\n" + "\n".join(lines) + "\n```\n"  # noqa: E731
    return "".join(
        (
            HEAD,
            LAYERS,
            fenced(drawing()),
            WAY,
            fenced(way()),
            PACKAGES,
            "\n".join(rows) + "\n",
            PROMISES,
            "\n".join(held) + "\n",
            TAIL,
        )
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
