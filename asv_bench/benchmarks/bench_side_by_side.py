"""Run the workloads of the comparison tool `stackgrad.harness.tools.bench` under asv, without the peers.

Two threads are used, as in that command. Versions without these works are skipped.
"""

from __future__ import annotations

import os
import sys
import time
from statistics import median
from typing import Any

import stackgrad as sg

from .common import Bench

SAMPLES = 7
COLUMNS = (
    "launch: no argument",
    "launch: one scalar",
    "launch: three ndarrays",
    "small_loop: forward",
    "small_loop: grad",
    "small_loop_arrays: forward",
    "small_loop_arrays: grad",
    "many_tasks: forward",
    "many_tasks: grad",
    "long_row: grad",
    "long_row: heap",
    "sweep: forward",
    "sweep: grad",
    "varied_sweep: forward",
    "varied_sweep: grad",
    "skewed_sweep: forward",
    "skewed_sweep: grad",
    "gated: forward",
    "gated: grad",
    "gated: forward after 20 ms",
    "gated: grad after 20 ms",
    "cold_compile: forward",
    "cold_compile: grad",
)
"""Names of work and column. Append only."""


class SideBySide(Bench):
    """Measure a result column of `stackgrad.harness.tools.bench`: the median time of seven samples, or a size."""

    params = (COLUMNS,)
    param_names = ("column",)
    timeout = 300

    def setup(self, column: str) -> None:
        """Compile the workload, launch it once, and check its gradient."""
        work, _, name = column.partition(": ")
        try:
            from stackgrad.harness.tools.bench.works import WORKS
        except ImportError as absent:
            raise NotImplementedError(f"this version has no such works: {absent}") from absent
        sg.init(arch=sg.cpu, default_fp=sg.f32, cpu_max_num_threads=2)
        self.timed: Any = WORKS[work](sg)[name]

    def track_figure(self, column: str) -> float:
        """Return the median seconds per call and unit of work, or the workload's own number, such as a size in kB."""
        timed = self.timed
        if timed.figure is not None:
            return float(timed.figure())
        samples = 1 if timed.number == 1 and not timed.pause else SAMPLES
        return median(_seconds(timed) for _ in range(samples))

    track_figure.unit = "s or kB"  # type: ignore[attr-defined]


class SecondProcess(Bench):
    """Measure the first launch in a second process that finds compiled code on disk: the median of seven processes."""

    params = (("forward", "grad"),)
    param_names = ("direction",)
    timeout = 300

    def setup(self, direction: str) -> None:
        """Skip the benchmark if this commit of stackgrad lacks the tool that measures it."""
        try:
            from stackgrad.harness.tools.bench.run import measure
        except ImportError as absent:
            raise NotImplementedError(f"this version has no such works: {absent}") from absent
        self.measure: Any = measure

    def track_first_launch(self, direction: str) -> float:
        """Return the milliseconds of the first launch in a process that finds compiled code on disk."""
        keep, os.environ["STACKGRAD_CACHE"] = os.environ.get("STACKGRAD_CACHE", ""), "1"
        try:
            found = self.measure("warm_cache", ["stackgrad"], {"stackgrad": sys.executable}, 2, SAMPLES)
        finally:
            os.environ["STACKGRAD_CACHE"] = keep
        return float(found[direction]["stackgrad"].median)

    track_first_launch.unit = "ms"  # type: ignore[attr-defined]


def _seconds(timed: Any) -> float:
    """Return the mean duration of a call of `timed.call`, divided by the number of units of work of a call."""
    if timed.pause:
        time.sleep(timed.pause)
    begin, calls = time.perf_counter(), 0
    while calls == 0 or not timed.number and time.perf_counter() - begin < 0.02:
        for _ in range(timed.number or (1 if calls == 0 else calls)):
            timed.call()
        calls += timed.number or max(calls, 1)
    return (time.perf_counter() - begin) / calls / float(timed.each)
