"""This module splits the text template of each statement class into tokens, which printer and parser share.

A form consists of literal words and punctuation, `{field}` placeholders, and `<...>` groups that appear only if the
last field of the group does not have its default value.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields
from functools import cache

from .nodes import ROLES, STATEMENTS
from .statement import Stmt

_TOKEN = re.compile(r"\{(\w+)\}|[A-Za-z_]\w*|\.\.|\S")

QUOTED = frozenset({"message", "template"})
"""These attributes are printed as string literals; all other strings are bare names."""


@dataclass(frozen=True)
class LiteralToken:
    """A `LiteralToken` is a literal word or punctuation mark in the text template of a statement class."""

    text: str


@dataclass(frozen=True)
class FieldToken:
    """A `FieldToken` is the placeholder of one dataclass attribute in the text template of a statement class.

    Attributes:
        field: name of the field.
        role: result, operand, block or attribute.
        many: True if the field holds a tuple of values.
    """

    field: str
    role: str
    many: bool


@dataclass(frozen=True)
class OptionalGroup:
    """An `OptionalGroup` is a sequence of tokens that is left out if its last placeholder has the default value.

    Attributes:
        tokens: tokens that appear together.
        hole: last placeholder of the group.
        default: value of the attribute of this placeholder for which the group is left out.
    """

    tokens: tuple[LiteralToken | FieldToken, ...]
    hole: FieldToken
    default: object


Token = LiteralToken | FieldToken | OptionalGroup


def _hole(cls: type[Stmt], name: str) -> FieldToken:
    """Return the placeholder of a statement class's attribute, for the text template of this class."""
    role = dict(ROLES[cls]).get(name, "attribute")
    annotation = {f.name: str(f.type) for f in fields(cls)}[name]
    return FieldToken(name, role, role == "operand" and annotation.startswith("tuple"))


def _default(cls: type[Stmt], name: str) -> object:
    """Return the default of an attribute of a statement class, or None if the attribute has no default."""
    found = next(f for f in fields(cls) if f.name == name)
    return None if found.default is MISSING else found.default


def tokens(cls: type[Stmt]) -> tuple[Token, ...]:
    """Return the text template of a statement class as tokens."""
    return _split(cls)  # type: ignore[arg-type]  # the checker takes the hash of instances for that of the class


@cache
def _split(cls: type[Stmt]) -> tuple[Token, ...]:
    out: list[Token] = []
    group: list[LiteralToken | FieldToken] | None = None
    for match in _TOKEN.finditer(cls.FORM):
        text, name = match.group(0), match.group(1)
        if text == "<":
            group = []
        elif text == ">" and group is not None:
            last = next(t for t in reversed(group) if isinstance(t, FieldToken))
            out.append(OptionalGroup(tuple(group), last, _default(cls, last.field)))
            group = None
        else:
            token: LiteralToken | FieldToken = _hole(cls, name) if name else LiteralToken(text)
            (out if group is None else group).append(token)
    return tuple(out)


@cache
def keywords() -> dict[str, type[Stmt]]:
    """Return the statement classes by the first literal word of their text template.

    `Op` has no entry, because its form starts with the name of the operation.
    """
    found = {}
    for cls in STATEMENTS.values():
        words = [t.text for t in tokens(cls) if isinstance(t, LiteralToken) and t.text.isidentifier()]
        if words:
            found[words[0]] = cls
    return found
