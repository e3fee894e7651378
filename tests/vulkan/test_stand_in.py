"""Tests that were written for the CPU, on Vulkan in its place: a small part of them here.

All of them: STACKGRAD_STAND_IN=vulkan pytest tests/conformance tests/shapes tests/vectors
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from stackgrad.backends.vulkan.backend import VulkanBackend

TESTS = Path(__file__).parents[1]
PARTS = (("conformance", "3/16"), ("shapes/test_shapes.py", "7/60"), ("vectors", "5/40"))
"""(folder or file, which of its tests)."""


@pytest.mark.rotating
@pytest.mark.parametrize(("path", "part"), PARTS)
def test_in_the_place_of_the_cpu(vulkan: VulkanBackend, path: str, part: str) -> None:
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "--part", part]
    command = [sys.executable, "-m", "pytest", str(TESTS / path), *options]
    settings = {**os.environ, "STACKGRAD_STAND_IN": "vulkan"}
    made = subprocess.run(command, cwd=TESTS.parent, env=settings, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout[-4000:] + made.stderr[-2000:]
    assert re.search(r"[1-9]\d* passed|^\.+ ", made.stdout, re.MULTILINE), made.stdout
