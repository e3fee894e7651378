"""Collects .kir files; the plugin of the harness chooses backends and prints the matrix of backends and outcomes."""
from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ["STACKGRAD_CACHE"] = "0"  # here and in processes that tests start; those about the cache turn it on

pytest_plugins = ["stackgrad.harness.plugin", "pytester"]

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)  # at the end: the folders of tests shadow nothing

_FOLDERS = ("ops", "statements", "invalid", "ad")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".kir" or file_path.parent.name not in _FOLDERS or str(file_path.parent.parent) != _HERE:
        return None
    import run_kir  # here, so that a run without .kir files loads no compiler

    return run_kir.KirFile.from_parent(parent, path=file_path)
