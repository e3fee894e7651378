"""Cached properties: computed once, and free of locks that a forked process would wait for."""

from __future__ import annotations

import os
import threading
import time

import pytest
from stackgrad.compiler.ir.cached import cached_property


class Counted:
    """An object whose property says how often it was computed."""

    def __init__(self, wait: threading.Event | None = None) -> None:
        self.count, self.wait, self.entered = 0, wait, threading.Event()

    @cached_property
    def value(self) -> list[int]:
        """The number of the computation."""
        self.entered.set()
        if self.wait is not None:
            self.wait.wait(20)
        self.count += 1
        return [self.count]


def test_a_value_is_computed_once_for_each_object() -> None:
    one, other = Counted(), Counted()
    assert one.value is one.value and one.count == 1
    assert other.value == [1] and other.value is not one.value


def test_a_value_can_be_assigned_and_forgotten() -> None:
    one = Counted()
    one.value = [7]
    assert one.value == [7] and one.count == 0
    del one.value
    assert one.value == [1]


def test_the_class_has_the_property_and_its_text() -> None:
    assert isinstance(Counted.value, cached_property)
    assert Counted.value.__doc__ == "The number of the computation."


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_a_thread_that_it_has_not() -> None:
    """A process is forked while another thread computes the same property of another object."""
    free = threading.Event()
    busy = Counted(free)
    thread = threading.Thread(target=lambda: busy.value)
    thread.start()
    assert busy.entered.wait(20)
    child = os.fork()
    if child == 0:
        os._exit(0 if Counted().value == [1] else 1)
    free.set()
    thread.join()
    end = time.monotonic() + 20
    done, status = os.waitpid(child, os.WNOHANG)
    while not done and time.monotonic() < end:
        time.sleep(0.01)
        done, status = os.waitpid(child, os.WNOHANG)
    if not done:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert done and os.waitstatus_to_exitcode(status) == 0, "the child waits for ever"
