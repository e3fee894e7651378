"""Treat the Vulkan device of this machine as one whose driver has quirks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from stackgrad.backends.spirv.emit import ShaderFeatures
from stackgrad.backends.vulkan.backend import VulkanBackend


@contextmanager
def with_quirks(backend: VulkanBackend, **quirks: bool) -> Iterator[None]:
    """Let shaders avoid these quirks as well."""
    features = backend.features
    found = replace(features, quirks=replace(features.quirks, **quirks))

    def taken(self: VulkanBackend) -> ShaderFeatures:
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VulkanBackend, "features", property(taken))
        yield
