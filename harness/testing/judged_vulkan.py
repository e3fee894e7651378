"""This module runs the Vulkan backend, checks shaders by `spirv-val`, and reorders dispatches between barriers.

Drivers may run dispatches at the same time unless a barrier stands between them. lavapipe runs them one after another,
so a missing barrier would never show there. This backend records the dispatches between two barriers last to first, as
a driver may run them.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ...backends.base import Executable, Options
from ...backends.vulkan.backend import VulkanBackend
from ...compiler.errors import InternalError, StackgradError
from ...compiler.ir.kernels import Kernel

VALIDATOR = "spirv-val"
TARGET = ("--target-env", "vulkan1.2", "--scalar-block-layout")
CURE = "apt-get install spirv-tools"


class MissingValidator(StackgradError):
    """This error means that the program `spirv-val`, which validates shaders, is not installed."""


class InvalidModule(InternalError):
    """This error means that `spirv-val` rejects a SPIR-V module that the compiler generated."""


def validate(code: bytes) -> str:
    """Return the complaint of `spirv-val` about a module, or "" if the module is valid.

    Raises:
        MissingValidator: `spirv-val` is not installed.
    """
    program = shutil.which(VALIDATOR)
    if program is None:
        raise MissingValidator(f"{VALIDATOR} is not installed; cure: {CURE}")
    with tempfile.TemporaryDirectory(prefix="spirv") as folder:
        path = Path(folder, "module.spv")
        path.write_bytes(code)
        done = subprocess.run([program, *TARGET, str(path)], capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).replace(f"{path}: ", "").strip()
    return "" if done.returncode == 0 else said or f"{VALIDATOR} ended with status {done.returncode}"


class ReorderedVulkan:
    """This class wraps the Vulkan functions, and records the dispatches between two barriers in reverse order.

    Every other command is recorded after the dispatches that came before it.
    """

    def __init__(self, functions: Any) -> None:
        self._functions = functions
        self._waiting: dict[int, list[tuple[Any, ...]]] = {}
        self._bound: dict[int, tuple[Any, ...]] = {}

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._functions, name)
        if not name.startswith(("vkCmd", "vkEndCommandBuffer")):
            return function

        def recorded(buffer: Any, *args: Any) -> Any:
            self._flush(buffer)
            return function(buffer, *args)

        return recorded

    def vkCmdBindPipeline(self, buffer: Any, *args: Any) -> None:
        """Store the pipeline, which the delayed dispatches after this call need."""
        self._bound[self._key(buffer)] = args

    def vkCmdDispatch(self, buffer: Any, *args: Any) -> None:
        """Delay the dispatch until the next barrier or other command."""
        self._dispatch("vkCmdDispatch", buffer, args)

    def vkCmdDispatchIndirect(self, buffer: Any, *args: Any) -> None:
        """Delay the indirect dispatch until the next barrier or other command."""
        self._dispatch("vkCmdDispatchIndirect", buffer, args)

    def vkCmdPipelineBarrier(self, buffer: Any, *args: Any) -> None:
        """Record the delayed dispatches in reverse order, then the barrier."""
        self._flush(buffer)
        self._functions.vkCmdPipelineBarrier(buffer, *args)

    def _key(self, buffer: Any) -> int:
        return int(self._functions.ffi.cast("uintptr_t", buffer))

    def _dispatch(self, name: str, buffer: Any, args: tuple[Any, ...]) -> None:
        key = self._key(buffer)
        self._waiting.setdefault(key, []).append((name, self._bound[key], args))

    def _flush(self, buffer: Any) -> None:
        for name, pipeline, args in reversed(self._waiting.pop(self._key(buffer), [])):
            self._functions.vkCmdBindPipeline(buffer, *pipeline)
            getattr(self._functions, name)(buffer, *args)


class JudgedVulkan(VulkanBackend):
    """A `JudgedVulkan` is a Vulkan backend that refuses to compile modules that `spirv-val` rejects."""

    def compile(self, kernel: Kernel, options: Options) -> Executable:  # type: ignore[override]
        """Return a compiled kernel whose SPIR-V module `spirv-val` accepts.

        Raises:
            InvalidModule: `spirv-val` refuses the module.
        """
        device = self.device
        if not isinstance(device.vk, ReorderedVulkan):
            device.vk = ReorderedVulkan(device.vk)
        made = super().compile(kernel, options)
        wrong = validate(made.shaders.code)
        if wrong:
            raise InvalidModule(f"kernel {kernel.name}: {VALIDATOR}: {wrong}")
        return made
