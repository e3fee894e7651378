"""The emulated driver on kernels written by hand: what it runs, when it runs it, and what it refuses."""

from __future__ import annotations

import ctypes
import math
import re
from pathlib import Path

import numpy as np
import pytest
from stackgrad.backends import cuda
from stackgrad.backends.base import Options
from stackgrad.backends.cuda.driver import DriverError
from stackgrad.harness.testing.emulated_cuda.driver import EmulatedDriver
from stackgrad.harness.testing.emulated_cuda.lanes import ONE_LANE

SCALE = """
define ptx_kernel void @"scale"(ptr byval([24 x i8]) align 8 %a0) "nvvm.maxntid"="256" {
entry.1:
  %v1 = load ptr addrspace(1), ptr %a0
  %v2 = getelementptr inbounds i8, ptr %a0, i64 8
  %v3 = load i64, ptr %v2
  %v4 = getelementptr inbounds i8, ptr %a0, i64 16
  %v5 = load double, ptr %v4
  %v6 = call i32 @"llvm.nvvm.read.ptx.sreg.ntid.x"()
  %v7 = call i32 @"llvm.nvvm.read.ptx.sreg.ctaid.x"()
  %v8 = call i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()
  %v9 = mul i32 %v7, %v6
  %v10 = add i32 %v9, %v8
  %v11 = zext i32 %v10 to i64
  %v12 = icmp ult i64 %v11, %v3
  br i1 %v12, label %inside, label %done
inside:
  %v13 = getelementptr double, ptr addrspace(1) %v1, i64 %v11
  %v14 = load double, ptr addrspace(1) %v13
  %v15 = call double @"__nv_sin"(double %v14)
  %v16 = fmul double %v15, %v5
  store double %v16, ptr addrspace(1) %v13
  br label %done
done:
  ret void
}

define ptx_kernel void @"last"(ptr addrspace(1) %a0) {
entry.1:
  %v7 = call i32 @"llvm.nvvm.read.ptx.sreg.ctaid.x"()
  %v8 = atomicrmw xchg ptr addrspace(1) %a0, i32 %v7 monotonic
  ret void
}

define ptx_kernel void @"spoil"(ptr byval([8 x i8]) align 8 %a0) {
entry.1:
  store i64 1, ptr %a0
  ret void
}

declare i32 @"llvm.nvvm.read.ptx.sreg.ntid.x"()
declare i32 @"llvm.nvvm.read.ptx.sreg.ctaid.x"()
declare i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()
declare double @"__nv_sin"(double)
"""


@pytest.fixture
def driver() -> EmulatedDriver:
    return EmulatedDriver()


def functions(driver: EmulatedDriver, text: str = SCALE) -> dict[str, int]:
    names = ["scale", "last", "spoil"]
    module = driver.load(driver.assemble(text, names, Options()))
    return {name: driver.function(module, name) for name in names}


def managed(driver: EmulatedDriver, count: int) -> tuple[int, np.ndarray]:
    address = driver.allocate_managed(8 * count)
    return address, np.frombuffer((ctypes.c_byte * (8 * count)).from_address(address), np.float64)


def block(address: int, count: int, factor: float) -> bytes:
    return np.array([address, count], np.uint64).tobytes() + np.array([factor]).tobytes()


def test_a_launch_runs_when_it_is_waited_for(driver: EmulatedDriver) -> None:
    address, array = managed(driver, 5)
    array[:] = range(5)
    driver.launch(functions(driver)["scale"], 2, 3, block(address, 5, 2.0))
    assert array[3] == 3.0  # not yet
    assert driver.unawaited == 1
    driver.wait()
    assert array.tolist() == [2 * math.sin(k) for k in range(5)]  # both ask the C library
    assert driver.unawaited == 1 and driver.launches == [("scale", 2, 3)]


def test_native_code_launches_by_address(driver: EmulatedDriver) -> None:
    """The parameters are read at once, so that their memory may be used again."""
    address, array = managed(driver, 4)
    array[:] = 1.0
    launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)(
        driver.entry_points["cuLaunchKernel"]
    )
    memory = ctypes.create_string_buffer(block(address, 4, 3.0))
    places = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    scale = functions(driver)["scale"]
    assert launch(scale, 1, 1, 1, 32, 1, 1, 0, None, places, None) == 0
    ctypes.memset(memory, 0, 24)
    assert launch(scale, 0, 1, 1, 32, 1, 1, 0, None, places, None) == 1
    assert launch(scale, 1, 1, 1, 1025, 1, 1, 0, None, places, None) == 1
    assert launch(12345, 1, 1, 1, 32, 1, 1, 0, None, places, None) == 400
    fill = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p)(
        driver.entry_points["cuMemsetD8Async"]
    )
    assert fill(address, 0, 8, None) == 0
    assert fill(address, 0, 64, None) == 1
    driver.wait()
    assert array.tolist() == [0, *[3 * math.sin(1.0)] * 3]


