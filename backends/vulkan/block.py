"""Build the argument block of a launch in host memory, with host addresses for arrays in mapped memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ..codegen.layout import BlockLayout
from ..device.block import DeviceBlock
from .queue import Queue
from .staging import Staging


def block_layout(layout: BlockLayout) -> BlockLayout:
    """Return the layout of an argument block, with two words at its end that shaders do not read.

    These two words hold the address of the ring and an error code of the driver.
    """
    passed = layout.size
    return replace(layout, passed=passed, driver_at=passed, driver_error_at=passed + 8, size=passed + 16)


class VulkanBlock(DeviceBlock):
    """Represent the argument block of a launch on Vulkan."""

    queue: Queue

    @contextmanager
    def staged(self) -> Iterator[None]:
        """Replace external arrays by device copies during the `with` block; then copy the written arrays back."""
        arrays = self._foreign_arrays()
        staging = Staging(self.queue.arena, arrays)
        try:
            staging.copy_in()
            for name, bound in self.foreign.items():
                self.put(bound.array.address_at, staging.address(name))
            yield
            for name in arrays:
                if name in self.written:
                    staging.copy_out(name)
        finally:
            # The device may still use the copies, also after an error.
            self.queue.finish()
            staging.release()
            # Without a held array the next launch binds it anew.
            for bound in self.foreign.values():
                bound.held = None
