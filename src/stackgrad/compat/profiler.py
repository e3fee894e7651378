"""Implement the profiler of the peers by `sg.profile()`, which measures after `init(kernel_profiler=True)`."""

from __future__ import annotations

from dataclasses import dataclass

from ..runtime.profiling import Profile
from ..runtime.report import adstack_report
from ..runtime.session import RUNTIME

_MILLISECONDS = 1e3
_PROFILE = Profile()
"""What is measured from `init(kernel_profiler=True)` on."""


def set_kernel_profiler_mode(is_on: bool) -> None:
    """Switch the measurement of launches on or off, and discard all earlier measurements."""
    if _PROFILE in RUNTIME.profiles:
        _PROFILE.stop()
    _PROFILE.clear()
    if is_on:
        _PROFILE.start()


@dataclass(frozen=True)
class KernelProfilerQueryResult:
    """Represent the measurements of one kernel, summed over all of its specializations.

    Attributes:
        counter: Number of launches.
        min: Milliseconds of the fastest launch.
        max: Milliseconds of the slowest launch.
        avg: Average milliseconds.
    """

    counter: int
    min: float
    max: float
    avg: float


def query_kernel_profiler_info(name: str) -> KernelProfilerQueryResult:
    """Return the measurements of a kernel.

    Args:
        name: Its name.
    """
    found = [kernel for kernel in _PROFILE.kernels if kernel.name == name]
    if not found:
        return KernelProfilerQueryResult(0, 0.0, 0.0, 0.0)
    count = sum(kernel.launches for kernel in found)
    total = sum(kernel.seconds for kernel in found)
    least, most = min(kernel.least for kernel in found), max(kernel.most for kernel in found)
    return KernelProfilerQueryResult(count, least * _MILLISECONDS, most * _MILLISECONDS, total / count * _MILLISECONDS)


def print_kernel_profiler_info(mode: str = "count") -> None:
    """Print the measurements of all kernels.

    Args:
        mode: Ignored.
    """
    print(_PROFILE)


def clear_kernel_profiler_info() -> None:
    """Discard all measurements of kernels."""
    _PROFILE.clear()


def get_kernel_profiler_total_time() -> float:
    """Return the total seconds of all measured launches."""
    return _PROFILE.seconds


def set_kernel_profiler_toolkit(toolkit_name: str = "default") -> bool:
    """Return True if the toolkit is "default", which is the only one that exists here."""
    return toolkit_name == "default"


def print_scoped_profiler_info() -> None:
    """Print the measurements of all kernels; unlike in the peers, phases of the compiler are not measured."""
    print(_PROFILE)


def clear_scoped_profiler_info() -> None:
    """Discard all measurements, as `clear_kernel_profiler_info` does."""
    _PROFILE.clear()


def print_memory_profiler_info() -> None:
    """Print the report on the memory of the adstacks."""
    print(adstack_report())
