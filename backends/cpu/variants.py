"""Compile the masked code of a kernel to a second LLVM module, when a launch first needs that code.

Native code asks through a callback, with the block of the launch and the number of the task; the answer is written into
the block's word for that task and stays there. All tasks are made at once: a kernel that wants one masked function soon
wants the rest. What the maker raises surfaces when the launch, which goes on with branching code, is over.
"""

from __future__ import annotations

import ctypes
import threading

from ...compiler.ir.kernels import Kernel
from ..base import Options
from ..codegen.emit import Site
from ..codegen.layout import DECLINED, BlockLayout
from ..codegen.target import Target
from ..forks import free_in_child
from ..host.jit import NativeCode
from ..llvm.module import KernelCode, generate_later

REQUEST = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class Variants:
    """Compile the masked code of a kernel on request, and write the addresses of its functions into argument blocks."""

    def __init__(self, kernel: Kernel, options: Options, target: Target, layout: BlockLayout) -> None:
        self.kernel, self.options, self.target, self.layout = kernel, options, target, layout
        self._generated: KernelCode | None = None
        self._lock = free_in_child(threading.RLock())
        self._code: NativeCode | None = None
        self._addresses: dict[int, int] | None = None

    @property
    def sites(self) -> tuple[Site, ...]:
        """Return the error and print sites of the masked code."""
        return self._generated.sites if self._generated else ()

    def fill(self, block: int, task: int) -> None:
        """Write the address of a task's masked code, or DECLINED, into a block; the first call compiles masked code."""
        slot = ctypes.c_int64.from_address(block + self.layout.variants[task])
        try:
            with self._lock:
                if self._addresses is None:
                    self._addresses = self._make()
        except Exception:
            slot.value = DECLINED
            raise
        slot.value = self._addresses.get(task, DECLINED)

    def _make(self) -> dict[int, int]:
        """Compile the masked code of all eligible tasks; return the address of each task's code."""
        # Kernels that want no masked code do without this import.
        from ..llvm import masked

        judged = self.target if self.options.lanes is None else None
        tasks = [k for k in self.layout.variants if masked.eligible(self.kernel, k, judged)]
        if not tasks:
            return {}
        self._generated = generate_later(masked.generate_masked, self.kernel, self.options, self.target)
        names = [f"masked.{index}" for index in tasks]
        self._code = NativeCode(self._generated, self.options.effort, names)
        return {index: self._code.addresses[name] for index, name in zip(tasks, names)}
