"""Threads that launch for the first time at the same time, in a process of their own."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import threading
from stackgrad.backends.host.trampoline import trampoline

found, start = [], threading.Barrier(4)

def ask():
    start.wait()
    found.append(trampoline())

threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == 4 and len(set(map(id, found))) == 1, found
"""


def test_there_is_one_trampoline() -> None:
    """A second one would leave the builtins of the first without their definition."""
    made = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr
