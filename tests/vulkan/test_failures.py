"""What fails becomes one Python exception, says what can be done, and leaves the process and the device in order.

Where a real driver cannot be made to fail, the function that would is replaced by one that does.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.backends import registry
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.vulkan import host_code
from stackgrad.backends.vulkan.backend import VulkanBackend
from stackgrad.backends.vulkan.device import VulkanDevice
from stackgrad.backends.vulkan.physical_devices import NoVulkanDevice
from stackgrad.compiler.errors import DeviceError, Unsupported
from stackgrad.compiler.ir.parser import parse_kernel

Arrays = dict[str, np.ndarray]
MODES = {"addresses": (), "descriptors": ("buffer_addresses",)}

KERNEL = """kernel twice(x: f32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    adstack_alloca s: f32 capacity 3 of v
    %3: f32 = load x[%2] %4: f32 = add %3, %3 adstack_push s, %4 %5: f32 = adstack_load_top s store x[%2], %5 } }"""


def vk() -> Any:
    import vulkan

    return vulkan


@pytest.fixture(params=list(MODES))
def backend(request: pytest.FixtureRequest, vulkan: VulkanBackend) -> Iterator[VulkanBackend]:
    """A device of its own, opened with and without buffer addresses."""
    made = VulkanBackend(MODES[request.param])
    yield made
    made.reset()


def is_right(backend: VulkanBackend) -> bool:
    """Whether a kernel that is compiled now runs."""
    x = np.arange(200, dtype=np.float32)
    backend.compile(parse_kernel(KERNEL), Options()).run({"x": x}, {}, Sizes(), Draws())
    return x.tolist() == [2.0 * k for k in range(200)]


def failing(error: str, times: int = 10**9) -> Callable[..., Any]:
    """A function of the driver that refuses so many times, and is an error to be called afterwards."""
    left = [times]

    def refuse(*args: Any, **named: Any) -> Any:
        assert left[0], "called again"
        left[0] -= 1
        raise getattr(vk(), error)

    return refuse


# ---- no device ------------------------------------------------------------------------------------------------------


class NoLoader:
    """Imports `vulkan` as it is where no loader is installed."""

    def find_spec(self, name: str, *rest: object) -> None:
        if name == "vulkan":
            raise OSError("Cannot find Vulkan SDK version. Please ensure that it is installed")


@pytest.mark.parametrize(
    ("finder", "reason", "cure"),
    [
        (NoLoader(), "no Vulkan loader: Cannot find Vulkan SDK", "apt-get install libvulkan1"),
        (None, "the Python package `vulkan` is missing", "pip install vulkan"),
    ],
)
def test_no_loader_and_no_package(monkeypatch: pytest.MonkeyPatch, finder: Any, reason: str, cure: str) -> None:
    if finder is None:
        monkeypatch.setitem(sys.modules, "vulkan", None)
    else:
        monkeypatch.delitem(sys.modules, "vulkan", raising=False)
        monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    backend = VulkanBackend()
    probe = backend.probe()
    assert not probe.available and reason in probe.reason and probe.cure == cure
    with pytest.raises(DeviceError, match=f"{reason}.*; cure: {cure}"):
        backend.compile(parse_kernel(KERNEL), Options())


NO_DEVICE = """
import stackgrad as sg
try:
    sg.init(arch=sg.vulkan)
except sg.StackgradError as error:
    print(type(error).__name__, error)
