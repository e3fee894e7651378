"""Test that docs/sizing_paths.md agrees with launches on each available backend, and has no empty cell."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import sizing_page as page  # noqa: E402
from sizing_kernels import PROGRAMS  # noqa: E402
from stackgrad.backends import registry  # noqa: E402
from stackgrad.backends.launching.prelaunch import CountingLaunch  # noqa: E402

PATHS = [str(make.__doc__) for make in PROGRAMS]


@pytest.fixture(params=page.COLUMNS, ids=lambda column: column.name)
def column(request: pytest.FixtureRequest) -> page.Column:
    """A backend; those of Vulkan only where there is a device."""
    found: page.Column = request.param
    probe = registry.probe_all()["vulkan"]
    if found.arch == "vulkan" and not probe.available:
        pytest.skip(f"vulkan: {probe.reason}; cure: {probe.cure}")
    return found


@pytest.mark.rotating
def test_the_page_is_current(column: page.Column) -> None:
    """Cell by cell. A launch like the one before, on arrays of the device alone, copies and waits for nothing."""
    found = page.measured(column)
    shown = page.read(page.PAGE.read_text(encoding="utf-8"))
    made = page.cells({column.name: found})
    wrong = {
        (phase, path): (shown[phase][path][column.name], row[column.name])
        for phase, rows in made.items()
        for path, row in rows.items()
        if path in shown[phase] and shown[phase][path][column.name] != row[column.name]
    }
    assert not wrong, f"docs/sizing_paths.md is stale (shown, found): {wrong}; run python tests/docs/sizing_page.py"
    if column.name != "descriptors":
        steady = [costs["again"] for costs in found.values()]
        idle = [c for c in steady if c is not None and c.source == "cached"]
        assert len(idle) >= 10 and not any(c.waits or c.launch_waits or c.launch_bytes for c in idle)


def test_every_path_has_its_rows() -> None:
    shown = page.read(page.PAGE.read_text(encoding="utf-8"))
    unchanged = {str(make.__doc__) for make in PROGRAMS if make.__name__ in ("by_constant", "by_triangle")}
    assert [list(shown[phase]) for phase in ("first", "again")] == [PATHS, PATHS]
    assert list(shown["changed"]) == [path for path in PATHS if path not in unchanged]
    assert all(len(row) == len(page.COLUMNS) and all(row.values()) for rows in shown.values() for row in rows.values())
    assert {column.arch for column in page.COLUMNS} >= set(registry.BACKENDS) - {"metal"}, "which launches nothing"


def test_what_the_page_is_made_of_is_what_is_read() -> None:
    """So that the comparison above looks at all cells, and the rest of the page is what the module says."""
    text = page.PAGE.read_text(encoding="utf-8")
    shown = page.read(text)
    none = dict.fromkeys((column.name for column in page.COLUMNS), page.NO_CHANGE)
    full = {phase: {path: shown[phase].get(path, none) for path in PATHS} for phase in page.PHASES}
    assert page.text(full) == text


def test_bytes_are_counted_where_they_are_moved() -> None:
    """Of a look, or of the launch itself."""
    with page.metered(None) as meter:
        counting = object.__new__(CountingLaunch)
        counting.backend = registry.get("reference")
        meter.looking = True
        counting.copy(np.zeros(3, np.int64))
        meter.looking = False
        counting.copy(np.zeros(2, np.int64))
    assert (meter.duplicated, meter.launches) == (24, 16)
    cost = page.Cost("counted", 2, 40, 8, 24)
    assert str(cost) == "counted, 2 waits, 40 B to device, 8 B to host, 24 B duplicated"
