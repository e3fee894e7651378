"""This module contains the shared parts of all benchmarks: a fresh runtime, backend skips, ratios of times.

Rules: parameters are literals. They never depend on the measured version, or results could not be compared across
commits. The first value of each parameter is the cheapest. Everything that is compiled, allocated or counted at the
first call happens in `setup`, outside the timed part, unless it is what is measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any, ClassVar

import stackgrad as sg
from stackgrad.compiler.errors import DeviceError, StackgradError

from .workloads import WORKLOADS, Program

os.environ["STACKGRAD_CACHE"] = "0"  # compilation is measured, and nothing of it comes from disk

ARCHES = ("cpu", "cuda")
"""Backends to measure, by name. Append only; a backend that cannot run on the machine is skipped."""

SLABS = ("real", "integer", "flag")
DIRECTIONS = ("forward", "reverse")

BATCH = 1000
"""Number of launches in one timed call.

A single launch takes a few microseconds, which a timer and a cold cache blur.
"""

USED: set[str] = set()
"""Names of workloads that some benchmark measures."""


class Bench:
    """Start each benchmark that launches kernels under a fresh runtime, and stop the runtime at its end.

    Subclasses take parameters as asv passes them, in the order of `param_names`; the first parameter is the backend.

    Attributes:
        workloads: the names in `workloads.WORKLOADS` that the class measures.
    """

    workloads: ClassVar[tuple[str, ...]] = ()
    timeout = 180
    repeat = (3, 15, 4.0)
    rounds = 2
    warmup_time = 0.1

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        unknown = set(cls.workloads) - set(WORKLOADS)
        if unknown:
            raise ValueError(f"{cls.__name__} measures workloads that there are not: {', '.join(sorted(unknown))}")
        USED.update(cls.workloads)

    def teardown(self, *parameters: Any) -> None:
        """Stop the runtime, which frees fields, kernels and adstack memory."""
        sg.reset()


def start(arch: str) -> None:
    """Start a fresh runtime on a backend; if the backend is absent, raise the exception that makes asv skip.

    Raises:
        NotImplementedError: the backend is absent; asv takes this exception for a skip, with the reason.
    """
    try:
        sg.init(arch=arch, default_fp=sg.f32, default_ip=sg.i32, random_seed=0)
    except DeviceError as absent:
        raise NotImplementedError(str(absent).partition("; cure:")[0]) from absent
    except StackgradError as unknown:
        raise NotImplementedError(f"this version has no backend {arch}: {unknown}") from unknown


def started(arch: str, workload: str, size: str) -> Program:
    """Build a workload under a fresh runtime, launch it forward and in reverse once, and return its program."""
    start(arch)
    program = WORKLOADS[workload].build(size)
    program.forward()
    program.reverse()
    return program


def repeated(call: Callable[[], Any], times: int = BATCH) -> None:
    """Call a function `times` times, then wait for the device."""
    for _ in range(times):
        call()
    sg.sync()


def seconds(call: Callable[[], Any]) -> float:
    """Return the duration of one call, including the device work that the call started."""
    begin = time.perf_counter()
    call()
    sg.sync()
    return time.perf_counter() - begin


def median_ratio(numerator: Callable[[], Any], denominator: Callable[[], Any], budget: float = 1.5) -> float:
    """Return the median of the ratio of the durations of two functions, over interleaved pairs of calls.

    At least five pairs run, for about `budget` seconds. Both calls of a pair run one right after the other, so a slow
    phase of the machine divides out.
    """
    ratios: list[float] = []
    end = time.perf_counter() + budget
    while len(ratios) < 5 or (time.perf_counter() < end and len(ratios) < 101):
        below = seconds(denominator)
        ratios.append(seconds(numerator) / below)
    return median(ratios)
