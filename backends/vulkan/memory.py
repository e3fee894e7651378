"""This module allocates device memory that the host can access: buffers, a pool of them, and the adstack heap.

A buffer is mapped as long as it lives, so the host reads and writes it as bytes. No buffer without memory is ever
handed out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...compiler.errors import DeviceError
from ..base import SLABS
from ..heap import HeapRefusal
from .device import VulkanDevice, driver_errors

LEAST = 4096
_ADDRESSED, _ALLOCATE_ADDRESSED = 0x20000, 2
"""VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT, VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT: the package does not name them."""
KEPT = 1 << 28
"""Greatest number of bytes of idle buffers that a pool keeps."""


class Buffer:
    """Represent one Vulkan buffer with its memory. The constructor raises DeviceError if memory is short.

    Attributes:
        device: Vulkan device that the buffer belongs to
        size: number of bytes
        hidden: the host never looks at the memory, so it may lie where only the device reaches
        kind: number of the memory type that the buffer has
        view: bytes as the host sees them, unless the buffer is hidden
        address: address for the device, if the device has addresses
    """

    def __init__(
        self, device: VulkanDevice, size: int, hidden: bool = False, kinds: Sequence[int] | None = None
    ) -> None:
        self.device, self.size, self.hidden = device, size, hidden
        self._kinds = kinds
        self.kind = -1
        vk = device.vk
        indirect, addressed = vk.VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT, _ADDRESSED if device.addressed else 0
        copied = vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
        usage = vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | copied | indirect | addressed
        self._memory: Any = None
        with driver_errors(f"a buffer of {size} bytes"):
            info = vk.VkBufferCreateInfo(size=size, usage=usage, sharingMode=vk.VK_SHARING_MODE_EXCLUSIVE)
            self._handle = vk.vkCreateBuffer(device.handle, info, None)
            try:
                self._bind()
            except BaseException:
                self.free()
                raise

    @property
    def handle(self) -> Any:
        """Return the Vulkan handle (VkBuffer) of the buffer."""
        return self._handle

    def _bind(self) -> None:
        """Allocate memory, bind it to the buffer, and map it for the host unless only the device uses it."""
        device, vk = self.device, self.device.vk
        needs = vk.vkGetBufferMemoryRequirements(device.handle, self._handle)
        kinds = self._kinds
        if kinds is None:
            kinds = device.local_types if self.hidden else [k for k, _ in device.memory_types]
        self._memory = self._allocate(needs.size, [k for k in kinds if needs.memoryTypeBits >> k & 1])
        vk.vkBindBufferMemory(device.handle, self._handle, self._memory, 0)
        if not self.hidden:
            self.view = memoryview(vk.vkMapMemory(device.handle, self._memory, 0, self.size, 0))
        self.address = self._address() if device.addressed else 0

    def _address(self) -> int:
        """Return the device address of the first byte."""
        vk = self.device.vk
        place = vk.VkBufferDeviceAddressInfo(buffer=self._handle)
        found: int = vk.lib.vkGetBufferDeviceAddress(self.device.handle, vk.ffi.addressof(place))
        return found

    def _allocate(self, size: int, kinds: Sequence[int]) -> Any:
        """Allocate memory of the first of the given memory types that has enough left, and return it."""
        device, vk = self.device, self.device.vk
        flags = vk.VkMemoryAllocateFlagsInfo(flags=_ALLOCATE_ADDRESSED) if device.addressed else None
        for place, kind in enumerate(kinds, 1):
            info = vk.VkMemoryAllocateInfo(pNext=flags, allocationSize=size, memoryTypeIndex=kind)
            try:
                self.kind = kind
                return vk.vkAllocateMemory(device.handle, info, None)
            except vk.VkErrorOutOfDeviceMemory:
                if place == len(kinds):
                    raise
        raise DeviceError(f"{device.card.name} has no memory that the host can write")

    def free(self) -> None:
        """Free the buffer and its memory, which no launch may still use."""
        vk, handle = self.device.vk, self.device.handle
        vk.vkDestroyBuffer(handle, self._handle, None)
        if self._memory is not None:
            vk.vkFreeMemory(handle, self._memory, None)


class DeviceLocalMemory:
    """Allocate memory that only the device accesses, identified by its device address."""

    def __init__(self, device: VulkanDevice, wait: Callable[[], None]) -> None:
        self.device = device
        self._wait = wait
        self._buffers: dict[int, Buffer] = {}

    def allocate(self, size: int) -> int:
        """Allocate device-only memory and return its device address. Raise DeviceError if there is not enough."""
        made = Buffer(self.device, size, hidden=True)
        self._buffers[made.address] = made
        return made.address

    def free(self, address: int) -> None:
        """Free the memory at a device address. No launch may still use it."""
        self._buffers.pop(address).free()

    def free_memory(self) -> tuple[int, int]:
        """Return the bytes of device memory that this object has not allocated, and the bytes of all device memory."""
        total = self.device.memory_types[0][1]
        return total - sum(buffer.size for buffer in self._buffers.values()), total

    def wait(self, stream: int | None = None) -> None:
        """Wait for all work in flight. The argument has no effect, because there is one stream."""
        self._wait()


@dataclass
class BufferPool:
    """Keep idle buffers for reuse, sorted by size. Sizes are powers of two.

    A finalizer that the garbage collector runs while the lock is held may take the lock again.
    """

    device: VulkanDevice
    idle: dict[int, list[Buffer]] = field(default_factory=dict)
    kept: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def take(self, size: int) -> Buffer:
        """Return a buffer of at least `size` bytes, not initialized."""
        rounded = max(LEAST, 1 << (size - 1).bit_length())
        with self.lock:
            found = self.idle.get(rounded)
            if found:
                self.kept -= rounded
                return found.pop()
        return Buffer(self.device, rounded)

    def give(self, buffer: Buffer) -> None:
        """Put a buffer back into the pool for reuse."""
        with self.lock:
            if self.kept + buffer.size <= KEPT:
                self.kept += buffer.size
                self.idle.setdefault(buffer.size, []).append(buffer)
                return
        buffer.free()

    def clear(self) -> None:
        """Free all idle buffers of the pool."""
        with self.lock:
            buffers, self.idle, self.kept = [b for found in self.idle.values() for b in found], {}, 0
        for buffer in buffers:
            buffer.free()


@dataclass
class VulkanHeap:
    """Hold the slabs of the adstack heap, one buffer each. A slab that grows loses its values.

    Attributes:
        device: Vulkan device whose memory the slabs use
        limit: greatest number of bytes of all slabs; None for what the memory of the device holds
        slabs: buffer of each slab that has one
        peak: greatest number of bytes of each slab since the last reset
        void: memory on which stacks without slots are read
    """

    device: VulkanDevice
    limit: int | None = None
    slabs: dict[str, Buffer] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)
    void: Buffer | None = None

    def reserve(self, needs: Mapping[str, int]) -> bool:
        """Make every slab at least as large as needed, and return True if a slab had to grow.

        Raises:
            HeapRefusal: if there is not enough memory
        """
        grown = {name: need for name, need in needs.items() if need > self.held(name)}
        if not grown:
            return False
        room, owner = self.most_bytes()
        kept = sum(self.held(name) for name in SLABS if name not in grown)
        if kept + sum(grown.values()) > room:
            raise HeapRefusal(f"{_worded(needs)}, and {owner} {room} bytes")
        for name, need in grown.items():
            self._grow(name, need, room - kept - sum(grown.values()) + need, needs)
        return True

    def most_bytes(self) -> tuple[int, str]:
        """Return the most bytes that all slabs together can ever have, and a text that explains this limit."""
        if self.limit is not None:
            return self.limit, "the heap is limited to"
        return self.device.memory_types[0][1], f"{self.device.card.name} has"

    def _grow(self, name: str, need: int, spare: int, needs: Mapping[str, int]) -> None:
        """Replace a slab by one of `need` bytes, or of 1.5 times its old size if that is more and not above `spare`."""
        ample = self.held(name) + self.held(name) // 2
        old = self.slabs.pop(name, None)
        # The content is not kept, so the old memory is free for the new slab.
        if old is not None:
            old.free()
        size = ample if need < ample <= spare else need
        try:
            self.slabs[name] = Buffer(self.device, -(-size // LEAST) * LEAST)
        except DeviceError as problem:
            raise HeapRefusal(f"{_worded(needs)}, and the device refuses them: {problem}") from problem
        self.peak[name] = max(self.peak.get(name, 0), self.slabs[name].size)

    def held(self, name: str) -> int:
        """Return the size of a slab in bytes."""
        return self.slabs[name].size if name in self.slabs else 0

    def base(self, name: str) -> int:
        """Return the device address of a slab."""
        return self.buffer(name).address

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of a slab, or a small dummy buffer if the slab is empty."""
        if name in self.slabs:
            return self.slabs[name]
        if self.void is None:
            self.void = Buffer(self.device, LEAST)
        return self.void

    def report(self) -> dict[str, dict[str, int]]:
        """Return current and peak bytes of each slab, as {"real": {"current": bytes, "peak": bytes}, ...}."""
        return {name: {"current": self.held(name), "peak": self.peak.get(name, 0)} for name in SLABS}

    def reset(self) -> None:
        """Free all memory and forget the peaks."""
        for buffer in (*self.slabs.values(), *([self.void] if self.void else [])):
            buffer.free()
        self.slabs, self.peak, self.void = {}, {}, None


def _worded(needs: Mapping[str, int]) -> str:
    """Return the part of an error message that states how many bytes the adstacks need."""
    sizes = ", ".join(f"{need} bytes of {name} slots" for name, need in needs.items() if need)
    return f"the adstacks need {sizes}"
