"""What the tests of the Vulkan backend share: a backend of their own on the device that is here."""

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
    """The backend of the process; a machine without a Vulkan device skips these tests, with the reason."""
    probe = registry.probe_all()["vulkan"]
    if not probe.available:
        pytest.skip(f"vulkan: {probe.reason}; cure: {probe.cure}")
    backend = registry.get("vulkan")
    assert isinstance(backend, VulkanBackend)
    return backend
