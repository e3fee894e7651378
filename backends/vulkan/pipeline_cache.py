"""This module stores on disk the pipelines that a driver has compiled, so that later processes can load them.

An entry is the data of a VkPipelineCache, by device, driver and module. Drivers look at the head of such data before
they use it, and the cache on disk returns only what it wrote; so any other data counts as no data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .. import disk_cache

if TYPE_CHECKING:
    from .device import VulkanDevice

HEAD = 32
"""Bytes of data that holds no pipeline."""


@contextmanager
def pipeline_cache(device: VulkanDevice, code: bytes, entries: Sequence[str]) -> Iterator[Any]:
    """Yield a VkPipelineCache with stored pipelines of a module, and store new pipelines after the `with` block."""
    vk, disk = device.vk, disk_cache.active_cache()
    if disk is None:
        yield vk.VK_NULL_HANDLE
        return
    key = disk_cache.entry_key("pipelines", *identity(device), code, *entries)
    known = disk.get(key) or b""
    cache = _made(device, known)
    try:
        yield cache
        content = content_of(device, cache)
        if len(content) > HEAD and content != known:
            disk.put(key, content)
    finally:
        vk.vkDestroyPipelineCache(device.handle, cache, None)


def _made(device: VulkanDevice, known: bytes) -> Any:
    """Return a VkPipelineCache with the stored data, or an empty one if the driver rejects the data."""
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


def identity(device: VulkanDevice) -> tuple[str, ...]:
    """Return the properties of device and driver on which the validity of stored pipelines depends."""
    found = device.vk.vkGetPhysicalDeviceProperties(device.card.handle)
    unique = bytes(found.pipelineCacheUUID).hex()
    return unique, str(found.vendorID), str(found.deviceID), str(found.driverVersion)


def content_of(device: VulkanDevice, cache: Any) -> bytes:
    """Return the data of a VkPipelineCache, or empty bytes if the driver does not supply them."""
    vk, size = device.vk, device.vk.ffi.new("size_t *")
    get = vk.lib.vkGetPipelineCacheData
    if get(device.handle, cache, size, vk.ffi.NULL) != vk.VK_SUCCESS or not size[0]:
        return b""
    memory = vk.ffi.new("char[]", size[0])
    complete = get(device.handle, cache, size, memory) == vk.VK_SUCCESS
    return bytes(vk.ffi.buffer(memory, size[0])) if complete else b""
