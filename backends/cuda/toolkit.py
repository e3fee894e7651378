"""This module finds the parts of a CUDA toolkit: in NVIDIA's wheels, else in an installed toolkit.

The wheels lay their files out as site-packages/nvidia/<generation>/..., so they are searched by pattern.
"""

from __future__ import annotations

import os
import shutil
import site
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path


def _roots() -> Iterator[Path]:
    """Yield the folders below which wheels or a toolkit put their files."""
    folders = dict.fromkeys([sysconfig.get_paths()["purelib"], *site.getsitepackages(), site.getusersitepackages()])
    for folder in folders:
        yield from sorted(Path(folder, "nvidia").glob("*"), reverse=True)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if variable in os.environ:
            yield Path(os.environ[variable])
    yield Path("/usr/local/cuda")


@cache
def libdevice_path() -> str | None:
    """Return the path of NVIDIA's math library libdevice.10.bc, or None if it is not installed."""
    return _first("nvvm/libdevice/libdevice.10.bc", "libdevice/libdevice.10.bc")


@cache
def ptxas_path() -> str | None:
    """Return the path of ptxas, NVIDIA's assembler for PTX, or None if it is not installed."""
    return _first("bin/ptxas") or shutil.which("ptxas")


def _first(*places: str) -> str | None:
    """Return the first of several relative paths that exists below a toolkit's folder, or None if none exists."""
    return next((str(root / p) for root in _roots() for p in places if (root / p).is_file()), None)
