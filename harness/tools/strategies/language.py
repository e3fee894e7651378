"""This module lists the parts of the kernel language that random programs never contain, each with its reason.

Everything else must occur in them; tests/quality compares the list with the tables of the frontend.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from ..model.nodes import Program
from ..model.source import definitions

NOT_DRAWN: dict[str, str] = {
    "static_assert": "decided before the kernel exists: it has no effect on values",
    "static_print": "prints while the kernel is traced: it has no effect on values",
    "With": "holds blocks of a kernel that run in the order of the text, as they do without it",
    "stream_parallel": "holds a block that runs where it stands, as it does without it",
    "graph_parallel": "holds a block that runs where it stands, as it does without it",
    "graph_parallel_context": "holds a block that runs where it stands, as it does without it",
    "graph_do_while": "a `while` at the top of a kernel, with a flag in a field",
    "unit": "a vector of constants, as `Vector([0, 1])` is, which is drawn",
    "diag": "a matrix of its entries, as `Matrix([[a, 0], [0, a]])` is, which is drawn",
    "rows": "a matrix of its entries in order; `Matrix([...])` is drawn",
    "cols": "the transpose of `rows`; `transpose` is drawn",
    "get_shape": "known at compile time: it has no effect on values",
    "matmul": "another name of `@`, which is drawn",
    "fill": "one number for all entries, as a vector annotation makes of a number, which is drawn",
    "assume_in_range": "gives its value, of which it asserts an interval under debug alone",
    "block_local": "a hint that changes no result",
    "cache_read_only": "a hint that changes no result",
    "loop_unique": "gives its value, of which nothing is assumed",
    "Struct": "a struct of a type without a name; structs of types with names are drawn",
}
"""Reasons by the name of a function, or of a class of syntax tree."""


def language_of(program: Program) -> set[str]:
    """Return the classes of syntax tree and functions of the language that occur in the text of a program."""
    text = definitions(program)
    found = {type(node).__name__ for node in ast.walk(ast.parse(text))}
    found |= set(re.findall(r"\bsg\.(\w+)", text)) | set(re.findall(r"\.(\w+)\(", text))
    return found | set(re.findall(r"\b(abs|min|max|round)\(", text))


def language_drawn(programs: Iterable[Program]) -> set[str]:
    """Return the classes of syntax tree and functions of the language that occur in at least one of the programs."""
    found: set[str] = set()
    for program in programs:
        found |= language_of(program)
    return found
