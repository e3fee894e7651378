"""Choose the tests whose machine code LLVM optimizes in this run.

LLVM takes a third of the time of tests that compile on the CPU. Tests in FOLDERS judge the meaning of a kernel and its
gradient, which does not depend on LLVM. So in one run a quarter of them, another quarter each day, gets machine code of
optimization effort 2, as users get it, and the others get effort 0. With STACKGRAD_TESTS=all, as in every row of
ci/matrix.toml, all tests have effort 2. So have, in each run, tests marked `optimized`, whose loops are long, all tests
of other folders, such as those of backends and of the runtime, and the processes that tests start.

Lavapipe, the Vulkan device on the CPU, spends most of the time of small shaders in its own LLVM. It has one effort for
a whole process: its full one with STACKGRAD_TESTS=all, and none in other runs.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
import rotation

FOLDERS = frozenset(
    "ad ad_api conformance dialect errors examples kernels ops oracles relations shapes statements vectors".split()
)
QUARTERS = rotation.TURNS // rotation.PARTS
MARK = "optimized"
MODULE = "stackgrad.backends.host.jit"
LAVAPIPE = "GALLIVM_PERF"
"""Variable that Mesa reads when it makes its first device; `nopt` leaves out the passes of LLVM."""


def unit_of(item: pytest.Item) -> str:
    """Return the unit that has one effort: a .kir file, whose checks share compiled kernels, or a single test."""
    return item.path.name if item.path.suffix == ".kir" else item.nodeid


def is_full(name: str, turn: int | None) -> bool:
    """Return True if LLVM optimizes the code of a unit on day number `turn`.

    Rotating tests run on one day of eight. The optimized quarter moves by one more step after each eight days, so that
    these tests run with full effort, too, on one of 32 days.
    """
    if turn is None:
        return True
    step = turn + turn // rotation.PARTS
    return zlib.crc32(name.encode()) // rotation.PARTS % QUARTERS == step % QUARTERS


def settle(environment: MutableMapping[str, str] = os.environ) -> None:
    """Tell lavapipe in this process and its children its effort, unless the user has told it something else."""
    if rotation.turn() is not None:
        environment.setdefault(LAVAPIPE, "nopt")


@contextmanager
def without_optimizing() -> Iterator[None]:
    """Make machine code of the CPU at effort 0 in this process, whatever the options ask for."""
    jit: Any = import_module(MODULE)
    emit: Callable[[Any, int], bytes] = jit._image
    jit._image = lambda generated, effort: emit(generated, 0)
    try:
        yield
    finally:
        jit._image = emit


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Run a test, with its fixtures, at its effort."""
    fixed = item.path.parent.name not in FOLDERS or item.get_closest_marker(MARK)
    if fixed or is_full(unit_of(item), rotation.turn()):
        return (yield)
    with without_optimizing():
        return (yield)
