"""Emulated blocks: threads meet at barriers and in warps, and what nothing orders is a race."""

from __future__ import annotations

import ctypes

import pytest
from stackgrad.backends.base import Options
from stackgrad.backends.cuda.driver import DriverError
from stackgrad.harness.testing.emulated_cuda.driver import EmulatedDriver
from stackgrad.harness.testing.emulated_cuda.fibers import AVAILABLE

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="the C library switches contexts on Linux alone")

TEXT = """
@"sg.shared.words" = internal addrspace(3) global [128 x i32] undef

declare i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()
declare i32 @"llvm.nvvm.read.ptx.sreg.ctaid.x"()
declare i32 @"llvm.nvvm.vote.ballot.sync"(i32, i1)
declare i32 @"llvm.nvvm.shfl.sync.down.i32"(i32, i32, i32, i32)
declare void @"llvm.nvvm.barrier.cta.sync.aligned.all"(i32)

define ptx_kernel void @"turned"(ptr addrspace(1) %a0) {
entry.1:
  %t = call i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()
  %mine = getelementptr i32, ptr addrspace(3) @"sg.shared.words", i32 %t
  store i32 %t, ptr addrspace(3) %mine
  call void @"llvm.nvvm.barrier.cta.sync.aligned.all"(i32 0)
  %o = sub i32 127, %t
  %other = getelementptr i32, ptr addrspace(3) @"sg.shared.words", i32 %o
  %v = load i32, ptr addrspace(3) %other
  %at = getelementptr i32, ptr addrspace(1) %a0, i32 %t
  store i32 %v, ptr addrspace(1) %at
  ret void
}

define ptx_kernel void @"lanes"(ptr addrspace(1) %a0) {
entry.1:
  %t = call i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()
  %third = urem i32 %t, 3
  %is = icmp eq i32 %third, 0
  %b = call i32 @"llvm.nvvm.vote.ballot.sync"(i32 -1, i1 %is)
  %d = call i32 @"llvm.nvvm.shfl.sync.down.i32"(i32 -1, i32 %t, i32 5, i32 31)
  %at = getelementptr i32, ptr addrspace(1) %a0, i32 %t
  %x = xor i32 %b, %d
  store i32 %x, ptr addrspace(1) %at
  ret void
}

define ptx_kernel void @"ordered"(ptr addrspace(1) %a0) {
entry.1:
  %t = call i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()
  %at = getelementptr i32, ptr addrspace(1) %a0, i32 %t
  store i32 %t, ptr addrspace(1) %at
  call void @"llvm.nvvm.barrier.cta.sync.aligned.all"(i32 0)
  %o = sub i32 127, %t
  %from = getelementptr i32, ptr addrspace(1) %a0, i32 %o
  %v = load i32, ptr addrspace(1) %from
  call void @"llvm.nvvm.barrier.cta.sync.aligned.all"(i32 0)
  store i32 %v, ptr addrspace(1) %at
  ret void
}

define ptx_kernel void @"unordered"(ptr addrspace(1) %a0) {
entry.1:
  %t = call i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()
  %at = getelementptr i32, ptr addrspace(1) %a0, i32 %t
  store i32 %t, ptr addrspace(1) %at
  call void @"llvm.nvvm.barrier.cta.sync.aligned.all"(i32 0)
  %o = sub i32 127, %t
  %from = getelementptr i32, ptr addrspace(1) %a0, i32 %o
  %v = load i32, ptr addrspace(1) %from
  store i32 %v, ptr addrspace(1) %at
  ret void
}

define ptx_kernel void @"early"(ptr addrspace(1) %a0) {
entry.1:
  %t = call i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()
  %is = icmp ult i32 %t, 5
  br i1 %is, label %done, label %on
on:
  call void @"llvm.nvvm.barrier.cta.sync.aligned.all"(i32 0)
  br label %done
done:
  ret void
}

define ptx_kernel void @"stuck"(ptr addrspace(1) %a0) {
entry.1:
  %t = call i32 @"llvm.nvvm.read.ptx.sreg.tid.x"()
  %is = icmp ult i32 %t, 5
  br i1 %is, label %first, label %other
first:
  %b = call i32 @"llvm.nvvm.vote.ballot.sync"(i32 -1, i1 true)
  br label %done
other:
  call void @"llvm.nvvm.barrier.cta.sync.aligned.all"(i32 0)
  br label %done
done:
  ret void
}
"""


def run(name: str, blocks: int = 1) -> tuple[EmulatedDriver, list[int]]:
    driver = EmulatedDriver(blocks=True, strict=False)
    module = driver.load(driver.assemble(TEXT, [name], Options()))
    place = driver.allocate(512)
    driver.launch(driver.function(module, name), blocks, 128, place.to_bytes(8, "little"))
    found = bytearray(512)
    view = (ctypes.c_char * 512).from_buffer(found)
    driver.copy_out(ctypes.addressof(view), place, 512)
    words = [int.from_bytes(found[k : k + 4], "little") for k in range(0, 512, 4)]
    return driver, words


def test_a_barrier_shows_what_others_wrote() -> None:
    assert run("turned")[1] == list(range(127, -1, -1))


def test_lanes_exchange_values() -> None:
    for thread, found in enumerate(run("lanes")[1]):
        base = thread // 32 * 32
        ballot = sum(1 << k for k in range(32) if (base + k) % 3 == 0)
        assert found == ballot ^ (thread + 5 if thread % 32 < 27 else thread)


@pytest.mark.parametrize(
    ("name", "blocks", "race"),
    [("ordered", 1, None), ("unordered", 1, ("reads", 64, 63)), ("ordered", 2, ("writes", 128, 0))],
)
def test_a_barrier_orders_a_block(name: str, blocks: int, race: tuple[str, int, int] | None) -> None:
    races = run(name, blocks)[0].races
    assert [(r.kind, r.thread, r.other) for r in races] == ([race] if race else [])


def test_threads_that_are_over_are_counted() -> None:
    assert run("early")[0].early == 5
    assert run("turned")[0].early == 0


def test_threads_that_wait_for_each_other_are_an_error() -> None:
    with pytest.raises(DriverError, match=r"stuck: threads wait for each other"):
        run("stuck")
