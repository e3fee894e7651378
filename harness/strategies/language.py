"""NOT_DRAWN: what the kernel language has and random programs never contain, each with its reason.

Everything else must occur; tests/quality compares with the tables of the frontend.
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
    "grouped": "makes index vectors, and random programs are of scalars",
    "zero": "the constant 0 of a type, which casts of literals draw",
    "one": "the constant 1 of a type, which casts of literals draw",
    "randn": "written with `random`, `log`, `sqrt` and `cos`, which are drawn",
    "atomic_exchange": "what it leaves depends on the order of iterations, and has no gradient",
    "stop_grad": "changes a derivative that differences of values are the oracle of",
    "List": "makes the entries of vectors, and random programs are of scalars",
    "ListComp": "makes the entries of vectors, and random programs are of scalars",
    "GeneratorExp": "makes the entries of vectors, and random programs are of scalars",
}
"""By the name of a function, or of a class of syntax tree."""


def language_of(program: Program) -> set[str]:
    """Classes of syntax tree and functions of the language that occur in the text of a program."""
    text = definitions(program)
    found = {type(node).__name__ for node in ast.walk(ast.parse(text))}
    found |= set(re.findall(r"\bsg\.(\w+)", text))
    return found | set(re.findall(r"\b(abs|min|max|round)\(", text))


def language_drawn(programs: Iterable[Program]) -> set[str]:
    """What occurs in any of these programs."""
    found: set[str] = set()
    for program in programs:
        found |= language_of(program)
    return found
