"""Note Ctrl-C, so that a run ends also if Python loses the exception.

Python drops an exception that is raised inside a destructor, a callback of a weak reference or a callback of the
garbage collector, and says so on standard error alone. A KeyboardInterrupt that a signal raises there is lost, and
a long run would go on.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted_interrupts() -> Iterator[Callable[[], None]]:
    """Note each Ctrl-C in the block, beside raising KeyboardInterrupt as usual.

    Yields:
        A function that raises KeyboardInterrupt if Ctrl-C was pressed in the block. It does nothing in threads other
        than the main one, which get no signals, and where the program has a handler of its own.
    """
    pressed = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        pressed.set()
        signal.default_int_handler(number, frame)

    def check() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
