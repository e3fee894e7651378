"""Define those names of the peers' native module `_lib.core` that programs use."""

from __future__ import annotations

import platform
from types import SimpleNamespace

from ..compiler.ir.types import SCALARS
from ..data.snodes import SNode
from . import arches
from .impl import Program
from .options import is_extension_supported
from .peers import PEERS

Arch = SimpleNamespace(**{name: value for name, value in vars(arches).items() if isinstance(value, arches.Arch)})
DataType = DataTypeCxx = type(next(iter(SCALARS.values())))
SNodeCxx, ProgramCxx = SNode, Program


def arch_name(arch: arches.Arch) -> str:
    """Return the name of an architecture."""
    return "x64" if arch == arches.cpu and platform.machine() in ("x86_64", "AMD64") else str(arch)


def arch_from_name(name: str) -> arches.Arch:
    """Return the architecture that has this name in the peers."""
    return arches.Arch(arches.known(name))


def host_arch() -> arches.Arch:
    """Return the architecture of the CPU."""
    return arches.cpu


def with_cuda() -> bool:
    """Return True if kernels can run on an NVIDIA GPU on this machine."""
    return arches.can_run("cuda")


def with_vulkan() -> bool:
    """Return True if kernels can run by Vulkan on this machine."""
    return arches.can_run("vulkan")


def with_metal() -> bool:
    """Return False, because kernels do not run on Metal."""
    return False


with_amdgpu = with_opengl = with_dx11 = with_dx12 = with_metal


def get_version_major() -> int:
    """Return the major version number of the Quadrants release whose names this package provides."""
    return PEERS["quadrants"][0]


def get_version_minor() -> int:
    """Return the minor version number of the Quadrants release whose names this package provides."""
    return PEERS["quadrants"][1]


def get_version_patch() -> int:
    """Return the patch number of the Quadrants release whose names this package provides."""
    return PEERS["quadrants"][2]


__all__ = [
    "Arch",
    "DataType",
    "DataTypeCxx",
    "ProgramCxx",
    "SNodeCxx",
    "arch_from_name",
    "arch_name",
    "get_version_major",
    "get_version_minor",
    "get_version_patch",
    "host_arch",
    "is_extension_supported",
    "with_amdgpu",
    "with_cuda",
    "with_dx11",
    "with_dx12",
    "with_metal",
    "with_opengl",
    "with_vulkan",
]
