"""This script measures the installed package once and prints its metrics as JSON; `ci/bench_compare.py` calls it often.

    python ci/bench_sample.py FOLDER PACKAGE [METRIC ...]

FOLDER holds the package `benchmarks`, PACKAGE is the folder from which `stackgrad` must be imported. Both sides of a
comparison are measured by the benchmarks of one checkout, so that a change of a benchmark does not count as a change of
the package.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLES = 7
"""Number of timed batches of which the fastest counts: what disturbs a batch only makes it slower."""
BATCH_SECONDS = 0.03
"""Time that a batch takes at least; it is far above the resolution of the clock and the cost of its calls."""


@dataclass(frozen=True)
class Metric:
    """Represent one benchmark with fixed parameters.

    Attributes:
        name: name of the metric in reports; the part before the point is its kind.
        benchmark: module, class and method of the benchmark, joined by points.
        parameters: arguments of the method and of `setup`.
    """

    name: str
    benchmark: str
    parameters: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Return True if the benchmark returns a number that has no noise, such as a number of bytes."""
        return self.benchmark.rpartition(".")[2].startswith("track_")


METRICS = (
    Metric("control.arithmetic", "bench_control.Machine.time_arithmetic"),
    Metric("control.calls", "bench_control.Machine.time_calls_x1000"),
    Metric("launch.forward", "bench_launch.Warm.time_forward_x1000", ("cpu", "three_fields")),
    Metric("launch.scalar", "bench_launch.Warm.time_forward_x1000", ("cpu", "one_scalar")),
    Metric("launch.reverse", "bench_launch.WarmReverse.time_reverse_x1000", ("cpu", "tiny_loop")),
    Metric("launch.recounted", "bench_launch.Recounted.time_reverse_x1000", ("cpu",)),
    Metric("compile.trace", "bench_compile.Whole.time_trace", ("csr_gather",)),
    Metric("compile.reverse", "bench_compile.Whole.time_reverse", ("csr_gather",)),
    Metric("compile.native", "bench_compile.Native.time_compile", ("gated_nested", "reverse")),
    *(
        Metric(f"heap.{workload}.{slab}", "bench_memory.Slabs.track_bytes", ("cpu", workload, slab))
        for workload, slab in (("sin_recurrence", "real"), ("gated_nested", "real"), ("csr_gather", "integer"))
    ),
    Metric("heap.rows", "bench_memory.Held.track_row_bytes", ("cpu", "triangular")),
)
"""What a comparison measures, controls first: no code of the package runs in them."""


def per_call(call: Callable[[], object]) -> float:
    """Return the seconds of one call: the fastest of SAMPLES batches, after a batch that warms up and sets the size."""
    started, number = time.perf_counter(), 0
    while time.perf_counter() - started < BATCH_SECONDS:
        call()
        number += 1
    times = []
    for _ in range(SAMPLES):
        started = time.perf_counter()
        for _ in range(number):
            call()
        times.append((time.perf_counter() - started) / number)
    return min(times)


def value_of(metric: Metric) -> float:
    """Set up a benchmark, measure it, and tear it down.

    Returns:
        Seconds per call of a `time_` method; what a `track_` method returns.
    """
    module, cls, method = metric.benchmark.split(".")
    bench: Any = getattr(importlib.import_module(f"benchmarks.{module}"), cls)()
    bench.setup(*metric.parameters)
    try:
        call = getattr(bench, method)
        if metric.is_exact:
            return float(call(*metric.parameters))
        return per_call(lambda: call(*metric.parameters))
    finally:
        getattr(bench, "teardown", lambda *_: None)(*metric.parameters)


def main(arguments: list[str]) -> None:
    """Print the metrics that are named, or all, as one JSON object of numbers by name."""
    folder, package, *names = arguments
    sys.path.insert(0, folder)
    where = Path(importlib.import_module("stackgrad").__file__ or "")
    if not where.is_relative_to(package):
        sys.exit(f"bench_sample: stackgrad came from {where.parent}, not from {package}")
    chosen = [metric for metric in METRICS if not names or metric.name in names]
    print(json.dumps({metric.name: value_of(metric) for metric in chosen}))


if __name__ == "__main__":
    main(sys.argv[1:])
