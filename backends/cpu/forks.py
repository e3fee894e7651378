"""What a forked child must renew: locks and marks of threads that it does not have."""
from __future__ import annotations

import os
import threading
from weakref import ref

from ..heap import Heap
from ..words import BUSY

_HEAPS: list[ref[Heap]] = []


def renew_when_forked(heap: Heap) -> None:
    """In a child, no thread holds the heap: a launch that had it was another thread's, which is not there."""
    _HEAPS[:] = [known for known in _HEAPS if known() is not None]
    _HEAPS.append(ref(heap))


def _renew() -> None:
    for known in _HEAPS:
        heap = known()
        if heap is not None:
            heap.lock = threading.RLock()
            heap.words[BUSY] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
