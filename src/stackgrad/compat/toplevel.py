"""Define the top-level names of the peers that stackgrad lacks or that have another meaning in the peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .arches import amdgpu, arm64, cc, cpu, cuda, dx11, dx12, gles, gpu, metal, opengl, python, vulkan, x64, x86_64
from .colors import hex_to_rgb, rgb_to_hex
from .impl import reset
from .logs import is_logging_effective, set_logging_level
from .options import extension, init, is_arch_supported, is_extension_enabled, is_extension_supported

F = TypeVar("F", bound=Callable[..., Any])


def pure(function: F) -> F:
    """Return a kernel unchanged: stackgrad always notices changes of Python objects that kernels read."""
    return function


__all__ = [
    "amdgpu",
    "arm64",
    "cc",
    "cpu",
    "cuda",
    "dx11",
    "dx12",
    "extension",
    "gles",
    "gpu",
    "hex_to_rgb",
    "init",
    "is_arch_supported",
    "is_extension_enabled",
    "is_extension_supported",
    "is_logging_effective",
    "metal",
    "opengl",
    "pure",
    "python",
    "reset",
    "rgb_to_hex",
    "set_logging_level",
    "vulkan",
    "x64",
    "x86_64",
]
