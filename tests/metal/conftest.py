"""Provide the translator to Metal, or skip the test."""

from __future__ import annotations

import shutil

import pytest
from metal_support import Make
from stackgrad.backends.base import Options
from stackgrad.backends.metal.program import program
from stackgrad.backends.metal.translate import CURE, PROGRAM
from stackgrad.compiler.ir.parser import parse_kernel


@pytest.fixture(scope="session")
def translator() -> None:
    """Return the translator; skip on a machine without SPIRV-Cross."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not installed; cure: {CURE}")


@pytest.fixture(scope="session")
def make(translator: None) -> Make:
    """Return a function that makes the Metal program of a kernel given as text."""
    return lambda text: program(parse_kernel(text), Options())
