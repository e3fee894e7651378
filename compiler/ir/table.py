"""This module defines the closed table: a mapping with a fixed set of keys, in which a missing entry fails a check.

Every layer that gives a meaning to operations or statements keeps its entries in a closed table. A test compares the
keys of all tables with the operations and statements that exist; docs/recipes.md lists the tables, and `stackgrad
new-op` writes an entry in each table of operations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NoReturn, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")

TABLES: list[Table[Any, Any]] = []


class Table(Generic[K, V]):
    """A `Table` maps each key of a fixed set to an entry. A key without an entry must be declared, with a reason.

    Attributes:
        name: name of the table in messages.
        keys: keys that an entry may have, such as all operations.
        holes: for each key that has no entry on purpose, the reason.
        about: text of one line that says what an entry tells about its key.
        module: name of the module that makes the table.
        optional: text that says what holds for a key without an entry; empty if each key needs an entry or a reason.
        unwritten_at: file and line of each entry that is still to be written.
        blank: Python text of an entry that is to be written, where `{todo}` stands for `unwritten(key)` and `{arity}`
            for the number of operands.
    """

    def __init__(
        self,
        name: str,
        keys: Iterable[K],
        holes: dict[K, str] | None = None,
        *,
        about: str,
        optional: str = "",
        blank: str = "{todo}",
        derive: Callable[[K], str] | None = None,
    ) -> None:
        """Create a table without entries for the given keys, and add it to the list of all tables.

        Args:
            name: name of the table in messages.
            keys: keys that an entry may have, such as all operations.
            holes: for each key that has no entry on purpose, the reason.
            about: text of one line that says what an entry tells about its key.
            optional: text that says what holds for a key without an entry.
            blank: Python text of an entry that is still to be written.
            derive: function that says from what the entry of a key is derived, or "" if somebody must write it.
        """
        self.name = name
        self.keys = tuple(keys)
        self.holes = dict(holes or {})
        self.about = about
        self.module: str = sys._getframe(1).f_globals["__name__"]
        self.optional = optional
        self.blank = blank
        self._derive = derive
        self.unwritten_at: dict[K, str] = {}
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

    @overload
    def get(self, key: K) -> V | None: ...

    @overload
    def get(self, key: K, default: V) -> V: ...

    def get(self, key: K, default: V | None = None) -> V | None:
        """Return the entry of a key, or `default` if the key has no entry."""
        return self._rows.get(key, default)

    def update(self, rows: dict[K, V]) -> None:
        """Add entries; raise KeyError if a key is unknown, has an entry already, or is declared to have none."""
        for key, row in rows.items():
            self[key] = row

    def row(self, *keys: K) -> Callable[[V], V]:
        """Return a decorator that registers a function as the entry of the keys: `@TABLE.row("sin")`."""

        def add(value: V) -> V:
            for key in keys:
                self[key] = value
            return value

        return add

    def derived(self, key: K) -> str:
        """Return a text that names the source of a derived table entry, or "" if the entry must be written by hand."""
        return self._derive(key) if self._derive else ""

    def unwritten(self, key: K) -> Callable[..., NoReturn]:
        """Return a placeholder function for a table entry that has not been written yet.

        Calling the function raises NotImplementedError with file and line of the entry; `missing` counts it as missing.
        """
        frame = sys._getframe(1)
        place = self.unwritten_at[key] = f"{frame.f_code.co_filename}:{frame.f_lineno}"

        def todo(*args: Any, **options: Any) -> NoReturn:
            raise NotImplementedError(f"table {self.name}: the row of {key!r} is not written yet: {place}")

        return todo

    def missing(self) -> list[K]:
        """Return the keys that have neither a written entry nor a declared reason to have none."""
        complete = self._rows.keys() | self.holes.keys() if not self.optional else self.keys
        return [k for k in self.keys if k not in complete or k in self.unwritten_at]
