"""A closed table: a mapping whose key set is fixed, so that a hole is a failing check and not a surprise.

Every layer that gives meaning to operations or statements keeps its rows in one of these; a test walks all of
them and compares with the keys that exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

TABLES: list[Table[Any, Any]] = []


class Table(Generic[K, V]):
    """Rows keyed by `keys` alone. `holes` declares missing rows, each with its reason."""

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
        return self._rows.get(key)

    def update(self, rows: dict[K, V]) -> None:
        for key, row in rows.items():
            self[key] = row

    def row(self, *keys: K) -> Callable[[V], V]:
        """Decorator form: `@TABLE.row("sin")` above a function, or a class for statements."""

        def add(value: V) -> V:
            for key in keys:
                self[key] = value
            return value

        return add

    def missing(self) -> list[K]:
        """Keys with neither a row nor a declared hole."""
        return [k for k in self.keys if k not in self._rows and k not in self.holes]
