"""Provide a Vulkan backend on the device of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from stackgrad.backends import registry
from stackgrad.backends.vulkan.backend import VulkanBackend

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)


@pytest.fixture(scope="session")
def vulkan() -> VulkanBackend:
    """Return the backend of the process; skip on a machine without a Vulkan device."""
    probe = registry.probe_all()["vulkan"]
    if not probe.available:
        pytest.skip(f"vulkan: {probe.reason}; cure: {probe.cure}")
    backend = registry.get("vulkan")
    assert isinstance(backend, VulkanBackend)
    return backend
