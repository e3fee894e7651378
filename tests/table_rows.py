"""Run one test for all rows of a table of parameters.

`pytest.mark.parametrize` makes a test of each row, which costs a few milliseconds in each process even where the row
takes microseconds. `each_row` has the same form and executes all rows in one test; all rows that fail are reported.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import Any

Test = Callable[..., None]


def each_row(
    names: str | tuple[str, ...], rows: Iterable[Any], ids: Callable[[Any], str] | Iterable[str] | None = None
) -> Callable[[Test], Test]:
    """Return a decorator that calls a test with each row, after which it raises the failures of all of them.

    Decorators may stand above each other, for all combinations of rows. The test takes no fixtures.

    Args:
        names: names of the parameters, as a tuple or separated by commas.
        rows: a value, or a tuple of values, for the parameters.
        ids: for compatibility with `parametrize`; reports show the values themselves.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [tuple(row) if len(keys) > 1 else (row,) for row in rows]

    def decorate(test: Test) -> Test:
        def run(**others: Any) -> None:
            failed = [text for row in table if (text := _failure(test, dict(zip(keys, row, strict=True)), others))]
            if failed:
                raise AssertionError(f"{len(failed)} of {len(table)} rows of {test.__name__}:\n" + "\n".join(failed))

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return decorate


def _failure(test: Test, row: dict[str, Any], others: dict[str, Any]) -> str:
    """Return the message of a test that fails for a row, or an empty text if it passes."""
    try:
        test(**row, **others)
    except Exception as problem:
        said = "".join(traceback.format_exception(problem)[-3:])
        return ", ".join(f"{name}={value!r}"[:200] for name, value in row.items()) + "\n" + said
    return ""
