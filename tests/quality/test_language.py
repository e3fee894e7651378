"""Test that random programs contain the whole language: all that the frontend handles, except for NOT_DRAWN."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest
from stackgrad.compiler.frontend import branches, loops, mathematics, statements, trace, type_inference  # noqa: F401
from stackgrad.compiler.frontend.constructors import SHAPED
from stackgrad.compiler.frontend.context import EXPRESSIONS, STATEMENTS
from stackgrad.compiler.frontend.functions import EXPORTS
from stackgrad.compiler.frontend.matrices import METHODS
from stackgrad.compiler.frontend.refused_names import refusal_of
from stackgrad.harness.tools.strategies import sample
from stackgrad.harness.tools.strategies.language import NOT_DRAWN, language_drawn, language_of

FORMS = frozenset({"MatMult", "Slice", "Vector", "Matrix", "Struct", "fill"})
"""What is no row of a table: the frontend tells it by its parts."""
TABLES = (EXPRESSIONS, STATEMENTS, type_inference.BINARY, type_inference.COMPARE, type_inference.UNARY)
SEEDS, BATCH = 4000, 200


def taken(table: Mapping[type, object]) -> set[str]:
    """Return the syntax tree classes that a table handles without refusing them."""
    return {key.__name__ for key in table if getattr(table[key], "__name__", "") != "refuse"}


def language() -> set[str]:
    """Return the names of everything that programs could contain."""
    names = {name for name, what in EXPORTS.items() if callable(what) and refusal_of(name) is None}
    return names.union(*map(taken, TABLES), METHODS, SHAPED, FORMS)


@cache
def drawn() -> frozenset[str]:
    """Return what drawn programs contain; programs are drawn until they contain the whole language, or to a limit."""
    found: set[str] = set()
    for first in range(0, SEEDS, BATCH):
        found |= language_drawn(map(sample, range(first, first + BATCH)))
        if language() - set(NOT_DRAWN) <= found:
            break
    return frozenset(found)


def test_the_tables_are_known() -> None:
    assert {"IfExp", "While", "FloorDiv", "GtE", "Invert", "atomic_xor", "func", "normalized", "one"} <= language()
    assert not {"Lambda", "Try", "Is"} & language()


@pytest.mark.parametrize("name", sorted(language() - set(NOT_DRAWN)))
def test_is_drawn(name: str) -> None:
    assert name in drawn(), f"no program of {SEEDS} contains {name}: let the model draw it, or declare it in NOT_DRAWN"


@pytest.mark.parametrize("name", sorted(NOT_DRAWN))
def test_exceptions_are_exceptions(name: str) -> None:
    assert name in language() and name not in drawn() and len(NOT_DRAWN[name]) > 20


def test_what_is_not_there_is_not_found() -> None:
    assert "While" not in language_of(sample(1)) or "For" in language_of(sample(1))
    assert "Lambda" not in drawn()
