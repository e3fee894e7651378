"""Masked code of one kernel: a module of its own, made when a launch first wants it.

Native code asks through a callback, with the block of the launch and the number of the task; the answer is written
into the block's slot of that task and stays there. All tasks are made at once: a kernel that wants one masked function
soon wants the others. What the maker raises surfaces when the launch is over, which goes on with branching code.
"""

from __future__ import annotations

import ctypes
import threading

from ...compiler.ir.nodes import Kernel
from ..base import Options
from ..forks import free_in_child
from ..llvm.emit import Site
from ..llvm.layout import DECLINED, Layout
from ..llvm.module import Code, generate_later
from ..llvm.target import Target
from .jit import NativeCode

REQUEST = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class Variants:
    """Addresses of masked functions by task, filled into blocks on request. Threads may ask at the same time."""

    def __init__(self, kernel: Kernel, options: Options, target: Target, layout: Layout) -> None:
        self.kernel, self.options, self.target, self.layout = kernel, options, target, layout
        self._generated: Code | None = None
        self._lock = free_in_child(threading.RLock())
        self._code: NativeCode | None = None
        self._addresses: dict[int, int] | None = None

    @property
    def sites(self) -> tuple[Site, ...]:
        """What the numbers in error records of masked code mean."""
        return self._generated.sites if self._generated else ()

    def fill(self, block: int, task: int) -> None:
        """Write the address for a task into a block, or that there is none; the code is made if it is not there."""
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
        from ..llvm import masked  # kernels that want no masked code do without

        forced = self.options.lanes is not None
        tasks = [k for k in self.layout.variants if masked.eligible(self.kernel, k, forced)]
        if not tasks:
            return {}
        self._generated = generate_later(masked.generate_masked, self.kernel, self.options, self.target)
        names = [f"masked.{index}" for index in tasks]
        self._code = NativeCode(self._generated, self.options.effort, names)
        return {index: self._code.addresses[name] for index, name in zip(tasks, names)}
