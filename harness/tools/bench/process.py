"""Measure one library in its own process: read column names from standard input and print a sample for each.

This file is started as a script; beside the works it imports only the library. Arguments: library, work, threads, arch.
A line on standard input names a column and asks for one sample; the answer is one JSON number, or an object with an
error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_SAMPLE_SECONDS = 0.05
_SCALE = {"µs": 1e6, "ms": 1e3, "ns/step": 1e9, "kB": 1.0}


def library(name: str, work: str, threads: int, arch: str) -> Any:
    """Import the library of this name, initialize it for the benchmark `work`, and return it.

    Compiled code is read from disk only for the work that measures this.
    """
    ti = importlib.import_module("stackgrad" if name == UNCHECKED else name)
    keep = work == "warm_cache"
    settings: dict[str, Any] = {"cpu_max_num_threads": threads, "offline_cache": keep, "default_fp": ti.f32}
    place = os.environ.get("BENCH_CACHE")
    if keep and place:
        settings["offline_cache_file_path"] = place
    ti.init(arch=getattr(ti, arch), **settings, **_OWN.get(name, {}))
    return ti


UNCHECKED = "unchecked"
"""Name of stackgrad without index checks; the difference to stackgrad is the cost of the checks."""

_OWN: dict[str, dict[str, Any]] = {
    "quadrants": {"ad_stack_experimental_enabled": True},
    "taichi": {"ad_stack_size": 128},
    UNCHECKED: {"bounds": "off"},
}
"""Settings that a library needs to differentiate dynamic loops."""


def sample(timed: Any) -> float:
    """Return one measurement of a benchmark, in the unit of the benchmark."""
    if timed.figure is not None:
        return float(timed.figure())
    number = timed.number or calls_of(timed)
    if timed.pause:
        time.sleep(timed.pause)
    begin = time.perf_counter()
    for _ in range(number):
        timed.call()
    figure: float = (time.perf_counter() - begin) / number / timed.each * _SCALE[timed.unit]
    return figure


def calls_of(timed: Any) -> int:
    """Return the number of calls that fill the time of one sample, measured after warm-up calls."""
    known = _CALLS.get(id(timed))
    if known is None:
        # The first calls compile, allocate and fill caches, so they do not count.
        _calls_in(timed, 4 * _SAMPLE_SECONDS)
        known = _CALLS[id(timed)] = _calls_in(timed, _SAMPLE_SECONDS)
    return known


def _calls_in(timed: Any, seconds: float) -> int:
    begin, done = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        timed.call()
        done += 1
    return done


_CALLS: dict[int, int] = {}

BUSY = (0.3, 0.1)
"""Seconds for which a GPU is kept busy before the first sample of a column, and before each later sample.

An idle GPU lowers its clock, an H200 from 1,980 to 345 MHz, and takes time to raise it. Launches that do almost nothing
keep no GPU busy, so a work of such launches is measured as it is.
"""


def keep_gpu_busy(timed: Any, is_first: bool) -> None:
    """Run the benchmark for a while without measuring it, so that the GPU raises its clock."""
    if timed.figure is None:
        _calls_in(timed, BUSY[0] if is_first else BUSY[1])


def serve(name: str, work: str, threads: int, arch: str) -> None:
    """Prepare a benchmark, print its columns, and print samples on request until standard input closes."""
    answers = os.fdopen(os.dup(1), "w")
    # Output of a library goes to stderr from now on and cannot mix with answers.
    os.dup2(2, 1)

    def say(what: Any) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    try:
        works = importlib.import_module("works")
        importlib.import_module("index_works")
        importlib.import_module("cache_works")
        known = {**works.WORKS, **importlib.import_module("device_works").DEVICE_WORKS}
        if name == "jax":
            columns = importlib.import_module("jax_works").WORKS[work](works.Timed)
        else:
            columns = known[work](library(name, work, threads, arch))
        say({column: timed.unit for column, timed in columns.items()})
        asked: set[str] = set()
        for column in map(str.strip, sys.stdin):
            timed = columns[column]
            if arch != "cpu" and work != "device_launch":
                keep_gpu_busy(timed, column not in asked)
            asked.add(column)
            say(sample(timed))
    except Exception as error:
        say({"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"})


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
