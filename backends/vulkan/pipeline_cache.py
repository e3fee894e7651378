"""What a driver made of a module, kept on disk for the next process, beside machine code of the CPU.

An entry is the content of a VkPipelineCache, by device, driver and module. Drivers look at the head of such data before
they use it, and the cache on disk gives out only what it wrote; so whatever else is there is the same as nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .. import disk_cache

if TYPE_CHECKING:
    from .device import Device

HEAD = 32
"""Bytes of data that holds no pipeline."""


@contextmanager
def pipeline_cache(device: Device, code: bytes, entries: Sequence[str]) -> Iterator[Any]:
    """A VkPipelineCache for the pipelines of a module, with what is known of them; what is new in it is kept."""
    vk, disk = device.vk, disk_cache.active()
    if disk is None:
        yield vk.VK_NULL_HANDLE
        return
    key = disk_cache.key("pipelines", *identity(device), code, *entries)
    known = disk.get(key) or b""
    cache = _made(device, known)
    try:
        yield cache
        content = content_of(device, cache)
        if len(content) > HEAD and content != known:
            disk.put(key, content)
    finally:
        vk.vkDestroyPipelineCache(device.handle, cache, None)


def _made(device: Device, known: bytes) -> Any:
    """Filled, or empty where the driver refuses what is known."""
    vk = device.vk
    for content in (known, b"") if known else (b"",):
        memory = vk.ffi.from_buffer(content) if content else None
        info = vk.VkPipelineCacheCreateInfo(initialDataSize=len(content), pInitialData=memory)
        try:
            return vk.vkCreatePipelineCache(device.handle, info, None)
        except vk.VkError:
            if not content:
                raise
    raise AssertionError("an empty cache is refused by an exception")


def identity(device: Device) -> tuple[str, ...]:
    """What of the device and its driver decides whether pipelines fit."""
    found = device.vk.vkGetPhysicalDeviceProperties(device.card.handle)
    unique = bytes(found.pipelineCacheUUID).hex()
    return unique, str(found.vendorID), str(found.deviceID), str(found.driverVersion)


def content_of(device: Device, cache: Any) -> bytes:
    """The data of a cache; empty if the driver does not give it."""
    vk, size = device.vk, device.vk.ffi.new("size_t *")
    get = vk.lib.vkGetPipelineCacheData
    if get(device.handle, cache, size, vk.ffi.NULL) != vk.VK_SUCCESS or not size[0]:
        return b""
    memory = vk.ffi.new("char[]", size[0])
    complete = get(device.handle, cache, size, memory) == vk.VK_SUCCESS
    return bytes(vk.ffi.buffer(memory, size[0])) if complete else b""