sg.init(arch=sg.cpu)
print("alive")
"""


def test_a_loader_that_knows_no_device() -> None:
    environment = {**os.environ, "VK_ICD_FILENAMES": "/nonexistent", "VK_DRIVER_FILES": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", NO_DEVICE], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.strip().splitlines()
    assert first.startswith("DeviceError vulkan is not available here: ") and "; cure: " in first and last == "alive"


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("function", "error", "reason"),
    [
        (
            "vkCreateInstance",
            "VkErrorIncompatibleDriver",
            "the Vulkan loader gives no device: VkErrorIncompatibleDriver",
        ),
        ("vkEnumeratePhysicalDevices", "VkErrorInitializationFailed", "the Vulkan loader gives no device"),
        ("vkCreateDevice", "VkErrorFeatureNotPresent", "opening .*: VkErrorFeatureNotPresent"),
        ("vkCreateCommandPool", "VkErrorOutOfHostMemory", "opening .*: VkErrorOutOfHostMemory"),
    ],
)
def test_a_device_that_does_not_open(
    vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch, function: str, error: str, reason: str
) -> None:
    """And what was made for it is given back."""
    held = Held(monkeypatch, "Instance", "Device", "CommandPool")
    monkeypatch.setattr(vk(), function, failing(error))
    backend = VulkanBackend()
    probe = backend.probe()
    assert not probe.available and probe.cure
    with pytest.raises(DeviceError, match=reason):
        backend.compile(parse_kernel(KERNEL), Options())
    assert not held.left()


def test_a_device_without_a_queue_for_shaders(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vk(), "vkGetPhysicalDeviceQueueFamilyProperties", lambda handle: [])
    with pytest.raises(NoVulkanDevice, match="has no queue for compute shaders; cure: use another device"):
        VulkanDevice()


# ---- what a device lacks --------------------------------------------------------------------------------------------


def test_a_missing_feature_names_operation_and_line(vulkan: VulkanBackend) -> None:
    before = registry.get("vulkan")
    registry.put("vulkan", VulkanBackend(("float64",)))
    try:
        sg.init(arch=sg.vulkan)
        x = sg.field(sg.f32, shape=4)

        @sg.kernel
        def waves():
            for i in x:
                x[i] = x[i] + 1.0
                x[i] = sg.cast(sg.cast(x[i], sg.f64) * 3.0, sg.f32)

        with pytest.raises(Unsupported) as caught:
            waves()
    finally:
        registry.put("vulkan", before)
        sg.init(arch=sg.cpu)
    said = str(caught.value)
    assert "has no Float64, which `" in said and ": f64 = cast " in said and "` needs" in said and "cure: " in said
    lines = Path(__file__).read_text().splitlines()
    line = lines.index("                x[i] = sg.cast(sg.cast(x[i], sg.f64) * 3.0, sg.f32)")
    assert f"test_failures.py:{line + 1}:" in said and "sg.cast(x[i], sg.f64)" in said and "^" in said


# ---- refusals of the driver -----------------------------------------------------------------------------------------


class Held:
    """Counts what the driver was asked for and not yet given back, by kind of object."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
        self.count: Counter[str] = Counter()
        for kind in kinds:
            for verb, sign in (("Create", 1), ("Allocate", 1), ("Destroy", -1), ("Free", -1)):
                name = f"vk{verb}{kind}"
                if hasattr(vk(), name):
                    monkeypatch.setattr(vk(), name, self._counted(getattr(vk(), name), kind, sign))

    def _counted(self, function: Callable[..., Any], kind: str, sign: int) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            found = function(*args, **named)
            self.count[kind] += sign
            return found

        return call

    def left(self) -> dict[str, int]:
        """What was not given back."""
        gc.collect()
        return {kind: count for kind, count in self.count.items() if count}


COMPILING = [
    ("vkCreateShaderModule", "VkErrorOutOfHostMemory"),
    ("vkCreatePipelineLayout", "VkErrorOutOfHostMemory"),
    ("vkCreateComputePipelines", "VkErrorOutOfDeviceMemory"),
    ("vkAllocateCommandBuffers", "VkErrorOutOfHostMemory"),
]


@pytest.mark.rotating
@pytest.mark.parametrize(("function", "error"), COMPILING)
def test_pipelines_that_the_driver_refuses(
    backend: VulkanBackend, monkeypatch: pytest.MonkeyPatch, function: str, error: str
) -> None:
    """The kernel is named, nothing is held, and the next one is compiled."""
    assert is_right(backend)
    gc.collect()
    with monkeypatch.context() as patch:
        held = Held(patch, "ShaderModule", "PipelineLayout", "Fence", "DescriptorPool", "CommandPool", "Semaphore")
        patch.setattr(vk(), function, failing(error))
        with pytest.raises(DeviceError, match=f"kernel twice: Vulkan, making .*: {error}"):
            backend.compile(parse_kernel(KERNEL), Options())
        assert not held.left()
    assert is_right(backend)


