"""This module takes samples of each library in turn and computes their medians."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from .works import FRESH

HOME = Path(__file__).parent


@dataclass
class SampleColumn:
    """Represent the samples measured for one column of a benchmark on one library, or the reason why there are none."""

    unit: str = ""
    samples: list[float] = field(default_factory=list)
    problem: str = ""

    @property
    def median(self) -> float | None:
        """Return the median of the samples, or None if there are none."""
        return median(self.samples) if self.samples else None


class BenchProcess:
    """Represent another process that runs one benchmark with one library and returns samples on request."""

    def __init__(self, python: str, library: str, work: str, threads: int, arch: str, cache: str) -> None:
        environment = {**os.environ, "BENCH_CACHE": cache, "OMP_NUM_THREADS": str(threads), "JAX_PLATFORMS": arch}
        if arch == "cpu":
            environment["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={threads}"
        command = [python, str(HOME / "process.py"), library, work, str(threads), arch]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        first = self._answer()
        self.problem = str(first.get("error", "")) if isinstance(first, dict) else "no answer"
        self.columns = {} if self.problem else {str(k): str(v) for k, v in first.items()}  # type: ignore[attr-defined]

    def _answer(self) -> object:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": f"the process ended ({self.process.wait()})"}

    def sample(self, column: str) -> object:
        """Return one sample of a column, measured by the process, or a dict with the key `error`."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(column + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"error": "the process ended"}
        return self._answer()

    def close(self) -> None:
        """End the process that runs the benchmark."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


Figures = dict[str, dict[str, SampleColumn]]
"""Samples by column and by library."""


def measure(
    work: str, libraries: Sequence[str], pythons: dict[str, str], threads: int, repeat: int, arch: str = "cpu"
) -> Figures:
    """Return the samples of all columns of a benchmark, measured on all libraries in turn.

    Args:
        work: the name of the work.
        libraries: the names of the libraries.
        pythons: the interpreter of each library.
        threads: the number of threads that a library may use.
        repeat: the number of samples per column.
        arch: "cpu", "cuda" or "vulkan".
    """
    if work in FRESH:
        return _measure_fresh(work, libraries, pythons, threads, repeat, arch)
    workers = {name: BenchProcess(pythons[name], name, work, threads, arch, "") for name in libraries}
    found: Figures = {}
    for _ in range(repeat):
        for name, worker in workers.items():
            _take(found, name, worker)
    for worker in workers.values():
        worker.close()
    return found


def _measure_fresh(
    work: str, libraries: Sequence[str], pythons: dict[str, str], threads: int, repeat: int, arch: str
) -> Figures:
    """Measure each sample in a new process that reads the disk cache filled by a first, unmeasured process."""
    found: Figures = {}
    for name in libraries:
        cache = tempfile.mkdtemp()
        for sample in range(repeat + 1):
            worker = BenchProcess(pythons[name], name, work, threads, arch, cache)
            # The first sample is dropped, because its process fills the cache.
            _take(found if sample else {}, name, worker)
            worker.close()
        shutil.rmtree(cache, ignore_errors=True)
    return found


def _take(found: Figures, name: str, worker: BenchProcess) -> None:
    """Add one sample of each column from a process to the results, or record why the benchmark cannot run."""
    if worker.problem:
        found.setdefault("", {})[name] = SampleColumn(problem=worker.problem)
    for column, unit in worker.columns.items():
        into = found.setdefault(column, {}).setdefault(name, SampleColumn(unit))
        if into.problem:
            continue
        answer = worker.sample(column)
        if isinstance(answer, float | int):
            into.samples.append(float(answer))
        else:
            into.problem = str(answer)


def machine(arch: str = "cpu") -> str:
    """Return the name of the GPU, if any, then of the processor and the number of cores of this process."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    card = {"cuda": _card, "vulkan": _vulkan}.get(arch, str)()
    system = f"{platform.system()}, Python {platform.python_version()} ({sys.executable})"
    return f"{card}{card and '; '}{name}, {cores} processors, {system}"


def _card() -> str:
    """Return the name of the first GPU and its driver version from nvidia-smi, or "unknown GPU"."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "--id=0"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown GPU"


def _vulkan() -> str:
    """Return the name of the Vulkan device that stackgrad selects on this machine."""
    from ....backends import registry

    return registry.get("vulkan").probe().version or "no Vulkan device"
