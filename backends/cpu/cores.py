"""This module counts the cores that this process may use, by its CPU affinity and the quotas of its control groups."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def available() -> int:
    """Return the number of cores that this process may use, at least 1."""
    try:
        cores = len(os.sched_getaffinity(0))
    # macOS and Windows do not have this function.
    except AttributeError:
        cores = os.cpu_count() or 1
    return max(1, min([cores, *quotas()]))


def quotas(groups: Path = _GROUPS, mount: Path = _MOUNT) -> Iterator[int]:
    """Yield the number of cores that the quota of each control group around this process allows.

    Control groups without a quota yield nothing.

    Args:
        groups: File that names the control groups of the process.
        mount: Folder where the control groups are mounted.
    """
    for folder in _folders(groups, mount):
        try:
            if (folder / "cpu.max").exists():
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            if quota != "max" and int(quota) > 0:
                yield max(1, math.ceil(int(quota) / int(period)))
        except (OSError, ValueError):
            continue


def _folders(groups: Path, mount: Path) -> Iterator[Path]:
    """Yield the folders of the control groups around this process, innermost first, as far as they are mounted."""
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        root = mount if not controllers else mount / "cpu" if "cpu" in controllers.split(",") else None
        if root is not None:
            inner = root / path.lstrip("/")
            yield from (inner, *(parent for parent in inner.parents if parent.is_relative_to(root)))
