"""This module lists the backends, one entry each, in the order in which they are shown to users.

A backend's module is imported when it is first asked for, so that LLVM stays out of `import stackgrad`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from ..compiler.errors import StackgradError
from .base import Backend, Probe
from .forks import free_in_child


@dataclass(frozen=True)
class Registration:
    """Describe a backend that is not yet imported: its module and class, and the tables that generate its code.

    Attributes:
        module: name of the module of its class
        cls: name of its class
        code: the tables that its code is made of: "reference", "llvm" or "spirv"
        limits: name under which `limits.LIMITS` lists what the backend lacks
        launches: True if programs can launch kernels on it, so that `init` takes its name
    """

    module: str
    cls: str
    code: str
    limits: str
    launches: bool = True


BACKENDS: dict[str, Registration] = {
    "reference": Registration("stackgrad.reference.backend", "ReferenceBackend", "reference", "reference"),
    "cpu": Registration("stackgrad.backends.cpu.backend", "CpuBackend", "llvm", "cpu"),
    "cuda": Registration("stackgrad.backends.cuda.backend", "CudaBackend", "llvm", "nvptx"),
    "vulkan": Registration("stackgrad.backends.vulkan.backend", "VulkanBackend", "spirv", "vulkan"),
    "metal": Registration("stackgrad.backends.metal.backend", "MetalBackend", "spirv", "metal", launches=False),
}
"""The registration of each backend, by name."""

_instances: dict[str, Backend] = {}
_lock = free_in_child(threading.Lock())


class UnknownBackend(StackgradError, KeyError):
    """Signal that no backend has this name, because it is not in the table BACKENDS."""

    def __str__(self) -> str:
        return str(self.args[0])


def get(name: str) -> Backend:
    """Return the only instance of a backend in this process, which is created at the first call.

    Raises:
        UnknownBackend: for an unknown name
        ImportError: if a library is missing
    """
    if name not in BACKENDS:
        raise UnknownBackend(f"no backend {name!r}; there are: {', '.join(BACKENDS)}")
    with _lock:
        if name not in _instances:
            registered = BACKENDS[name]
            _instances[name] = cast(Backend, getattr(import_module(registered.module), registered.cls)())
        return _instances[name]


def launching() -> tuple[str, ...]:
    """Return the names of the backends on which programs can launch kernels."""
    return tuple(name for name, registered in BACKENDS.items() if registered.launches)


def put(name: str, backend: Backend) -> None:
    """Replace the instance of a backend in this process, for example by one with another driver."""
    with _lock:
        _instances[name] = backend


def probe_all() -> dict[str, Probe]:
    """Return a Probe for each backend, which says if it can run here; a backend that fails to import cannot."""
    return {name: _probe(name) for name in BACKENDS}


def _probe(name: str) -> Probe:
    """Return a Probe that says if one backend can run on this machine, with a reason if it cannot."""
    try:
        return get(name).probe()
    except ImportError as error:
        return Probe(False, reason=f"{error}", cure=f"pip install {error.name.split('.')[0]}" if error.name else "")
