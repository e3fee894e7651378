"""This script describes this machine to asv under a neutral name, and prints that name.

    python ci/bench_machine.py [NAME]

Results of benchmarks are kept in the repository, each with a description of its machine. By itself asv names a machine
after its host and notes the release of its kernel; neither belongs into the repository. NAME is by default
`cpu-N-cores`. The description goes to asv's file of machines, `~/.asv-machine.json`, which `asv run --machine NAME`
reads. The script runs under an interpreter that has asv; a test imports it without.
"""

from __future__ import annotations

import os
import platform
import sys


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gibibytes(size: int) -> str:
    """Return an amount of memory, given in bytes, in whole GiB with the unit."""
    return f"{round(size / 2**30)} GiB"


def describe(name: str) -> dict[str, str]:
    """Return what is told about this machine: the kinds of system and CPU, cores and memory."""
    from asv import util

    return {
        "machine": name,
        "os": platform.system(),
        "arch": platform.machine(),
        "cpu": util.get_cpu_info(),
        "num_cpu": str(cores()),
        "ram": gibibytes(int(util.get_memsize())),
    }


def register(name: str = "") -> str:
    """Write the description of this machine to asv's file of machines, and return the name."""
    from asv.machine import MachineCollection

    name = name or f"cpu-{cores()}-cores"
    MachineCollection.save(name, describe(name))
    return name


if __name__ == "__main__":
    print(register(*sys.argv[1:]))
