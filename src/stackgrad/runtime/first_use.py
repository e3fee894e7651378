"""Call a function of the program before new fields are first used, for programs of peers that replace `materialize`.

While `RUNTIME.before_use` is set, an array that gets memory has no generation of the runtime, so that every use of it
goes through `Array.check_alive`. That method calls `begin`, which calls the function once for all such arrays. Programs
that do not set it lose no time.
"""

from __future__ import annotations

import weakref

from ..backends import words as w
from .protocols import Array
from .session import RUNTIME

WAITING = -3
"""The generation of an array that waits for its first use; no runtime has this number."""


def wait_for(array: Array) -> None:
    """Mark an array as not used yet, if a function must be called before the first use of fields."""
    if RUNTIME.before_use is not None:
        array._generation = array.words[w.LIVING] = WAITING
        RUNTIME.waiting.append(weakref.ref(array))


def begin(array: Array) -> bool:
    """Call `RUNTIME.before_use` if the array was not used before, and mark all arrays as used. Return True if so."""
    if array._generation != WAITING:
        return False
    waiting = [found for reference in RUNTIME.waiting if (found := reference()) is not None]
    RUNTIME.waiting.clear()
    for found in waiting:
        found._generation = found.words[w.LIVING] = RUNTIME.generation
    if RUNTIME.before_use is not None:
        RUNTIME.before_use()
    return True
