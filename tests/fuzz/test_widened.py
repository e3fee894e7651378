"""Masked code on several threads, in small launches: what was decided for the dispatch holds for the tasks too."""

from __future__ import annotations

import numpy as np
import pytest
from stackgrad.backends import registry
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.codegen import sharing
from stackgrad.backends.cpu.backend import CpuExecutable
from stackgrad.backends.llvm import task_threads
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.tools.fuzz.widened_cpu import WidenedCpu

KERNEL = """kernel sums(x: f64[1], z: f64[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2] %4: i32 = const 1 %5: f64 = atomic add z[%4], %3 } }"""


def test_launches_decide_as_compilation_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of tasks is made when a launch asks for it; updates of one thread would be lost on two."""
    seen = []
    run = CpuExecutable.run

    def watched(self: CpuExecutable, *given: object) -> None:
        seen.append((sharing.WORTH, task_threads.ENOUGH))
        run(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(CpuExecutable, "run", watched)
    usual = sharing.WORTH, task_threads.ENOUGH
    made = WidenedCpu(registry.get("cpu"), 4, 2).compile(parse_kernel(KERNEL), Options())
    arrays = {"x": np.ones(6), "z": np.zeros(2)}
    for _ in range(3):
        made.run(arrays, {}, Sizes(), Draws())
    assert seen == [(float("inf"), 0)] * 3
    assert usual == (sharing.WORTH, task_threads.ENOUGH)
    assert arrays["z"].tolist() == [0.0, 18.0]
