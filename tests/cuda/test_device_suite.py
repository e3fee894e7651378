"""The tests of the CPU, on a GPU: marked `cuda`. A small part of them runs on the emulated device everywhere."""

from __future__ import annotations

import re

import pytest
from device_suite import NOT_ON_A_DEVICE, TESTS, parts, run

PARTS = list(parts())
EMULATED = (
    ("statements/*.kir", "cuda-emulated", "adstack or for.kir or scope"),
    ("kernels/test_results.py", "cuda-emulated-few", ""),
)
"""(part, executor, which of its tests)."""


@pytest.mark.cuda
@pytest.mark.parametrize("part", PARTS)
def test_on_the_device(part: str) -> None:
    made = run(part, "cuda")
    assert made.returncode == 0, made.stdout[-4000:] + made.stderr[-2000:]


@pytest.mark.rotating
@pytest.mark.parametrize(("part", "executor", "which"), EMULATED)
def test_on_the_emulated_device(part: str, executor: str, which: str) -> None:
    made = run(part, executor, ("-k", which) if which else ())
    assert made.returncode == 0, made.stdout[-4000:] + made.stderr[-2000:]
    assert re.search(r"[1-9]\d* passed", made.stdout), made.stdout


def test_what_is_left_out_exists() -> None:
    for name, reason in NOT_ON_A_DEVICE.items():
        assert (TESTS / name.split("::")[0]).exists(), f"{name} is not there ({reason})"
