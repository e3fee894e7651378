"""This module defines the closed table: a mapping with a fixed set of keys, in which a missing row fails a check.

Every layer that gives a meaning to operations or statements keeps its rows in a closed table. A test walks all tables
and compares their keys with those that exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

TABLES: list[Table[Any, Any]] = []


class Table(Generic[K, V]):
    """A table maps each key of a fixed set to a row; missing rows must be declared as holes.

    Attributes:
        name: name of the table in messages.
        keys: keys that a row may have.
        holes: reason for each row that is missing on purpose.
    """

    def __init__(self, name: str, keys: Iterable[K], holes: dict[K, str] | None = None) -> None:
        self.name = name
        self.keys = tuple(keys)
        self.holes = dict(holes or {})
        self._rows: dict[K, V] = {}
        TABLES.append(self)

    def __setitem__(self, key: K, row: V) -> None:
        if key not in self.keys:
            raise KeyError(f"table {self.name}: {key!r} is not one of its keys")
        if key in self._rows:
            raise KeyError(f"table {self.name}: {key!r} has a row already")
        if key in self.holes:
            raise KeyError(f"table {self.name}: {key!r} is declared a hole; remove the declaration")
        self._rows[key] = row

    def __getitem__(self, key: K) -> V:
        return self._rows[key]

    def __contains__(self, key: K) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[K]:
        return iter(self._rows)

    def get(self, key: K) -> V | None:
        """Return the row of a key, or None if the key has no row."""
        return self._rows.get(key)

    def update(self, rows: dict[K, V]) -> None:
        """Add rows; raise KeyError if a key is unknown, has a row already, or is declared a hole."""
        for key, row in rows.items():
            self[key] = row

    def row(self, *keys: K) -> Callable[[V], V]:
        """Return a decorator that enters a function as the row of the keys: `@TABLE.row("sin")`."""

        def add(value: V) -> V:
            for key in keys:
                self[key] = value
            return value

        return add

    def missing(self) -> list[K]:
        """Return the keys that have neither a row nor a declared hole."""
        return [k for k in self.keys if k not in self._rows and k not in self.holes]
