"""Define the names of the native module of the peers, `_lib.core`, that programs ask for."""

from __future__ import annotations

import platform
from types import SimpleNamespace

from ..compiler.ir.types import SCALARS
from ..data.snodes import SNode
from . import arches
from .impl import Program
from .peers import PEERS

Arch = SimpleNamespace(**{name: value for name, value in vars(arches).items() if isinstance(value, arches.Arch)})
DataType = DataTypeCxx = type(next(iter(SCALARS.values())))
SNodeCxx, ProgramCxx = SNode, Program


def arch_name(arch: arches.Arch) -> str:
    """Return the name of an architecture."""
    return "x64" if arch == arches.cpu and platform.machine() in ("x86_64", "AMD64") else str(arch)


def arch_from_name(name: str) -> arches.Arch:
    """Return the architecture of a name of the peers."""
    return arches.Arch(arches.known(name))


def host_arch() -> arches.Arch:
    """Return the architecture of the CPU."""
    return arches.cpu


def with_cuda() -> bool:
    """Return True if kernels can run on a GPU of NVIDIA here."""
    return arches.can_run("cuda")


def with_vulkan() -> bool:
    """Return True if kernels can run by Vulkan here."""
    return arches.can_run("vulkan")


def with_metal() -> bool:
    """Return False: kernels do not run on Metal."""
    return False


with_amdgpu = with_opengl = with_dx11 = with_dx12 = with_metal


def get_version_major() -> int:
    """Return the first number of the version of Quadrants whose names are listed."""
    return PEERS["quadrants"][0]


def get_version_minor() -> int:
    """Return the second number of this version."""
    return PEERS["quadrants"][1]


def get_version_patch() -> int:
    """Return the third number of this version."""
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
    "with_amdgpu",
    "with_cuda",
    "with_dx11",
    "with_dx12",
    "with_metal",
    "with_opengl",
    "with_vulkan",
]
