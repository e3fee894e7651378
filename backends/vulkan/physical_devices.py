"""This module describes the physical devices that the Vulkan driver reports, and chooses one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...compiler.errors import DeviceError
from ..spirv.emit import ShaderFeatures
from ..spirv.quirks import quirks_of

CHOICE = "STACKGRAD_VULKAN_DEVICE"
"""Name of the environment variable that holds the number of the device to use, or a part of its name."""

API = 1 << 22 | 2 << 12
"""Vulkan 1.2."""

_KINDS = {2: 0, 1: 1, 3: 2, 4: 3}
"""Rank of each kind of device by Vulkan's number: discrete GPUs, integrated GPUs, virtual GPUs, CPUs."""

_PREFIXES = ("shader", "buffer", "storage", "timeline")
_MODES = ("SignedZeroInfNanPreserve", "DenormPreserve", "RoundingModeRTE")
_MOST_BUFFERS = 64
"""Maximum number of storage buffers in a descriptor set. Arrays of kernels with more arrays share buffers."""

CURE = "install a Vulkan driver (`apt-get install mesa-vulkan-drivers` brings lavapipe, which runs on CPUs)"
"""Cure of the error that there is no device."""

_RAW = {
    "int8": ("shaderInt8", "storageBuffer8BitAccess"),
    "int16": ("shaderInt16", "storageBuffer16BitAccess"),
    "float64": ("shaderFloat64",),
    "int64": ("shaderInt64",),
    "int64_atomics": ("shaderInt64", "shaderBufferInt64Atomics"),
    "shared_int64_atomics": ("shaderInt64", "shaderBufferInt64Atomics", "shaderSharedInt64Atomics"),
    "float32_add": ("shaderBufferFloat32AtomicAdd",),
    "float64_add": ("shaderBufferFloat64AtomicAdd",),
    "buffer_addresses": ("bufferDeviceAddress",),
    "subgroups": ("subgroups",),
    "wide_subgroups": ("shaderInt64", "subgroups", "shaderSubgroupExtendedTypes"),
}
"""The features of the driver that each feature of kernels needs."""

MASKABLE = (*_RAW, "modes")
"""Names of the features that a device can be opened without."""


class NoVulkanDevice(DeviceError):
    """Signal that there is no Vulkan device to use, with the reason and a cure."""

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(f"{reason}; cure: {cure}")
        self.reason, self.cure = reason, cure


@dataclass(frozen=True)
class PhysicalDevice:
    """Represent a physical device with its name, limits and features.

    Attributes:
        handle: Handle of the driver.
        name: Name of the device.
        kind: Vulkan's number of the kind of device; 4 is a CPU.
        version: Version of Vulkan that the device supports.
        has: Names of the features of the driver that the device has.
        modes: Controls of floating-point numbers, each with the width in bits of a type for which it exists.
        missing: What the device lacks to be used at all.
        storage_buffers: Maximum number of storage buffers of a shader.
        reach: Number of bytes of a storage buffer that a shader can access.
        alignment: Alignment in bytes of the beginning of a storage buffer.
        vendor: Number of the vendor.
        most_block: Greatest number of threads of a workgroup.
        shared_bytes: Bytes of memory that the threads of a workgroup share.
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
    most_block: int = 128
    shared_bytes: int = 1 << 14

    @property
    def is_cpu(self) -> bool:
        """Return True if the device runs kernels on the CPU."""
        return self.kind == 4

    @property
    def features(self) -> ShaderFeatures:
        """Return the features that kernels may use."""
        found = {name: self.has.issuperset(raw) for name, raw in _RAW.items()}
        quirks = quirks_of(self.name, self.vendor, self.modes)
        return ShaderFeatures(
            **found, storage_buffers=self.storage_buffers, abreast=not self.is_cpu, quirks=quirks, modes=self.modes
        )

    def without(self, masked: Sequence[str]) -> PhysicalDevice:
        """Return the description of the device as if it lacked the named features.

        Raises:
            DeviceError: a name is not the name of a feature.
        """
        for name in masked:
            if name not in MASKABLE:
                raise DeviceError(f"there is no feature {name!r} to mask; there are: {', '.join(MASKABLE)}")
        gone = {_RAW[name][-1] for name in masked if name in _RAW}
        if "shaderInt64" in gone:
            gone |= {"shaderBufferInt64Atomics", "shaderSharedInt64Atomics"}
        modes = () if "modes" in masked else self.modes
        return replace(self, has=self.has - gone, modes=modes)


def _fields(vk: Any, record: Any) -> set[str]:
    """Return the names of the features that are set in a Vulkan feature structure."""
    names = [name for name, _ in vk.ffi.typeof(record).fields]
    return {name for name in names if name.startswith(_PREFIXES) and getattr(record, name)}


def card_of(vk: Any, handle: Any) -> PhysicalDevice:
    """Return the description of a physical device, read from the driver."""
    properties = vk.vkGetPhysicalDeviceProperties(handle)
    version = properties.apiVersion
    text = f"{version >> 22}.{version >> 12 & 0x3FF}.{version & 0xFFF}"
    if version < API:
        missing: tuple[str, ...] = (f"Vulkan 1.2 (it has {text})",)
        return PhysicalDevice(handle, properties.deviceName, properties.deviceType, text, frozenset(), (), missing)
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
    return PhysicalDevice(
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
        min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]),
        limits.maxComputeSharedMemorySize,
    )


def _subgroups(vk: Any, handle: Any) -> set[str]:
    """Return {"subgroups"} if shaders can sum up and vote over a subgroup, and an empty set if they cannot."""
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


def choose(cards: Sequence[PhysicalDevice], wanted: str = "") -> PhysicalDevice:
    """Return the physical device to use, by name or else the best one.

    Args:
        cards: Cards of all devices, in the order of the driver.
        wanted: Number of a device in this order, or a part of its name; if empty, the first card of the best kind
            is chosen.

    Raises:
        NoVulkanDevice: there is no such device, or it cannot run kernels.
    """
    if wanted:
        found = [c for k, c in enumerate(cards) if wanted == str(k) or wanted.lower() in c.name.lower()]
        if not found:
            names = ", ".join(c.name for c in cards) or "none"
            raise NoVulkanDevice(f"{CHOICE} is {wanted!r}, and the devices are: {names}", f"unset {CHOICE}")
    else:
        found = sorted(cards, key=lambda c: (bool(c.missing), _KINDS.get(c.kind, 9)))
    if not found:
        raise NoVulkanDevice("the Vulkan loader knows no device", CURE)
    if found[0].missing:
        raise NoVulkanDevice(
            f"{found[0].name} has no {', no '.join(found[0].missing)}", "use another device or backend"
        )
    return found[0]
