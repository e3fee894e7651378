"""Where adstacks lie on a device, and how many rows a task has."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from counted_memory import Memory
from stackgrad.backends.base import Sizes
from stackgrad.backends.codegen.layout import lay_out_for_device
from stackgrad.backends.device import policy, stacks
from stackgrad.backends.device.heap import DeviceHeap
from stackgrad.backends.device.policy import WARP, DeviceLimits, TaskDemand, TaskGeometry, dispatch
from stackgrad.backends.host.block import ArgumentBlock
from stackgrad.compiler.errors import DeviceError
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel

H100 = DeviceLimits(50 << 20, 80 << 30)
KERNEL = """kernel k(x: f32[1], n: i32) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    adstack_alloca a: f32 of v
    adstack_alloca b: f64 adjoint of w
    adstack_alloca c: i32 of t
    adstack_alloca d: u1 of q
    adstack_alloca e: i64 of r
    %3: f32 = load x[%2]
    %4: f32 = const 0.0
    %5: u1 = cmp_gt %3, %4
    if %5 {
      for %6: i32 in %0 .. %1 {
        adstack_push a, %3
      }
      store x[%2], %4
    }
  }
  serial {
    adstack_alloca f: f16 of s
    adstack_alloca g: f64 of z
  }
}
"""


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return parse_kernel(KERNEL)


@pytest.mark.parametrize(
    ("demand", "want"),
    [
        (TaskDemand(256, 1 << 20, 256 << 20, 1 << 20), TaskGeometry(65536)),  # 64 steps of f32: 16.8 MB
        (TaskDemand(128, 52429, 128 * 52429, 1 << 20, True), TaskGeometry(52480, 55961)),  # one in twenty passes
        (TaskDemand(648, 47112, 648 * 47112, 604000, True), TaskGeometry(32768, 50312)),  # six floats, 27 steps
        (TaskDemand(128, 1 << 20, 128 << 20, 1 << 20, True), TaskGeometry(65536)),  # all pass: no list
        (TaskDemand(4000, 1 << 20, 4000 << 20, 1 << 20), TaskGeometry(16384)),  # deep rows: fewer threads
        (TaskDemand(64, 10, 640, 10), TaskGeometry(32)),
        (TaskDemand(1 << 16, 10, 10 << 16), TaskGeometry(32)),
        (TaskDemand(64, 10, 640), TaskGeometry(16384)),  # it may have many iterations
        (TaskDemand(64, 10, 640, 1000), TaskGeometry(1024)),
        (TaskDemand(400000, 1001, 404000, 1001), TaskGeometry(2)),  # one deep row among shallow ones
        (TaskDemand(400000, 1100, 100 * 400000 + 4000, 1100), TaskGeometry(1152)),  # a tenth of them deep
        (TaskDemand(400000, 100000, 10 * 400000 + 4 * 99990, 100000), TaskGeometry(352)),  # ten among many
        (TaskDemand(400000, 5000, 5000 * 400000, 5000), TaskGeometry(5120)),  # all deep
        (TaskDemand(64), TaskGeometry(65536)),  # nothing counted
        (TaskDemand(64, 0, 0, 1000), TaskGeometry(1024)),
        (TaskDemand(0, 0, 0, 1000), TaskGeometry(1024)),
        (TaskDemand(0, 0, 0), TaskGeometry(65536)),
        (TaskDemand(64, 100, 6400, None, True), TaskGeometry(128, 362)),
    ],
)
def test_policy(demand: TaskDemand, want: TaskGeometry) -> None:
    assert dispatch(demand, H100) == want


def test_bytes_of_the_named_cases() -> None:
    """2^20 iterations of 64 steps; 5 % of 2^20 with 32; 7.8 % of 604,000 with 6 floats and 27."""
    named = [(256, 1 << 20, 1 << 20, 17e6), (128, 52429, 1 << 20, 7e6), (648, 47112, 604000, 22e6)]
    for row, passing, count, most in named:
        found = dispatch(TaskDemand(row, passing, row * passing, count, passing < count), H100)
        assert found.rows * row + found.listed * stacks.ENTRY <= most


def test_a_policy_is_within_its_bounds() -> None:
    draw = random.Random(3)
    for _ in range(2000):
        row, count = draw.choice([4, 60, 648, 10**5, 10**7]), draw.choice([1, 33, 5000, 10**6, 10**8])
        passing = draw.randint(0, count)
        content, told, gated = draw.choice([None, row * passing // 3]), draw.choice([None, count]), draw.random() < 0.5
        demand = TaskDemand(row, passing, content, told, gated)
        found = dispatch(demand, H100)
        assert 1 <= found.rows <= policy.MOST and (found.rows < WARP or found.rows % WARP == 0)
        assert found.rows * row <= H100.memory_bytes // 4 + policy.BLOCK * row
        if demand.content is not None:
            assert found.rows * row <= max(policy.FREE, 32 * content) + policy.BLOCK * row
        assert not found.listed or demand.gated and found.listed > passing
        assert demand.count is None or found.rows < count + policy.BLOCK


def placed(kernel: Kernel, sizes: Sizes, rows: int, listed: int = 0) -> tuple[stacks.StackPlan, ArgumentBlock]:
    layout = lay_out_for_device(kernel)
    plan = stacks.plan(layout, sizes, {0: TaskGeometry(rows, listed), 1: TaskGeometry(1)})
    block = ArgumentBlock(layout, "k", set())
    for at, word in plan.words:
        block.put(at, word)
    return plan, block


@pytest.mark.parametrize("depths", [(3, 2, 1, 5, 2, 3, 1), (3, 0, 1, 0, 2, 0, 1), (0, 2, 0, 5, 0, 1, 0)])
@pytest.mark.parametrize("rows", [1, 3, 32, 64])
def test_no_two_slots_share_a_byte(kernel: Kernel, depths: tuple[int, ...], rows: int) -> None:
    names = "abcdefg"
    needed = {(0, slab): rows for slab in ("real", "integer", "flag")} | {(1, "real"): 1}
    sizes = Sizes(dict(zip(names, depths)), needed)
    plan, block = placed(kernel, sizes, rows, listed=100)
    layout = block.layout
    taken: dict[tuple[int, str], set[int]] = {}
    for stack in layout.stacks:
        held = block.word(layout.rows[stack.task, stack.slab])
        offset, slots = block.word(stack.offset_at), block.word(stack.capacity_at)
        assert slots == depths[names.index(stack.alloca.stack)]
        used = taken.setdefault((stack.task, stack.slab), set())
        for k, row in itertools.product(range(max(slots, 1)), range(held)):
            begin = offset * held + (k * held + row) * stack.slot_bytes
            assert begin % min(stack.alloca.dtype.size, 8) == 0
            mine = set(range(begin, begin + stack.slot_bytes))
            assert max(mine) < plan.needs[stack.slab]
            assert not slots or mine.isdisjoint(used)
            used |= mine if slots else set()
    begin = plan.lists[0]
    assert taken[0, "integer"].isdisjoint(range(begin, begin + 400)) and plan.needs["integer"] >= begin + 400


def test_a_task_that_no_iteration_needs_a_row_of_takes_nothing(kernel: Kernel) -> None:
    sizes = Sizes(dict.fromkeys("abcdefg", 4), {(0, slab): 0 for slab in ("real", "integer", "flag")})
    plan, block = placed(kernel, sizes, 64)
    assert plan.needs == {"real": 40, "integer": 0, "flag": 0}, "four halves and four doubles, of the serial task"
    assert all(block.word(s.capacity_at) == 0 for s in block.layout.stacks if s.task == 0)


def bound(
    kernel: Kernel, memory: Memory, sizes: Sizes, count: int | None
) -> tuple[ArgumentBlock, DeviceHeap, stacks.StackPlacement]:
    layout = lay_out_for_device(kernel)
    block, heap, placement = ArgumentBlock(layout, "k", set()), DeviceHeap(memory), stacks.place(kernel, layout, H100)
    stacks.bind(block, placement, sized(sizes, count), heap)
    return block, heap, placement


def sized(sizes: Sizes, count: int | None) -> Sizes:
    """With so many iterations of the first task."""
    return sizes if count is None else replace(sizes, iterations={0: count})


def few(depth: int = 8, passing: int = 100) -> Sizes:
    rows = {(0, "real"): passing, (0, "integer"): 0, (0, "flag"): 0}
    return Sizes({"a": depth}, rows, {"a": depth * passing, **dict.fromkeys("bcde", 0)})


def test_a_gated_task_of_which_few_pass_has_a_list(kernel: Kernel) -> None:
    block, heap, placement = bound(kernel, Memory(), few(), 1000)
    layout = block.layout
    assert placement.gated == {0} and block.word(layout.threads_at[0]) == block.word(layout.rows[0, "real"]) == 128
    assert block.word(layout.list_at[0]) == heap.base("integer") and block.word(layout.room_at[0]) == 362
    dense, _, _ = bound(kernel, Memory(), few(), 150)
    assert dense.word(layout.room_at[0]) == 0 and dense.word(layout.threads_at[0]) == 160


def test_binding_again_changes_nothing_and_growth_is_counted(kernel: Kernel) -> None:
    memory = Memory()
    block, heap, placement = bound(kernel, memory, few(), 1000)
    before = bytes(block.view), heap.epoch
    stacks.bind(block, placement, sized(few(), 1000), heap)
    assert (bytes(block.view), heap.epoch) == before and placement.growths == 1
    stacks.bind(block, placement, sized(few(9), 1000), heap)
    assert placement.growths == 2 and block.word(block.layout.slabs["real"]) == heap.base("real")
    held = dict(memory.held)
    stacks.bind(block, placement, sized(few(2), 1000), heap)
    assert memory.held == held and placement.growths == 2


def test_rows_are_halved_until_they_fit(kernel: Kernel) -> None:
    sizes = few(1500, 1 << 20)
    block, heap, _ = bound(kernel, Memory(64 << 20), sizes, 1 << 20)
    rows = block.word(block.layout.rows[0, "real"])
    assert rows == 8192 and rows * 6000 <= heap.report()["real"]["current"] <= 64 << 20


def test_a_single_row_is_enough(kernel: Kernel) -> None:
    block, _, _ = bound(kernel, Memory(1 << 20), few(200_000, 1000), 1000)
    assert block.word(block.layout.rows[0, "real"]) == block.word(block.layout.threads_at[0]) == 1


def test_what_no_device_has_is_refused_with_its_numbers(kernel: Kernel) -> None:
    memory = Memory(1 << 20)
    with pytest.raises(DeviceError) as caught:
        bound(kernel, memory, few(1_000_000, 1000), 1000)
    text = str(caught.value)
    assert "kernel k, task 0: the adstacks need 4000016 bytes of real slots" in text
    assert "the device has 1048576 of 1048576 bytes left; nothing was run" in text
    assert "4000000 bytes, for the history of v: 1000000 slots of 4 bytes" in text and "cure: " in text
    assert not memory.held
