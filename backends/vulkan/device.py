"""The Vulkan device: which one is chosen, what it can do, its queue, its memory and its pipelines.

One device for a process, opened when it is first asked for. It is used by one launch at a time. Every error of the
driver becomes a DeviceError; what cannot be opened says why and how to get it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...compiler.errors import DeviceError
from ..spirv.emit import Features
from ..spirv.quirks import quirks_of
from .families import compute_family
from .pipeline_cache import pipeline_cache

CHOICE = "STACKGRAD_VULKAN_DEVICE"
"""Part of the name of the device to use, or its number."""

_API = 1 << 22 | 2 << 12
_KINDS = {2: 0, 1: 1, 3: 2, 4: 3}
"""Discrete, integrated, virtual, CPU: in this order."""

_PREFIXES = ("shader", "buffer", "storage", "timeline")
_MODES = ("SignedZeroInfNanPreserve", "DenormPreserve", "RoundingModeRTE")
_MOST_BUFFERS = 64
"""Storage buffers of a shader: what a descriptor set is made for. Kernels with more arrays let some share one."""

_CURE = "install a Vulkan driver (`apt-get install mesa-vulkan-drivers` brings lavapipe, which runs on CPUs)"


_RAW = {
    "int8": ("shaderInt8", "storageBuffer8BitAccess"),
    "int16": ("shaderInt16", "storageBuffer16BitAccess"),
    "float64": ("shaderFloat64",),
    "int64": ("shaderInt64",),
    "int64_atomics": ("shaderInt64", "shaderBufferInt64Atomics"),
    "float32_add": ("shaderBufferFloat32AtomicAdd",),
    "float64_add": ("shaderBufferFloat64AtomicAdd",),
    "buffer_addresses": ("bufferDeviceAddress",),
    "subgroups": ("subgroups",),
    "wide_subgroups": ("shaderInt64", "subgroups", "shaderSubgroupExtendedTypes"),
}
"""Features of kernels, and those of the driver that make one up."""

MASKABLE = (*_RAW, "modes")
"""Names of what a device can be opened without."""


class Absent(DeviceError):
    """There is no device to use: the reason, and the cure."""

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(f"{reason}; cure: {cure}")
        self.reason, self.cure = reason, cure


def _library() -> Any:
    """The `vulkan` package. Absent if it is not installed, or finds no loader."""
    try:
        import vulkan
    except ImportError as problem:
        raise Absent("the Python package `vulkan` is missing", "pip install vulkan") from problem
    except OSError as problem:
        raise Absent(f"no Vulkan loader: {problem}", "apt-get install libvulkan1") from problem
    if not hasattr(vulkan, "VkApplicationInfo"):  # a folder of that name on the path of modules
        raise Absent(f"what is called `vulkan` here is not the package: {vulkan!r}", "pip install vulkan")
    return vulkan


@contextmanager
def refusals(doing: str, device: Device | None = None) -> Iterator[None]:
    """Errors of the driver as DeviceError. device: what is lost where the driver says so."""
    vk = _library()
    try:
        yield
    except vk.VkError as problem:
        if device is not None and isinstance(problem, vk.VkErrorDeviceLost):
            device.lost = True
        raise DeviceError(f"Vulkan, {doing}: {worded(type(problem).__name__)}") from problem


def worded(name: str) -> str:
    """The name of an error, and what can be done where something can."""
    return f"{name}; cure: {_CURES[name]}" if name in _CURES else name


_CURES = {
    "VkErrorDeviceLost": "start the process anew; a kernel that runs for seconds without end is what drivers stop, so "
    "give it fewer iterations or steps",
    "VkErrorOutOfDeviceMemory": "smaller or fewer arrays, or sg.reset(), which gives adstacks and idle buffers back",
    "VkErrorOutOfHostMemory": "smaller or fewer arrays",
}


@dataclass(frozen=True)
class Card:
    """A physical device: its handle, name, kind (4: a CPU), version, features by name, and what is missing of it.

    storage_buffers: how many a shader may have; reach: bytes of one that it sees; alignment: of where one begins.
    vendor: its number.
    """

    handle: Any
    name: str
    kind: int
    version: str
    has: frozenset[str]
    modes: tuple[tuple[str, int], ...]
    missing: tuple[str, ...]
    storage_buffers: int = 4
    reach: int = 1 << 27
    alignment: int = 256
    vendor: int = 0

    @property
    def is_cpu(self) -> bool:
        return self.kind == 4

    @property
    def features(self) -> Features:
        """What kernels may use."""
        found = {name: self.has.issuperset(raw) for name, raw in _RAW.items()}
        quirks = quirks_of(self.name, self.vendor, self.modes)
        return Features(
            **found, storage_buffers=self.storage_buffers, abreast=not self.is_cpu, quirks=quirks, modes=self.modes
        )

    def without(self, masked: Sequence[str]) -> Card:
        """The card as if it lacked these features. Raises DeviceError for a name that is none."""
        for name in masked:
            if name not in MASKABLE:
                raise DeviceError(f"there is no feature {name!r} to mask; there are: {', '.join(MASKABLE)}")
        gone = {_RAW[name][-1] for name in masked if name in _RAW}
        if "shaderInt64" in gone:
            gone.add("shaderBufferInt64Atomics")
        modes = () if "modes" in masked else self.modes
        return replace(self, has=self.has - gone, modes=modes)


def _fields(vk: Any, record: Any) -> set[str]:
    """Names of the features that are on in a record."""
    names = [name for name, _ in vk.ffi.typeof(record).fields]
    return {name for name in names if name.startswith(_PREFIXES) and getattr(record, name)}


def _card(vk: Any, handle: Any) -> Card:
    properties = vk.vkGetPhysicalDeviceProperties(handle)
    version = properties.apiVersion
    text = f"{version >> 22}.{version >> 12 & 0x3FF}.{version & 0xFFF}"
    if version < _API:
        missing: tuple[str, ...] = (f"Vulkan 1.2 (it has {text})",)
        return Card(handle, properties.deviceName, properties.deviceType, text, frozenset(), (), missing)
    extensions = {e.extensionName for e in vk.vkEnumerateDeviceExtensionProperties(handle, None)}
    sums = vk.VkPhysicalDeviceShaderAtomicFloatFeaturesEXT()
    first = vk.VkPhysicalDeviceVulkan11Features(pNext=sums)
    second = vk.VkPhysicalDeviceVulkan12Features(pNext=first)
    whole = vk.VkPhysicalDeviceFeatures2(pNext=second)
    vk.vkGetPhysicalDeviceFeatures2(handle, whole)
    has = _fields(vk, whole.features) | _fields(vk, first) | _fields(vk, second)
    if "VK_EXT_shader_atomic_float" in extensions:
        has |= _fields(vk, sums)
    has |= _subgroups(vk, handle)
    kind, limits = properties.deviceType, properties.limits
    return Card(
        handle,
        properties.deviceName,
        kind,
        text,
        frozenset(has),
        _modes(vk, handle),
        (),
        min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers, _MOST_BUFFERS),
        limits.maxStorageBufferRange,
        limits.minStorageBufferOffsetAlignment,
        properties.vendorID,
    )


def _subgroups(vk: Any, handle: Any) -> set[str]:
    """ "subgroups" if those of compute shaders choose one of their threads, add up and tell all."""
    found = vk.VkPhysicalDeviceVulkan11Properties()
    vk.vkGetPhysicalDeviceProperties2(handle, vk.VkPhysicalDeviceProperties2(pNext=found))
    wanted = (
        vk.VK_SUBGROUP_FEATURE_BASIC_BIT | vk.VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | vk.VK_SUBGROUP_FEATURE_BALLOT_BIT
    )
    has_all = found.subgroupSupportedOperations & wanted == wanted
    return {"subgroups"} if has_all and found.subgroupSupportedStages & vk.VK_SHADER_STAGE_COMPUTE_BIT else set()


def _modes(vk: Any, handle: Any) -> tuple[tuple[str, int], ...]:
    controls = vk.VkPhysicalDeviceVulkan12Properties()
    vk.vkGetPhysicalDeviceProperties2(handle, vk.VkPhysicalDeviceProperties2(pNext=controls))
    return tuple(
        (mode, width) for mode in _MODES for width in (32, 64) if getattr(controls, f"shader{mode}Float{width}")
    )


def choose(cards: Sequence[Card], wanted: str = "") -> Card:
    """The card to use: that of the wanted number or name, else the first of the best kind. Raises Absent."""
    if wanted:
        found = [c for k, c in enumerate(cards) if wanted == str(k) or wanted.lower() in c.name.lower()]
        if not found:
            names = ", ".join(c.name for c in cards) or "none"
            raise Absent(f"{CHOICE} is {wanted!r}, and the devices are: {names}", f"unset {CHOICE}")
    else:
        found = sorted(cards, key=lambda c: (bool(c.missing), _KINDS.get(c.kind, 9)))
    if not found:
        raise Absent("the Vulkan loader knows no device", _CURE)
    if found[0].missing:
        raise Absent(f"{found[0].name} has no {', no '.join(found[0].missing)}", "use another device or backend")
    return found[0]


_OPENED: list[int] = []
"""Processes that have opened a card, this one or what it was forked from."""


def _refuse_after_fork() -> None:
    """Raise Absent where a driver of a card was in use before a fork: it then opens nothing, or waits for ever."""
    if _OPENED and _OPENED[-1] != os.getpid():
        raise Absent("the process that this one was forked from has opened a card", "start processes by `spawn`")


class Device:
    """An open device. Raises Absent if there is none, DeviceError if it does not open; it holds nothing then.

    masked: features that it is opened without.
    """

    def __init__(self, wanted: str | None = None, masked: Sequence[str] = ()) -> None:
        _refuse_after_fork()
        self.vk = vk = _library()
        self.lock = threading.RLock()
        self.process = os.getpid()
        application = vk.VkApplicationInfo(pApplicationName="stackgrad", apiVersion=_API)
        self.instance = self.handle = None
        self._set_layouts: dict[int, Any] = {}
        self.lost = False
        try:
            try:
                self.instance = vk.vkCreateInstance(vk.VkInstanceCreateInfo(pApplicationInfo=application), None)
                handles = list(vk.vkEnumeratePhysicalDevices(self.instance))
            except vk.VkError as problem:
                raise Absent(f"the Vulkan loader gives no device: {type(problem).__name__}", _CURE) from problem
            wanted = os.environ.get(CHOICE, "") if wanted is None else wanted
            self.card = choose([_card(vk, handle) for handle in handles], wanted).without(masked)
            with refusals(f"opening {self.card.name}"):
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
        """Give back what was opened, before anything was made of it."""
        if self.handle is not None:
            self.vk.vkDestroyDevice(self.handle, None)
        if self.instance is not None:
            self.vk.vkDestroyInstance(self.instance, None)

    def _compute_family(self) -> int:
        families = self.vk.vkGetPhysicalDeviceQueueFamilyProperties(self.card.handle)
        found = compute_family([family.queueFlags for family in families])
        if found is None:
            raise Absent(f"{self.card.name} has no queue for compute shaders", "use another device or backend")
        return found

    def require(self) -> None:
        """Raise DeviceError where nothing can run on it any more."""
        if self.process != os.getpid():
            raise DeviceError(
                f"{self.card.name} was opened by the process that this one was forked from; cure: compile the kernel "
                "in this process, or start it by `spawn`"
            )
        if self.lost:
            raise DeviceError(f"{self.card.name} was lost by a launch before; cure: {_CURES['VkErrorDeviceLost']}")

    @property
    def addressed(self) -> bool:
        """Whether shaders reach memory by address."""
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
        """(number, bytes of its heap) of the types that the host can write and that need no flush, best first."""
        vk = self.vk
        found = vk.vkGetPhysicalDeviceMemoryProperties(self.card.handle)
        needed = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
        types = [(k, found.memoryTypes[k]) for k in range(found.memoryTypeCount)]
        fit = [(k, t) for k, t in types if t.propertyFlags & needed == needed]
        fit.sort(key=lambda kt: not kt[1].propertyFlags & vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)
        return [(k, found.memoryHeaps[t.heapIndex].size) for k, t in fit]

    @cached_property
    def cached_types(self) -> list[int]:
        """Numbers of those types of `memory_types` that the host reads fast."""
        vk = self.vk
        found = vk.vkGetPhysicalDeviceMemoryProperties(self.card.handle)
        cached = vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT
        return [k for k, _ in self.memory_types if found.memoryTypes[k].propertyFlags & cached]

    @cached_property
    def local_types(self) -> list[int]:
        """Numbers of the types of memory for what the device alone touches, best first."""
        vk = self.vk
        found = vk.vkGetPhysicalDeviceMemoryProperties(self.card.handle)
        local = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
        kinds = [k for k in range(found.memoryTypeCount) if found.memoryTypes[k].propertyFlags & local]
        return [*kinds, *(k for k, _ in self.memory_types if k not in kinds)]

    # -- programs -------------------------------------------------------------------------------------------

    def pipelines(self, code: bytes, entries: Sequence[str], bindings: int = 0) -> tuple[Any, dict[str, Any]]:
        """(pipeline layout, pipeline by entry point) of a module. bindings: storage buffers that it names.

        Raises DeviceError, and holds nothing then.
        """
        vk = self.vk
        with refusals("making pipelines"):
            module = vk.vkCreateShaderModule(
                self.handle, vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code), None
            )
            layout = None
            try:
                layout = self._pipeline_layout(bindings)
                with pipeline_cache(self, code, entries) as cache:
                    made = self._made(module, layout, entries, cache)
            except vk.VkError:
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
        """The layout of descriptor sets with so many storage buffers; one for all kernels, as long as the device."""
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
        """Give what `pipelines` made back. No launch may use it."""
        for pipeline in pipelines.values():
            self.vk.vkDestroyPipeline(self.handle, pipeline, None)
        self.vk.vkDestroyPipelineLayout(self.handle, layout, None)
