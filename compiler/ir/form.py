"""The text forms of statements, split once into tokens that printer and parser share.

A form is literal words and punctuation, `{field}` placeholders, and `<...>` groups that appear only if the last
field of the group is not at its default.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields
from functools import cache

from .nodes import ROLES, STATEMENTS, Stmt

_TOKEN = re.compile(r"\{(\w+)\}|[A-Za-z_]\w*|\.\.|\S")

QUOTED = frozenset({"message", "template"})
"""Attributes printed as string literals; all other strings are bare names."""


@dataclass(frozen=True)
class Word:
    """A literal word or punctuation mark."""

    text: str


@dataclass(frozen=True)
class Hole:
    """A field. role: result, operand, block or attribute. many: a tuple of values."""

    field: str
    role: str
    many: bool


@dataclass(frozen=True)
class Group:
    """Tokens that appear together, or not at all when the last hole holds `default`."""

    tokens: tuple[Word | Hole, ...]
    hole: Hole
    default: object


Token = Word | Hole | Group


def _hole(cls: type[Stmt], name: str) -> Hole:
    role = dict(ROLES[cls]).get(name, "attribute")
    annotation = {f.name: str(f.type) for f in fields(cls)}[name]
    return Hole(name, role, role == "operand" and annotation.startswith("tuple"))


def _default(cls: type[Stmt], name: str) -> object:
    found = next(f for f in fields(cls) if f.name == name)
    return None if found.default is MISSING else found.default


def tokens(cls: type[Stmt]) -> tuple[Token, ...]:
    """The form of a statement class as tokens."""
    return _split(cls)  # type: ignore[arg-type]  # the checker takes the hash of instances for that of the class


@cache
def _split(cls: type[Stmt]) -> tuple[Token, ...]:
    out: list[Token] = []
    group: list[Word | Hole] | None = None
    for match in _TOKEN.finditer(cls.FORM):
        text, name = match.group(0), match.group(1)
        if text == "<":
            group = []
        elif text == ">" and group is not None:
            last = next(t for t in reversed(group) if isinstance(t, Hole))
            out.append(Group(tuple(group), last, _default(cls, last.field)))
            group = None
        else:
            token: Word | Hole = _hole(cls, name) if name else Word(text)
            (out if group is None else group).append(token)
    return tuple(out)


@cache
def keywords() -> dict[str, type[Stmt]]:
    """The first literal word of each form; the form of Op starts with the operation's own name instead."""
    found = {}
    for cls in STATEMENTS.values():
        words = [t.text for t in tokens(cls) if isinstance(t, Word) and t.text.isidentifier()]
        if words:
            found[words[0]] = cls
    return found
