"""Run tests written for the CPU on another backend, which STACKGRAD_STAND_IN names: `cuda`, `vulkan`, or emulated.

Code that asks for the backend `cpu`, by name or as an arch of the runtime, gets the other backend; so does code that
asks for `cuda` if that is emulated. Tests of the CPU's own machine code do not hold then. On an emulated device a test
fails if the host reads managed memory without waiting for earlier launches; STACKGRAD_STAND_IN_TRACE=1 shows where
(pytest -s).
"""

from __future__ import annotations

import os
from typing import Any

import pytest

NAME = os.environ.get("STACKGRAD_STAND_IN", "")


def install() -> Any:
    """Put the backend in place of the CPU; return the emulated driver, if it is one."""
    from stackgrad.backends import registry
    from stackgrad.harness.testing.emulated_cuda.backend import NAMES, emulated_cuda
    from stackgrad.runtime import session

    backend = emulated_cuda(NAME) if NAME in NAMES else registry.get(NAME)
    probe = backend.probe()
    if not probe.available:
        raise pytest.UsageError(f"{NAME} cannot stand in for the CPU: {probe.reason}; cure: {probe.cure}")
    if NAME in NAMES:
        registry.put("cuda", backend)
    name = "cuda" if NAME in NAMES else NAME
    registry.put("cpu", registry.get(name))
    session.ALIASES["cpu"] = name
    emulator = getattr(backend, "emulator", None)
    if emulator is not None:
        emulator.strict = False  # some tests are about programs whose threads meet
    if emulator is not None and "STACKGRAD_STAND_IN_TRACE" in os.environ:
        emulator.show_unawaited()
    return emulator


class Awaited:
    """Fail a test in which the host accessed memory without waiting."""

    def __init__(self, emulator: Any) -> None:
        self._emulator = emulator

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        before = self._emulator.unawaited
        result = yield
        unawaited = self._emulator.unawaited - before
        assert not unawaited, f"the host touched managed memory {unawaited} times while launches were pending"
        return result
