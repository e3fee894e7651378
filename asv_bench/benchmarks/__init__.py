"""This package is the benchmark suite; its import fails if a kernel in `workloads` is measured by no benchmark."""

from __future__ import annotations

from . import (  # noqa: F401 - each registers what it measures
    bench_boxes,
    bench_compile,
    bench_control,
    bench_import,
    bench_launch,
    bench_memory,
    bench_peers,
    bench_reverse,
    bench_side_by_side,
)
from .common import USED
from .workloads import WORKLOADS

_idle = sorted(set(WORKLOADS) - USED)
if _idle:
    raise ImportError(f"workloads that no benchmark measures: {', '.join(_idle)}")
