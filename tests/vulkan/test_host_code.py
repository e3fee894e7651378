"""The host code of a launch, on words of a device that is made up: what it writes, submits and waits for."""

from __future__ import annotations

import ctypes
from array import array
from typing import Any

import numpy as np
import pytest
from stackgrad.backends.base import Draws, Options
from stackgrad.backends.host.jit import NativeCode
from stackgrad.backends.llvm.errors import FAILED, OK
from stackgrad.backends.spirv.emit import ShaderFeatures
from stackgrad.backends.spirv.shaders import generate
from stackgrad.backends.vulkan import host_code as h
from stackgrad.backends.vulkan.block import VulkanBlock, block_layout
from stackgrad.backends.vulkan.ring import groups_at
from stackgrad.backends.words import address_of, words
from stackgrad.compiler.ir.parser import parse_kernel

KERNEL = """kernel k(x: f32[1], y: f32[2], n: i32) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load x[%2] store x[%2], %3 }
  bounds { %4: i32 = const 3 %5: i32 = arg n } parallel %6: i32 in %4 .. %5 { %7: f32 = load x[%6] store x[%6], %7 }
}"""
READS = """kernel k(x: f32[1], n: i32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = load n[%0] } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load x[%2] store x[%2], %3 }
}"""
SLOTS, MOST, FAR = 3, 4096, 1 << 40
_SUBMIT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_uint32, ctypes.c_int64, ctypes.c_int64)
_WAIT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint64)


class MadeUp:
    """A device without a driver. submitted: content of the slot at each submission, and the timeline's value."""

    def __init__(self, text: str, regions: list[tuple[int, int, int]]) -> None:
        self.kernel = parse_kernel(text)
        self.shaders = generate(self.kernel, Options(), ShaderFeatures(shared_errors=True))
        self.layout = block_layout(self.shaders.layout)
        self.entries = h.needed_entries(self.kernel, self.shaders.entries, Options())
        self.counts_at = groups_at(self.shaders.layout.size, b"")
        code = h.host_code(self.kernel, self.layout, self.entries, self.counts_at, SLOTS, MOST, Options())
        self.native = NativeCode(code, 0)
        self.code = self.waited = 0
        self.submitted: list[tuple[bytes, int]] = []
        self.waits: list[int] = []
        self.table = words(bytes(8 * h.TABLE))
        self.memory = np.zeros((SLOTS, self.counts_at + h.GROUPS * len(self.entries)), np.uint8)
        self.ring = words(bytes(8 * (h.RING + h.SLOT * SLOTS)))
        self.regions: array[int] = words([len(regions), *(word for region in sorted(regions) for word in region)])
        self._fill()

    def _fill(self) -> None:
        self.functions = _SUBMIT(self._submit), _WAIT(self._wait)
        table = self.table
        table[h.SUBMIT], table[h.WAIT] = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self.functions)
        table[h.QUEUE], table[h.DEVICE], table[h.WAIT_INFO] = 11, 22, 33
        table[h.REGIONS] = address_of(self.regions)
        self.ring[h.R_TABLE] = address_of(table)
        for k in range(SLOTS):
            at = h.RING + h.SLOT * k
            self.ring[at + h.S_HOST] = self.memory[k].ctypes.data
            self.ring[at + h.S_INFO] = 1000 + k

    def _submit(self, queue: int, count: int, info: int, fence: int) -> int:
        assert (queue, count, fence) == (11, 1, 0)
        self.submitted.append((self.memory[info - 1000].tobytes(), self.table[h.VALUE]))
        return self.code

    def _wait(self, device: int, info: int, patience: int) -> int:
        assert (device, info, patience) == (22, 33, (1 << 64) - 1)
        self.waits.append(self.table[h.WANTED])
        return self.waited

    def block(self, arrays: dict[str, np.ndarray], **scalars: int) -> VulkanBlock:
        queue: Any = None
        made = VulkanBlock(self.layout, "k", set(), queue)
        made.bind(arrays, scalars, Draws())
        made.put(self.layout.driver_at, address_of(self.ring))
        return made

    def launch(self, block: VulkanBlock) -> int:
        return ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self.native.address)(block.address)

    def groups(self, content: bytes) -> list[int]:
        at = self.counts_at
        return np.frombuffer(content[at:], np.uint32)[::3].tolist()


def arrays(count: int) -> dict[str, np.ndarray]:
    return {"x": np.zeros(count, np.float32), "y": np.zeros((2, 2), np.float32)}


def place(array: np.ndarray) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


