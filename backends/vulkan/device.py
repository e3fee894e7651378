"""Choose and open the Vulkan device of a process: its features, its queue, its memory types and its pipelines.

The device is used by one launch at a time. Driver errors become DeviceErrors; they say what to do if nothing opens.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...compiler.errors import DeviceError
from ...compiler.ir.cached import cached_property
from .physical_devices import API, CHOICE, CURE, NoVulkanDevice, card_of, choose
from .pipeline_cache import pipeline_cache
from .queue_families import compute_family


def _library() -> Any:
    """Return the Python package `vulkan`. Raise NoVulkanDevice if it is not installed or finds no loader."""
    try:
        import vulkan
    except ImportError as problem:
        raise NoVulkanDevice("the Python package `vulkan` is missing", "pip install vulkan") from problem
    except OSError as problem:
        raise NoVulkanDevice(f"no Vulkan loader: {problem}", "apt-get install libvulkan1") from problem
    if not hasattr(vulkan, "VkApplicationInfo"):  # a folder of that name on the path of modules
        raise NoVulkanDevice(f"what is called `vulkan` here is not the package: {vulkan!r}", "pip install vulkan")
    return vulkan


@contextmanager
def driver_errors(doing: str, device: VulkanDevice | None = None) -> Iterator[None]:
    """Raise driver errors of the `with` block as DeviceError, and mark `device` as lost if an error says so."""
    vk = _library()
    try:
        yield
    except vk.VkError as problem:
        if device is not None and isinstance(problem, vk.VkErrorDeviceLost):
            device.lost = True
        raise DeviceError(f"Vulkan, {doing}: {error_text(type(problem).__name__)}") from problem


def error_text(name: str) -> str:
    """Return the name of a driver error, with a cure if one is known."""
    return f"{name}; cure: {_CURES[name]}" if name in _CURES else name


_CURES = {
    "VkErrorDeviceLost": "start the process anew; a kernel that runs for seconds without end is what drivers stop, so "
    "give it fewer iterations or steps",
    "VkErrorOutOfDeviceMemory": "smaller or fewer arrays, or sg.reset(), which gives adstacks and idle buffers back",
    "VkErrorOutOfHostMemory": "smaller or fewer arrays",
}


_OPENED: list[int] = []
"""Processes that have opened a card, this one or what it was forked from."""


def _refuse_after_fork() -> None:
    """Raise NoVulkanDevice in a fork of a process that had opened a device, since the driver cannot work there."""
    if _OPENED and _OPENED[-1] != os.getpid():
        raise NoVulkanDevice(
            "the process that this one was forked from has opened a card", "start processes by `spawn`"
        )


class VulkanDevice:
    """Represent an open Vulkan device, used as if it lacked the features in `masked`.

    The constructor raises Absent if there is no device, and DeviceError if the device does not open.
    """

    def __init__(self, wanted: str | None = None, masked: Sequence[str] = ()) -> None:
        _refuse_after_fork()
        self.vk = vk = _library()
        self.lock = threading.RLock()
        self.process = os.getpid()
        application = vk.VkApplicationInfo(pApplicationName="stackgrad", apiVersion=API)
        self.instance = self.handle = None
        self._set_layouts: dict[int, Any] = {}
        self.lost = False
        try:
            try:
                self.instance = vk.vkCreateInstance(vk.VkInstanceCreateInfo(pApplicationInfo=application), None)
                handles = list(vk.vkEnumeratePhysicalDevices(self.instance))
            except vk.VkError as problem:
                raise NoVulkanDevice(f"the Vulkan loader gives no device: {type(problem).__name__}", CURE) from problem
            wanted = os.environ.get(CHOICE, "") if wanted is None else wanted
            self.card = choose([card_of(vk, handle) for handle in handles], wanted).without(masked)
            with driver_errors(f"opening {self.card.name}"):
                self._open_queue()
        except BaseException:
            self._close()
            raise

    def _open_queue(self) -> None:
        vk = self.vk
        self.family = self._compute_family()
        self.handle = self._open()
        if not self.card.is_cpu:
            _OPENED.append(self.process)
        self.queue = vk.vkGetDeviceQueue(self.handle, self.family, 0)
        again = vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
        info = vk.VkCommandPoolCreateInfo(queueFamilyIndex=self.family, flags=again)
        self.commands = vk.vkCreateCommandPool(self.handle, info, None)

    def _close(self) -> None:
        """Close the device and the Vulkan instance after a failed start."""
        if self.handle is not None:
            self.vk.vkDestroyDevice(self.handle, None)
        if self.instance is not None:
            self.vk.vkDestroyInstance(self.instance, None)

    def _compute_family(self) -> int:
        families = self.vk.vkGetPhysicalDeviceQueueFamilyProperties(self.card.handle)
        found = compute_family([family.queueFlags for family in families])
        if found is None:
            raise NoVulkanDevice(f"{self.card.name} has no queue for compute shaders", "use another device or backend")
        return found

    def require(self) -> None:
        """Raise DeviceError if the device is lost or belongs to a parent process, so that nothing can run on it."""
        if self.process != os.getpid():
            raise DeviceError(
                f"{self.card.name} was opened by the process that this one was forked from; cure: compile the kernel "
                "in this process, or start it by `spawn`"
            )
        if self.lost:
            raise DeviceError(f"{self.card.name} was lost by a launch before; cure: {_CURES['VkErrorDeviceLost']}")

    @property
    def addressed(self) -> bool:
        """Return True if shaders of this device access memory by address."""
        return "bufferDeviceAddress" in self.card.has

    def _open(self) -> Any:
        vk, has = self.vk, self.card.has

        def on(kind: Any, prefix: str, names: Sequence[str], **more: Any) -> Any:
            return kind(**{name: vk.VK_TRUE for name in names if name in has}, **more)

        sums = ("shaderBufferFloat32Atomics", "shaderBufferFloat32AtomicAdd", "shaderBufferFloat64AtomicAdd")
        chain, extensions = None, []
        if has.intersection(sums):
            extensions.append("VK_EXT_shader_atomic_float")
            chain = on(vk.VkPhysicalDeviceShaderAtomicFloatFeaturesEXT, "", sums)
        chain = on(vk.VkPhysicalDeviceVulkan11Features, "", ("storageBuffer16BitAccess",), pNext=chain)
        second = (
            "bufferDeviceAddress",
            "shaderInt8",
            "storageBuffer8BitAccess",
            "shaderBufferInt64Atomics",
            "shaderSharedInt64Atomics",
            "timelineSemaphore",
            "shaderSubgroupExtendedTypes",
        )
        chain = on(vk.VkPhysicalDeviceVulkan12Features, "", second, pNext=chain)
        plain = on(vk.VkPhysicalDeviceFeatures, "", ("shaderInt64", "shaderFloat64", "shaderInt16"))
        queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=self.family, pQueuePriorities=[1.0])
        info = vk.VkDeviceCreateInfo(
            pNext=chain, pQueueCreateInfos=[queue], ppEnabledExtensionNames=extensions, pEnabledFeatures=plain
        )
        return vk.vkCreateDevice(self.card.handle, info, None)

    @cached_property
    def memory_types(self) -> list[tuple[int, int]]:
        """Return (number, heap bytes) of each host-visible and coherent memory type, device-local ones first."""
        vk = self.vk
        found = vk.vkGetPhysicalDeviceMemoryProperties(self.card.handle)
        needed = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
        types = [(k, found.memoryTypes[k]) for k in range(found.memoryTypeCount)]
        fit = [(k, t) for k, t in types if t.propertyFlags & needed == needed]
        fit.sort(key=lambda kt: not kt[1].propertyFlags & vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)
        return [(k, found.memoryHeaps[t.heapIndex].size) for k, t in fit]

    @cached_property
    def cached_types(self) -> list[int]:
        """Return the numbers of the memory types in `memory_types` that the host caches."""
        vk = self.vk
        found = vk.vkGetPhysicalDeviceMemoryProperties(self.card.handle)
        cached = vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT
        return [k for k, _ in self.memory_types if found.memoryTypes[k].propertyFlags & cached]

    @cached_property
    def local_types(self) -> list[int]:
        """Return the numbers of the memory types for memory that only the device accesses, best first."""
        vk = self.vk
        found = vk.vkGetPhysicalDeviceMemoryProperties(self.card.handle)
        local = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
        kinds = [k for k in range(found.memoryTypeCount) if found.memoryTypes[k].propertyFlags & local]
        return [*kinds, *(k for k, _ in self.memory_types if k not in kinds)]

    def pipelines(self, code: bytes, entries: Sequence[str], bindings: int = 0) -> tuple[Any, dict[str, Any]]:
        """Return the pipeline layout and the pipelines by entry point of a module with `bindings` storage buffers."""
        vk = self.vk
        with driver_errors("making pipelines"):
            module = vk.vkCreateShaderModule(
                self.handle, vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code), None
            )
            layout = None
            try:
                layout = self._pipeline_layout(bindings)
                with pipeline_cache(self, code, entries) as cache:
                    made = self._made(module, layout, entries, cache)
            except vk.VkError:  # Nothing is held when the DeviceError is raised.
                if layout is not None:
                    vk.vkDestroyPipelineLayout(self.handle, layout, None)
                raise
            finally:
                vk.vkDestroyShaderModule(self.handle, module, None)
        return layout, {name: made[k] for k, name in enumerate(entries)}

    def _pipeline_layout(self, bindings: int) -> Any:
        vk = self.vk
        pushed = vk.VkPushConstantRange(stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT, offset=0, size=8)
        sets = [self.set_layout(bindings)] if bindings else []
        info = vk.VkPipelineLayoutCreateInfo(pSetLayouts=sets, pPushConstantRanges=[pushed])
        return vk.vkCreatePipelineLayout(self.handle, info, None)

    def _made(self, module: Any, layout: Any, entries: Sequence[str], cache: Any) -> Any:
        vk, stage = self.vk, self.vk.VK_SHADER_STAGE_COMPUTE_BIT
        stages = [vk.VkPipelineShaderStageCreateInfo(stage=stage, module=module, pName=name) for name in entries]
        infos = [vk.VkComputePipelineCreateInfo(layout=layout, stage=one) for one in stages]
        made = vk.vkCreateComputePipelines(self.handle, cache, len(infos), infos, None)
        del stages  # each holds the name of its entry point, which its copy in an info points to
        return made

    def set_layout(self, bindings: int) -> Any:
        """Return the descriptor set layout with `bindings` storage buffers, which all kernels share."""
        vk = self.vk
        if bindings not in self._set_layouts:
            kind, stage = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, vk.VK_SHADER_STAGE_COMPUTE_BIT
            buffers = [
                vk.VkDescriptorSetLayoutBinding(binding=k, descriptorType=kind, descriptorCount=1, stageFlags=stage)
                for k in range(bindings)
            ]
            info = vk.VkDescriptorSetLayoutCreateInfo(pBindings=buffers)
            self._set_layouts[bindings] = vk.vkCreateDescriptorSetLayout(self.handle, info, None)
        return self._set_layouts[bindings]

    def destroy(self, layout: Any, pipelines: dict[str, Any]) -> None:
        """Destroy a pipeline layout and its pipelines, which no launch may use any more."""
        for pipeline in pipelines.values():
            self.vk.vkDestroyPipeline(self.handle, pipeline, None)
        self.vk.vkDestroyPipelineLayout(self.handle, layout, None)
