"""Collects .kir files; the plugin of the harness chooses backends and prints the matrix of backends and outcomes."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ["STACKGRAD_CACHE"] = "0"  # here and in processes that tests start; those about the cache turn it on

pytest_plugins = ["stackgrad.harness.testing.plugin", "pytester"]

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)  # at the end: the folders of tests shadow nothing

import effort  # noqa: E402
import processor_time  # noqa: E402
import rotation  # noqa: E402
import stand_in  # noqa: E402

_FOLDERS = ("ops", "statements", "invalid", "ad")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="", metavar="K/N", help="run every N-th test from number K on")
    text = "write the processor seconds of each test to this file, and show the most expensive folders and families"
    parser.addoption("--cost", default="", metavar="FILE", help=text)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[Any]:
    """Exempt the modules and tests collected so far from garbage collection, because they live to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


_SETTLED = 50
"""Number of tests after which a process moves what has survived out of the garbage collector's sight."""
_ended = 0


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Keep the garbage collector from looking at what tests leave behind, such as kernels that families share.

    A process keeps millions of objects after some thousand tests. A full collection, which tests of lifetimes ask for
    and Python starts by itself, would take a second.
    """
    global _ended
    _ended += 1
    if _ended % _SETTLED == 0:
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the rotating tests that another day runs."""
    rotation.deselect(config, items)
    if config.getoption("--part"):
        first, step = map(int, config.getoption("--part").split("/"))
        config.hook.pytest_deselected(items=[item for k, item in enumerate(items) if k % step != first])
        items[:] = items[first::step]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cuda: runs on an NVIDIA GPU; skipped, with the reason, where there is none")
    config.addinivalue_line("markers", "rotating: one in eight of a large family runs, see tests/rotation.py")
    config.addinivalue_line("markers", "expensive: takes seconds and runs on one day of eight, see tests/rotation.py")
    config.addinivalue_line("markers", "optimized: LLVM optimizes its code in every run, see tests/effort.py")
    rotation.settle()
    effort.settle()
    config.pluginmanager.register(effort)
    if config.getoption("--cost"):
        config.pluginmanager.register(processor_time.Meter(Path(config.getoption("--cost"))))
    if stand_in.NAME:
        emulator = stand_in.install()
        if emulator is not None:
            config.pluginmanager.register(stand_in.Awaited(emulator))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how this run can be repeated on another day."""
    terminalreporter.write_line(f"{rotation.VARIABLE}={os.environ[rotation.VARIABLE]} executes these tests again")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked `cuda` if there is no device."""
    if item.get_closest_marker("cuda") is None:
        return
    from stackgrad.backends import registry

    probe = registry.probe_all()["cuda"]
    if not probe.available:
        pytest.skip(f"{probe.reason}; {probe.cure}")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix != ".kir" or file_path.parent.name not in _FOLDERS or str(file_path.parent.parent) != _HERE:
        return None
    import run_kir  # here, so that a run without .kir files loads no compiler

    return run_kir.KirFile.from_parent(parent, path=file_path)