@pytest.mark.parametrize(
    ("count", "n", "groups"),
    [(1, 4, [1, 1]), (64, 67, [1, 1]), (65, 68, [2, 2]), (1000, 3, [16, 0]), (0, 1000, [0, 16]), (10**6, -5, [64, 0])],
)
def test_groups_of_each_task(count: int, n: int, groups: list[int]) -> None:
    """As many as iterations need, no more than the most, none without iterations; and the boxes are there."""
    device = MadeUp(KERNEL, [])
    assert [name for name, _ in device.entries] == ["task_0", "task_1"]
    assert device.launch(device.block(arrays(count), n=n)) == OK
    ((content, value),) = device.submitted
    assert device.groups(content) == groups and value == 1
    boxes = [np.frombuffer(content[at : at + 16], np.int64).tolist() for at in device.layout.boxes.values()]
    assert boxes == [[0, count], [3, max(0, n - 3)]]


def test_nothing_is_submitted_for_no_iterations() -> None:
    device = MadeUp(KERNEL, [])
    assert device.launch(device.block(arrays(0), n=3)) == OK
    assert not device.submitted and not device.table[h.VALUE] and not device.table[h.PENDING]


def test_bounds_that_memory_decides_are_left_to_the_device() -> None:
    device = MadeUp(READS, [])
    assert [name for name, _ in device.entries] == ["bounds_0", "task_0"]
    memory = {"x": np.zeros(8, np.float32), "n": np.zeros(1, np.int32)}
    assert device.launch(device.block(memory)) == OK
    assert device.groups(device.submitted[0][0]) == [1, MOST // 64]


def test_addresses_are_those_of_the_device() -> None:
    """By the region that an array lies in: the first, one in the middle, the last; of its last byte too."""
    own = [np.zeros(64, np.float32) for _ in range(7)]
    regions = [(place(a), place(a) + a.nbytes, FAR * (k + 1)) for k, a in enumerate(own)]
    device = MadeUp(KERNEL, regions)
    for k, whole in enumerate(own):
        for x in (whole, whole[-1:]):
            y = own[(k + 3) % 7][:4].reshape(2, 2)
            assert device.launch(device.block({"x": x, "y": y}, n=9)) == OK
            content = device.submitted[-1][0]
            found = [np.frombuffer(content, np.int64)[device.layout.arrays[name].address_at // 8] for name in "xy"]
            assert found == [place(x) + FAR * (k + 1), place(y) + FAR * ((k + 3) % 7 + 1)]


def test_memory_beside_all_regions_keeps_its_address() -> None:
    own = np.zeros(300, np.float32)
    begin = place(own)
    device = MadeUp(KERNEL, [(begin + 400, begin + 800, FAR)])
    for x, moved in ((own[99:100], 0), (own[100:101], FAR), (own[199:200], FAR), (own[200:201], 0)):
        assert device.launch(device.block({"x": x, "y": own[:4].reshape(2, 2)}, n=9)) == OK
        found = np.frombuffer(device.submitted[-1][0], np.int64)[device.layout.arrays["x"].address_at // 8]
        assert found == place(x) + moved


def test_slots_take_turns_and_are_waited_for_when_they_come_round() -> None:
    """A slot that the timeline has passed costs no call of the driver."""
    device = MadeUp(KERNEL, [])
    block = device.block(arrays(5), n=4)
    for _ in range(SLOTS):
        assert device.launch(block) == OK
    assert not device.waits and device.table[h.PENDING] == 1
    for _ in range(2):
        assert device.launch(block) == OK
    assert device.waits == [1, 2] and device.table[h.DONE] == 2
    device.table[h.DONE] = 4
    for _ in range(2):
        assert device.launch(block) == OK
    assert device.waits == [1, 2] and [value for _, value in device.submitted] == [1, 2, 3, 4, 5, 6, 7]
    assert device.ring[h.R_NEXT] == 7 % SLOTS


def test_what_the_driver_refuses_is_reported() -> None:
    """The timeline is where it was, and the next launch is made with the same slot."""
    device = MadeUp(KERNEL, [])
    block = device.block(arrays(5), n=4)
    device.code = -2
    assert device.launch(block) == FAILED and block.word(device.layout.driver_error_at) == -2
    assert device.table[h.VALUE] == 0 and device.ring[h.R_NEXT] == 0
    device.code = 0
    assert device.launch(block) == OK and device.submitted[-1][1] == 1
    device.table[h.CLOSED] = -4
    assert device.launch(block) == FAILED and block.word(device.layout.driver_error_at) == -4
    assert len(device.submitted) == 2
    device.table[h.CLOSED], device.waited = 0, -4
    assert [device.launch(block) for _ in range(SLOTS)] == [OK] * (SLOTS - 1) + [FAILED]
    assert block.word(device.layout.driver_error_at) == -4
