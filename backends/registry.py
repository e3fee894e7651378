"""The backends there are, one row each, in the order in which they are listed to the user.

A backend's module is imported when it is first asked for: LLVM stays out of `import stackgrad`.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import cast

from ..compiler.errors import StackgradError
from .base import Backend, Probe
from .forks import free_in_child

BACKENDS: dict[str, tuple[str, str]] = {
    "reference": ("stackgrad.reference.backend", "ReferenceBackend"),
    "cpu": ("stackgrad.backends.cpu.backend", "CpuBackend"),
    "cuda": ("stackgrad.backends.cuda.backend", "CudaBackend"),
    "vulkan": ("stackgrad.backends.vulkan.backend", "VulkanBackend"),
    "metal": ("stackgrad.backends.metal.backend", "MetalBackend"),
}
"""(module, class) by name."""

_instances: dict[str, Backend] = {}
_lock = free_in_child(threading.Lock())


class UnknownBackend(StackgradError, KeyError):
    """A name that is not in BACKENDS."""

    def __str__(self) -> str:
        return str(self.args[0])


def get(name: str) -> Backend:
    """The one instance of a backend in this process. Raises UnknownBackend, or ImportError if a library is missing."""
    if name not in BACKENDS:
        raise UnknownBackend(f"no backend {name!r}; there are: {', '.join(BACKENDS)}")
    with _lock:
        if name not in _instances:
            module, cls = BACKENDS[name]
            _instances[name] = cast(Backend, getattr(import_module(module), cls)())
        return _instances[name]


def put(name: str, backend: Backend) -> None:
    """Let a backend of this process be the one of a name: one with another driver, say."""
    with _lock:
        _instances[name] = backend


def probe_all() -> dict[str, Probe]:
    """What each backend says of this machine; a backend that cannot even be imported is unavailable. Never raises."""
    return {name: _probe(name) for name in BACKENDS}


def _probe(name: str) -> Probe:
    try:
        return get(name).probe()
    except ImportError as error:
        return Probe(False, reason=f"{error}", cure=f"pip install {error.name.split('.')[0]}" if error.name else "")
