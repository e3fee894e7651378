"""Run `stackgrad doctor`: show versions, and for each backend what it has found or what is missing.

The command needs nothing but Python installed.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata

from . import version

LIBRARIES = (
    ("numpy", "fields and the reference", "pip install numpy"),
    ("llvmlite", "the cpu backend, PTX", "pip install llvmlite"),
    ("jax", "the oracle of `stackgrad check`", "pip install 'stackgrad[harness]'"),
    ("rich", "tables of `stackgrad check`", "pip install 'stackgrad[harness]'"),
    ("vulkan", "the vulkan backend", "pip install 'stackgrad[vulkan]'"),
    ("nvidia-nvvm", "libdevice for PTX", "pip install nvidia-nvvm"),
)
"""The distribution, its use, and how to get it, for each library."""


def run(given: argparse.Namespace) -> int:
    """Print versions, libraries and the availability of each backend. Return 0."""
    print("\n".join([*_system(), "", "libraries", *_libraries(), "", "backends", *_backends()]))
    return 0


def _system() -> Iterator[str]:
    """Yield the lines of the report on the versions of stackgrad and Python, and on the operating system."""
    yield f"stackgrad {version()}"
    yield f"Python {platform.python_version()} ({sys.executable}), {platform.system()} {platform.machine()}"


def _libraries() -> Iterator[str]:
    """Yield one line for each library that stackgrad can use, with its version or the way to install it."""
    for name, use, cure in LIBRARIES:
        try:
            yield f"  {name:12} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            yield f"  {name:12} absent: needed for {use}; cure: {cure}"
    yield from _llvm()


def _llvm() -> Iterator[str]:
    """Yield the lines of the report on LLVM and the CPU, if llvmlite is installed."""
    try:
        import llvmlite.binding as llvm
    except ImportError:
        return
    yield f"  {'LLVM':12} {'.'.join(map(str, llvm.llvm_version_info))}"
    try:
        features = llvm.get_host_cpu_features()
        names = " ".join(sorted(name for name, present in features.items() if present))
        yield f"  {'CPU':12} {llvm.get_host_cpu_name()}, {os.cpu_count()} cores: {names}"
    except RuntimeError as error:
        yield f"  {'CPU':12} LLVM does not know its features: {error}"


def _backends() -> Iterator[str]:
    """Yield the lines of the report on all backends: the devices found, or the parts that are missing."""
    try:
        from ..backends.registry import probe_all
    except ImportError as error:
        yield f"  none: {error}"
        return
    for name, probe in probe_all().items():
        if probe.available:
            yield f"  {name:12} present: {probe.version}"
        else:
            yield f"  {name:12} absent: {probe.reason}"
            if probe.cure:
                yield f"  {'':12} cure: {probe.cure}"
    yield from _emulated()


def _emulated() -> Iterator[str]:
    """Yield one line for each executor that emulates a CUDA or Metal device, so that tests need no such device."""
    try:
        from ..harness.testing.executors import EMULATED, present_backends

        _, absent = present_backends(EMULATED)
    except ImportError:
        return
    for name in EMULATED:
        reason = f"absent: {absent[name]}" if name in absent else "present: the code for GPUs, run on the host by tests"
        yield f"  {name:12} {reason}"
