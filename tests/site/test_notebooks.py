"""Notebooks are executed, and show what their files keep; nbclient, which does it, comes with the extra `notebook`.

The row `docs` of ci/matrix.toml runs these tests, and elsewhere they are skipped where nbclient is absent.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import notebooks
import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import browser  # noqa: E402

PATHS = notebooks.paths()


@pytest.fixture(autouse=True)
def _nbclient() -> None:
    missing = [name for name in ("nbclient", "ipykernel", "matplotlib") if find_spec(name) is None]
    browser.require("nbclient", not missing, f"not installed: {', '.join(missing)} (extra `notebook`)")


def one_cell(source: str) -> notebooks.Notebook:
    return notebooks.neutral({"cells": [{"cell_type": "code", "source": source, "outputs": []}]})


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_its_file_keeps(path: Path) -> None:
    kept = notebooks.read(path)
    wrong = notebooks.stale(kept, notebooks.executed(kept))
    assert wrong == [], "stale: run python ci/notebooks.py"


def test_there_is_a_notebook() -> None:
    assert "first_gradient" in [path.stem for path in PATHS]


def test_a_cell_that_fails_is_noticed() -> None:
    from nbclient.exceptions import CellExecutionError

    with pytest.raises(CellExecutionError, match="AssertionError.*: one is not two"):
        notebooks.executed(one_cell("assert 1 == 2, 'one is not two'"))


def test_a_stale_output_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(notebooks.text_of(one_cell("print(6 * 7)")), encoding="utf-8")
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path)
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    before = path.read_text(encoding="utf-8")
    assert notebooks.main(["--check"]) == 1 and path.read_text(encoding="utf-8") == before
    assert notebooks.main([]) == 0 and "42" in path.read_text(encoding="utf-8")
    assert notebooks.main(["--check"]) == 0