@pytest.mark.rotating
@pytest.mark.parametrize("function", ["vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory", "vkMapMemory"])
def test_no_memory_for_what_a_launch_needs(
    backend: VulkanBackend, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """Nothing has run, no buffer is left without memory, and the next launch has what it needs."""
    x = np.ones(1 << 20, np.float32)
    made = backend.compile(parse_kernel(KERNEL), Options())
    with monkeypatch.context() as patch:
        held = Held(patch, "Buffer", "Memory")
        patch.setattr(vk(), function, failing("VkErrorOutOfDeviceMemory"))
        with pytest.raises(DeviceError, match="[0-9]+ bytes"):
            made.run({"x": x}, {}, Sizes(), Draws())
        assert (x == 1).all() and not held.left()
    made.run({"x": x}, {}, Sizes(), Draws())
    assert (x == 2).all()


def test_adstacks_that_the_device_refuses_get_fewer_rows(
    backend: VulkanBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As few as there is memory for; where there is none, the stack and its size are named."""
    allocate, sizes = vk().vkAllocateMemory, []

    def tight(device: Any, info: Any, rest: Any) -> Any:
        sizes.append(info.allocationSize)
        if 1 << 20 < info.allocationSize <= 1 << 40:
            raise vk().VkErrorOutOfDeviceMemory
        return allocate(device, info, rest)

    text = KERNEL.replace("capacity 3", "capacity 1000")
    x = np.ones(2048, np.float32)
    made = backend.compile(parse_kernel(text), Options())
    monkeypatch.setattr(vk(), "vkAllocateMemory", tight)
    made.run({"x": x}, {}, Sizes(), Draws())
    assert (x == 2).all() and max(sizes) > 1 << 20 and backend.heap_report()["real"]["current"] <= 1 << 20
    huge = backend.compile(parse_kernel(KERNEL.replace("capacity 3", "capacity 10000")), Options())
    with pytest.raises(DeviceError, match="for the history of v: 10000 slots of 4 bytes") as caught:
        huge.run({"x": x}, {}, Sizes(), Draws())
    assert "cure: " in str(caught.value) and (x == 2).all()


def test_an_array_that_no_device_holds(vulkan: VulkanBackend) -> None:
    sg.init(arch=sg.vulkan)
    with pytest.raises(DeviceError, match="bytes"):
        sg.field(sg.f64, shape=(1 << 24, 1 << 20))
    x = sg.field(sg.f64, shape=3)
    x.fill(2.0)
    assert x.to_numpy().tolist() == [2.0] * 3
    sg.init(arch=sg.cpu)


# ---- a device that is lost ------------------------------------------------------------------------------------------


@pytest.mark.rotating
@pytest.mark.parametrize("function", ["vkQueueSubmit", "vkWaitForFences"])
def test_a_device_that_is_lost(vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """The launch says so, and so does every one behind it, without asking the driver; another device is of use."""
    backend = VulkanBackend(MODES["descriptors"])
    x = np.ones(5, np.float32)
    made = backend.compile(parse_kernel(KERNEL), Options())
    with monkeypatch.context() as patch:
        patch.setattr(vk(), function, failing("VkErrorDeviceLost", 1))
        with pytest.raises(DeviceError, match="Vulkan, running a kernel: VkErrorDeviceLost; cure: "):
            made.run({"x": x}, {}, Sizes(), Draws())
        with pytest.raises(DeviceError, match="was lost by a launch before; cure: "):
            made.run({"x": x}, {}, Sizes(), Draws())
    assert x.tolist() == [1.0] * 5
    del made
    gc.collect()
    assert is_right(VulkanBackend(MODES["descriptors"])) and is_right(vulkan)


def test_a_device_that_is_lost_while_launches_are_in_flight(
    vulkan: VulkanBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = VulkanBackend(())
    x = backend.zeros((5,), np.dtype(np.float32))
    made = backend.compile(parse_kernel(KERNEL), Options())
    made.run({"x": x}, {}, Sizes(), Draws())
    with monkeypatch.context() as patch:
        patch.setattr(vk(), "vkWaitSemaphores", failing("VkErrorDeviceLost"))
        with pytest.raises(DeviceError, match="VkErrorDeviceLost; cure: "):
            backend.sync()
    with pytest.raises(DeviceError, match="VkErrorDeviceLost; cure: "):
        made.run({"x": x}, {}, Sizes(), Draws())
    assert is_right(vulkan)


def test_a_submission_that_the_driver_refuses(vulkan: VulkanBackend) -> None:
    """Launches are submitted by machine code, which calls what stands in a table."""
    backend = VulkanBackend(())
    x = backend.zeros((5,), np.dtype(np.float32))
    made = backend.compile(parse_kernel(KERNEL), Options())
    refuse = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p)(
        lambda *given: -4
    )
    backend.opened.queue.table[host_code.SUBMIT] = ctypes.cast(refuse, ctypes.c_void_p).value or 0
    for _ in range(2):
        with pytest.raises(DeviceError, match="launch of kernel twice: VkErrorDeviceLost; cure: "):
            made.run({"x": x}, {}, Sizes(), Draws())
    assert is_right(vulkan)
