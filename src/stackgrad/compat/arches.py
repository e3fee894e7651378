"""Define the architectures that the peers name, and choose a backend of stackgrad for each."""

from __future__ import annotations

from typing import Any

from ..backends import registry
from ..runtime.session import ALIASES, ARCHES


class Arch(str):
    """Represent an architecture by its name; all names of the CPU are equal, as a program of a peer expects.

    Attributes:
        name: The name.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """Return the name of the architecture."""
        return str(self)


x64 = x86_64 = arm64 = cpu = Arch("cpu")
"""The CPU of this machine, under each of the names that the peers give it."""
cuda, vulkan, metal, amdgpu = Arch("cuda"), Arch("vulkan"), Arch("metal"), Arch("amdgpu")
opengl, gles, dx11, dx12, cc = Arch("opengl"), Arch("gles"), Arch("dx11"), Arch("dx12"), Arch("cc")
python = Arch("reference")
"""The interpreter, which runs kernels in Python as the peer's arch of this name does."""
gpu = [cuda, metal, vulkan, amdgpu]
"""The GPUs in the order in which `init(arch=gpu)` tries them."""


def get_host_arch_list() -> list[Arch]:
    """Return the architecture of the CPU of this machine, in a list."""
    return [cpu]


def can_run(arch: object) -> bool:
    """Return True if an architecture can run kernels on this machine.

    Args:
        arch: A name of a peer or of stackgrad.
    """
    name = known(arch)
    return name in ARCHES and bool(registry.get(name).probe().available)


def known(arch: object) -> str:
    """Return stackgrad's name for an architecture of the peers, or the architecture's own name if there is none."""
    name = str(getattr(arch, "name", arch))
    return {"x64": "cpu", "x86_64": "cpu", "arm64": "cpu", "python": "reference", **ALIASES}.get(name, name)


def choose(given: Any) -> str | None:
    """Return the first architecture of a list that can run here, or, if none can, the last one of the list.

    Args:
        given: What `init` was given as `arch`: a name, a list of names, or None.

    Returns:
        A name of stackgrad, a name of a peer that stackgrad does not have, or None for the default.
    """
    if given is None:
        return None
    wanted = given if isinstance(given, list | tuple) else [given]
    return next((known(arch) for arch in wanted if can_run(arch)), known(wanted[-1]))
