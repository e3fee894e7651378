"""Cards: the physical devices that the driver knows, what each can do, and which one is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...compiler.errors import DeviceError
from ..spirv.emit import Features
from ..spirv.quirks import quirks_of

CHOICE = "STACKGRAD_VULKAN_DEVICE"
"""Part of the name of the device to use, or its number."""

API = 1 << 22 | 2 << 12
"""Vulkan 1.2."""

_KINDS = {2: 0, 1: 1, 3: 2, 4: 3}
"""Discrete, integrated, virtual, CPU: in this order."""

_PREFIXES = ("shader", "buffer", "storage", "timeline")
_MODES = ("SignedZeroInfNanPreserve", "DenormPreserve", "RoundingModeRTE")
_MOST_BUFFERS = 64
"""Storage buffers of a shader: what a descriptor set is made for. Kernels with more arrays let some share one."""

CURE = "install a Vulkan driver (`apt-get install mesa-vulkan-drivers` brings lavapipe, which runs on CPUs)"
"""Of there being no card."""

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


def card_of(vk: Any, handle: Any) -> Card:
    """What the driver says of a physical device."""
    properties = vk.vkGetPhysicalDeviceProperties(handle)
    version = properties.apiVersion
    text = f"{version >> 22}.{version >> 12 & 0x3FF}.{version & 0xFFF}"
    if version < API:
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
    """The word "subgroups" if those of compute shaders choose one of their threads, add up and tell all."""
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
        raise Absent("the Vulkan loader knows no device", CURE)
    if found[0].missing:
        raise Absent(f"{found[0].name} has no {', no '.join(found[0].missing)}", "use another device or backend")
    return found[0]