def test_threads_run_in_either_order() -> None:
    for backward, last in ((False, 95), (True, 0)):
        driver = EmulatedDriver(backward=backward)
        address = driver.allocate(4)
        driver.launch(functions(driver)["last"], 3, 32, np.uint64(address).tobytes())
        got = ctypes.c_int()
        driver.copy_out(ctypes.addressof(got), address, 4)
        assert got.value == last


def test_an_access_outside_is_named(driver: EmulatedDriver) -> None:
    names = functions(driver)
    address, array = managed(driver, 4)
    array[:] = 1.0
    driver.launch(names["scale"], 1, 32, block(address, 5, 2.0))
    with pytest.raises(DriverError, match=r"\(700\).*scale, thread 4 of 32: 8 bytes.*byte 32 of 32 bytes of managed"):
        driver.wait()
    driver.free(address)
    driver.launch(names["scale"], 1, 32, block(address, 1, 2.0))
    with pytest.raises(DriverError, match="byte 0 of freed 32 bytes of managed"):
        driver.wait_all()


def test_parameters_are_for_reading(driver: EmulatedDriver) -> None:
    driver.launch(functions(driver)["spoil"], 1, 1, bytes(8))
    with pytest.raises(DriverError, match="spoil has written its parameters"):
        driver.wait()


def test_streams_wait_for_the_first_one_alone(driver: EmulatedDriver) -> None:
    one, two = driver.new_stream(), driver.new_stream()
    place, host = driver.allocate(1), (ctypes.c_byte * 1)()
    driver.fill(place, 1, 1, 1, one)
    driver.fill(place, 2, 1, 1, two)
    driver.copy_out(ctypes.addressof(host), place, 1, two)
    assert host[0] == 2 and driver.pending == 1  # what stream `one` has to do is still to come
    driver.copy_out(ctypes.addressof(host), place, 1, 0)
    assert host[0] == 1 and driver.pending == 0


def test_events_order_streams(driver: EmulatedDriver) -> None:
    one, two = driver.new_stream(), driver.new_stream()
    place, host, event = driver.allocate(1), (ctypes.c_byte * 1)(), driver.new_event()
    driver.fill(place, 1, 1, 1, one)
    driver.record(event, one)
    driver.wait_event(event, two)
    driver.fill(place, 2, 1, 1, two)
    driver.copy_out(ctypes.addressof(host), place, 1, two)
    assert host[0] == 2 and driver.pending == 0


def test_graphs_are_replayed(driver: EmulatedDriver) -> None:
    address, array = managed(driver, 1)
    array[0] = 1.0
    names, stream = functions(driver), driver.new_stream()
    driver.begin_capture(stream)
    driver.launch(names["scale"], 1, 1, block(address, 1, 2.0), stream)
    with pytest.raises(DriverError, match="(900)"):
        driver.wait(stream)
    graph = driver.end_capture(stream)
    driver.wait_all()
    assert array[0] == 1.0
    for _ in range(2):
        driver.launch_graph(graph, stream)
    driver.wait(stream)
    assert array[0] == 2 * np.sin(2 * np.sin(1.0))


def test_copies_of_pinned_memory_run_later(driver: EmulatedDriver) -> None:
    pinned, place, host = driver.allocate_pinned(1), driver.allocate(1), (ctypes.c_byte * 1)()
    ctypes.memset(pinned, 1, 1)
    driver.copy_in(place, pinned, 1)
    ctypes.memset(pinned, 2, 1)
    driver.copy_out(ctypes.addressof(host), place, 1)
    assert host[0] == 2


def test_memory_is_counted_and_bounded(driver: EmulatedDriver) -> None:
    free, total = driver.free_memory()
    place = driver.allocate(1000)
    assert driver.free_memory() == (free - 1000, total)
    assert [(leak.bytes, leak.kind) for leak in driver.leaks()] == [(1000, "device")]
    assert "test_memory_is_counted_and_bounded" in driver.leaks()[0].asked
    assert ctypes.string_at(place, 1000) == b"\xff" * 1000
    with pytest.raises(DriverError, match=r"CUDA_ERROR_OUT_OF_MEMORY \(2\)"):
        driver.allocate(total)
    with pytest.raises(DriverError, match=r"\(1\).*byte 900 of"):
        driver.zero(place + 900, 101)
    with pytest.raises(DriverError, match=r"\(1\)"):
        driver.free_pinned(place)
    driver.free(place)
    assert not driver.leaks()
    with pytest.raises(DriverError, match=r"\(1\).*freed"):
        driver.free(place)


