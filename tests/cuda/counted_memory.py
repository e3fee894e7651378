"""A device whose memory functions check that memory is freed correctly."""

from __future__ import annotations

from stackgrad.backends.device.heap import GRAIN
from stackgrad.compiler.errors import DeviceError


class Memory:
    """Represent a device that counts its memory; `busy` has the streams with running launches."""

    def __init__(self, total: int = 1 << 30) -> None:
        self.total = total
        self.held: dict[int, int] = {}
        self.busy: set[int] = set()
        self.waited: list[int | None] = []
        self.next = GRAIN
        self.hidden = 0

    def allocate(self, size: int) -> int:
        if sum(self.held.values()) + size > self.total - self.hidden:
            raise DeviceError("out of memory")
        address, self.next = self.next, self.next + size
        self.held[address] = size
        return address

    def free(self, address: int) -> None:
        assert not self.busy, "a launch in flight may use it"
        del self.held[address]

    def free_memory(self) -> tuple[int, int]:
        return self.total - sum(self.held.values()), self.total

    def wait(self, stream: int | None = None) -> None:
        self.waited.append(stream)
        self.busy.discard(stream or 0)
