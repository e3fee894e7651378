"""What a driver made of a module is on disk for the next process, by module, device and driver."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stackgrad.backends import disk_cache
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.vulkan import pipeline_cache
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.compiler.ir.parser import parse_kernel

TEXT = """kernel k(x: f32[1]) {{ bounds {{ %0: i32 = const 0 %1: i32 = shape x, 0 }} parallel %2: i32 in %0 .. %1 {{
  %3: f32 = load x[%2] %4: f32 = const {} %5: f32 = add %3, %4 store x[%2], %5 }} }}"""


class Driver:
    """Caches that hold something: the driver here gives the head alone. given: what each was made of; into: which were
    used for pipelines. refuses: content that is an error.
    """

    def __init__(self, vk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[bytes] = []
        self.into: list[Any] = []
        self.create, self.pipelines = vk.vkCreatePipelineCache, vk.vkCreateComputePipelines
        self.vk = vk
        self.refuses: bytes | None = None
        monkeypatch.setattr(vk, "vkCreatePipelineCache", self._create)
        monkeypatch.setattr(vk, "vkCreateComputePipelines", self._pipelines)
        monkeypatch.setattr(pipeline_cache, "content_of", self._content)

    def _create(self, device: Any, info: Any, allocator: Any) -> Any:
        size = info.initialDataSize
        content = bytes(self.vk.ffi.buffer(info.pInitialData, size)) if size else b""
        if content and content == self.refuses:
            raise self.vk.VkErrorOutOfHostMemory
        self.given.append(content)
        return self.create(device, self.vk.VkPipelineCacheCreateInfo(initialDataSize=0, pInitialData=None), allocator)

    def _pipelines(self, device: Any, cache: Any, count: int, infos: Any, allocator: Any) -> Any:
        self.into.append(cache)
        return self.pipelines(device, cache, count, infos, allocator)

    def _content(self, device: Any, cache: Any) -> bytes:
        return b"h" * pipeline_cache.HEAD + b"code"


@pytest.fixture
def driver(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Driver]:
    monkeypatch.setenv("STACKGRAD_CACHE", "1")
    monkeypatch.setenv("STACKGRAD_CACHE_DIR", str(tmp_path / "cache"))
    disk_cache.choose_cache()  # as in a process of its own, where no program has turned it off
    yield Driver(vulkan.device.vk, monkeypatch)


CONTENT = b"h" * pipeline_cache.HEAD + b"code"


def run(vulkan: VulkanBackend, number: float) -> None:
    x = np.zeros(3, np.float32)
    vulkan.compile(parse_kernel(TEXT.format(number)), Options()).run({"x": x}, {}, Sizes(), Draws())
    assert x.tolist() == [number] * 3


def test_the_next_one_begins_with_what_the_first_one_made(vulkan: VulkanBackend, driver: Driver) -> None:
    for number in (1.0, 1.0, 2.0, 1.0):
        run(vulkan, number)
    assert driver.given == [b"", CONTENT, b"", CONTENT]
    assert all(cache != driver.vk.VK_NULL_HANDLE for cache in driver.into)


def test_another_driver_has_entries_of_its_own(
    vulkan: VulkanBackend, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(vulkan, 1.0)
    own = pipeline_cache.identity(vulkan.device)
    for place in range(len(own)):
        changed = (*own[:place], own[place] + "1", *own[place + 1 :])
        monkeypatch.setattr(pipeline_cache, "identity", lambda device, changed=changed: changed)
        run(vulkan, 1.0)
    assert driver.given == [b""] * (1 + len(own))


def test_damaged_entries_and_those_that_the_driver_refuses_are_ignored(vulkan: VulkanBackend, driver: Driver) -> None:
    run(vulkan, 1.0)
    cache = disk_cache.active_cache()
    assert cache is not None
    own = [e.path for e in cache.entries() if e.path.read_bytes().endswith(b"code")]
    assert len(own) == 1
    driver.refuses = CONTENT
    run(vulkan, 1.0)
    driver.refuses = None
    damaged = bytearray(own[0].read_bytes())
    damaged[-1] ^= 1
    own[0].write_bytes(damaged)
    with pytest.warns(disk_cache.CacheWarning, match="is damaged"):
        run(vulkan, 1.0)
    run(vulkan, 1.0)
    assert driver.given == [b"", b"", b"", CONTENT]


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_strange_entries_do_not_reach_the_driver(vulkan: VulkanBackend, driver: Driver, kind: str) -> None:
    """One that would be waited for without end, and one that is somewhere else."""
    run(vulkan, 1.0)
    cache = disk_cache.active_cache()
    assert cache is not None
    (own,) = [e.path for e in cache.entries() if e.path.read_bytes().endswith(b"code")]
    if kind == "link":
        own.symlink_to(own.rename(own.with_name("elsewhere")))
    else:
        own.unlink()
        os.mkfifo(own)
    with pytest.warns(disk_cache.CacheWarning, match=f"it is a {kind}"):
        run(vulkan, 1.0)
    run(vulkan, 1.0)
    assert driver.given == [b"", b"", CONTENT]


def test_what_the_driver_gives_of_an_empty_cache_is_its_head(vulkan: VulkanBackend) -> None:
    vk, device = vulkan.device.vk, vulkan.device
    info = vk.VkPipelineCacheCreateInfo(initialDataSize=0, pInitialData=None)
    made = vk.vkCreatePipelineCache(device.handle, info, None)
    assert 0 <= len(pipeline_cache.content_of(device, made)) - pipeline_cache.HEAD <= 8
    vk.vkDestroyPipelineCache(device.handle, made, None)


def test_without_a_cache_on_disk_there_is_none(
    vulkan: VulkanBackend, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACKGRAD_CACHE", "0")
    run(vulkan, 1.0)
    assert not driver.given and driver.into == [driver.vk.VK_NULL_HANDLE]