def test_what_is_not_known_is_refused(driver: EmulatedDriver) -> None:
    with pytest.raises(DriverError, match=r"\(218\).*llvm.nvvm.fma.rn.f"):
        functions(driver, SCALE.replace("__nv_sin", "llvm.nvvm.fma.rn.f"))
    with pytest.raises(DriverError, match="40000 bytes of parameters, more than 32764"):
        functions(driver, SCALE.replace("[8 x i8]", "[40000 x i8]"))
    with pytest.raises(DriverError, match=r"\(500\).*never; there are scale, last, spoil"):
        driver.function(driver.load(driver.assemble(SCALE, ["scale"], Options())), "never")


MEET = """
define ptx_kernel void @"plain"(ptr addrspace(1) %a0) {
entry.1:
  %v1 = load i32, ptr addrspace(1) %a0
  %v2 = add i32 %v1, 1
  store i32 %v2, ptr addrspace(1) %a0
  ret void
}

define ptx_kernel void @"together"(ptr addrspace(1) %a0) {
entry.1:
  %v1 = atomicrmw add ptr addrspace(1) %a0, i32 1 monotonic
  ret void
}

define ptx_kernel void @"mixed"(ptr addrspace(1) %a0) {
entry.1:
  %v1 = atomicrmw add ptr addrspace(1) %a0, i32 1 monotonic
  %v2 = load i32, ptr addrspace(1) %a0
  ret void
}

define ptx_kernel void @"apart"(ptr addrspace(1) %a0) {
entry.1:
  %v1 = call i64 @"sg.block.claim"(ptr addrspace(1) %a0, i64 1)
  %v2 = add i64 %v1, 1
  %v3 = getelementptr i64, ptr addrspace(1) %a0, i64 %v2
  store i64 %v1, ptr addrspace(1) %v3
  %v4 = load i64, ptr addrspace(1) %v3
  store i64 %v4, ptr addrspace(1) %v3
  ret void
}

declare i32 @"llvm.nvvm.activemask"()

define internal i64 @"sg.block.claim"(ptr addrspace(1) %a0, i64 %a1) nounwind convergent noinline {
entry.1:
  %v1 = call i32 @"llvm.nvvm.activemask"()
  %v2 = zext i32 %v1 to i64
  ret i64 %v2
}
"""


@pytest.mark.parametrize(
    ("name", "race"), [("plain", ("reads", 1, 0)), ("together", None), ("mixed", ("updates", 1, 0)), ("apart", None)]
)
def test_threads_that_meet_are_found(name: str, race: tuple[str, int, int] | None) -> None:
    """Threads run one after another, so no update is lost; that one could have been is seen all the same."""
    driver = EmulatedDriver(strict=False)
    module = driver.load(driver.assemble(MEET, [name], Options()))
    place = driver.allocate(80)
    driver.zero(place, 80)
    for _ in range(2):  # launches in a row do not meet
        driver.launch(driver.function(module, name), 1, 4, np.uint64(place).tobytes())
        driver.wait()
    assert [(r.kind, r.thread, r.other) for r in driver.races] == ([race] * 2 if race else [])
    assert all(f"byte 0 of {driver.memory.describe(driver.memory.blocks[place])}" in r.place for r in driver.races)
    counter = np.zeros(1, np.int32)
    driver.copy_out(counter.ctypes.data, place, 4)
    assert counter[0] == 8


def test_a_race_is_an_error(driver: EmulatedDriver) -> None:
    place = driver.allocate(4)
    driver.launch(
        driver.function(driver.load(driver.assemble(MEET, ["plain"], Options())), "plain"),
        1,
        2,
        np.uint64(place).tobytes(),
    )
    with pytest.raises(DriverError, match="plain, 2 races: thread 1 reads what 0 wrote: byte 0 of 4 bytes"):
        driver.wait()


def test_accesses_that_did_not_wait_are_shown(driver: EmulatedDriver, capfd: pytest.CaptureFixture[str]) -> None:
    driver.show_unawaited()
    address, array = managed(driver, 1)
    driver.zero(address, 8)
    assert np.isnan(array[0])
    assert "test_accesses_that_did_not_wait_are_shown" in capfd.readouterr().err
    driver.wait()
    assert array[0] == 0 and driver.unawaited == 1


def test_every_helper_of_warps_has_a_meaning_for_one_lane() -> None:
    sources = [path.read_text() for path in Path(cuda.__file__).parent.glob("*.py")]
    named = {name for text in sources for name in re.findall(r"\"sg\.(?:warp|block)\.(\w+)", text)}
    assert named and named <= set(ONE_LANE)


def test_what_a_call_raised_is_told(driver: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(driver, "fill", fail)
    fill = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p)(
        driver.entry_points["cuMemsetD8Async"]
    )
    assert fill(0, 0, 8, None) == 999
    assert "KeyError('lost')" in driver.describe(999)[1]
