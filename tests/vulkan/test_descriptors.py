"""Kernels that reach memory by descriptors: a device that is opened without buffer addresses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from recorded_support import near
from stackgrad.backends.base import Draws, Options, Sizes
from stackgrad.backends.launching.launcher import Launcher
from stackgrad.backends.spirv import access
from stackgrad.backends.vulkan import descriptors
from stackgrad.backends.vulkan.backend import VulkanBackend, most_threads
from stackgrad.backends.vulkan.memory import VulkanHeap
from stackgrad.backends.vulkan.recorded_commands import RecordedCommands
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.errors import AdstackOverflow, DeviceError, OutOfBounds, Unsupported
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.testing.bounds import run_bounded
from stackgrad.reference.launch import run as interpret

Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def bound(vulkan: VulkanBackend) -> VulkanBackend:
    """The device without buffer addresses."""
    return VulkanBackend(("buffer_addresses",))


def card(monkeypatch: pytest.MonkeyPatch, backend: VulkanBackend, **limits: int) -> None:
    """A device of which less can be reached."""
    monkeypatch.setattr(backend.device, "card", replace(backend.device.card, **limits))


def run(backend: VulkanBackend, text: str, arrays: Arrays, sizes: Sizes | None = None, **options: bool) -> Any:
    made = backend.compile(parse_kernel(text), Options(**options))
    made.run(arrays, {}, sizes or Sizes(), Draws())
    return made


def agrees(backend: VulkanBackend, text: str, make: Any) -> bool:
    """Whether device and reference give the same."""
    ours, theirs = make(), make()
    run(backend, text, ours)
    interpret(parse_kernel(text), theirs, {})
    return all(np.array_equal(array, theirs[name]) for name, array in ours.items())


SWEEP = """kernel sweep(x: f64[1] grad, n: i32[1], y: f64[1] grad) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2] %4: i32 = load n[%2] %5: i32 = const 0
    local v: f64 set v, %3
    for %6: i32 in %5 .. %4 {
      %7: f64 = get v %8: f64 = const 0.3 %9: u1 = cmp_gt %7, %8
      if %9 { %10: f64 = sin %7 set v, %10 } else { %11: f64 = mul %7, %7 %12: f64 = cos %11 set v, %12 }
    }
    %13: f64 = get v %14: f64 = atomic add y[%5], %13 } }"""


@pytest.mark.rotating
@pytest.mark.parametrize("n", [0, 3, 5000])
def test_gradients(bound: VulkanBackend, n: int) -> None:
    lowered = prepare_reverse(parse_kernel(SWEEP), "classic")
    arrays = {
        "x": np.linspace(-2, 2, n),
        "x.grad": np.zeros(n),
        "n": (np.arange(n) % 7).astype(np.int32),
        "y": np.zeros(1),
        "y.grad": np.ones(1),
    }
    known = run_bounded(lowered.kernel, arrays, {}, precise=False)
    Launcher(lowered, bound, Options()).run(arrays, {})
    near(known, "x.grad", arrays["x.grad"])


def test_the_device_is_opened_without_addresses(bound: VulkanBackend) -> None:
    """What a shader declares, and what its buffers are."""
    made = run(bound, "kernel k(x: f32[1]) { serial { } }", {"x": np.zeros(1, np.float32)})
    assert "PhysicalStorageBufferAddresses" not in made.shaders.capabilities
    assert isinstance(made, descriptors.DescriptorExecutable) and not made.pool.take(8).address


WIDTHS = """kernel widths(a: u8[1], b: i16[1], c: f16[1], d: f32[1], e: i64[1], f: f64[1], g: u1[1]) {
  bounds { %0: i32 = const 0 %1: i32 = const 700 } parallel %2: i32 in %0 .. %1 {
    %3: i32 = const 5 %4: i32 = mod %2, %3
    %5: u8 = cast %4 %6: u8 = atomic add a[%4], %5  %7: i16 = cast %2 %8: i16 = atomic max b[%4], %7
    %9: f16 = cast %4 %10: f16 = atomic max c[%4], %9  %11: f32 = cast %4 %12: f32 = atomic add d[%4], %11
    %13: i64 = cast %2 %14: i64 = atomic add e[%4], %13  %15: f64 = cast %2 %16: f64 = atomic add f[%4], %15
    %17: u1 = cmp_gt %2, %3 store g[%4], %17 } }"""


def test_updates_of_every_width(bound: VulkanBackend) -> None:
    """One buffer is read as several types; parts of words at both ends of an array."""

    def make() -> Arrays:
        types = {"a": np.uint8, "b": np.int16, "c": np.float16, "d": np.float32, "e": np.int64, "f": np.float64}
        return {**{name: np.zeros(5, t) for name, t in types.items()}, "g": np.ones(5, bool)}

    assert agrees(bound, WIDTHS, make)


def many(names: list[str]) -> str:
    stores = " ".join(f"%{9 + k}: i32 = const {k} store {name}[%2], %{9 + k}" for k, name in enumerate(names))
    params = ", ".join(f"{name}: i32[1]" for name in names)
    return f"""kernel many({params}) {{ bounds {{ %0: i32 = const 0 %1: i32 = shape {names[0]}, 0 }}
      parallel %2: i32 in %0 .. %1 {{ {stores} }} }}"""


@pytest.mark.parametrize("buffers", [2, 3, 5])
def test_more_arrays_than_storage_buffers(bound: VulkanBackend, monkeypatch: pytest.MonkeyPatch, buffers: int) -> None:
    """Some share one, whatever lies where on the host, and arrays that overlap among them."""
    names = [f"x{k}" for k in range(7)]
    card(monkeypatch, bound, storage_buffers=buffers)
    whole = np.full(64, -1, np.int32)
    arrays = {name: np.full(9, -1, np.int32) for name in names} | {"x1": whole[10:19], "x5": whole[30:39]}
    made = run(bound, many(names), arrays)
    assert made.shaders.bindings.count == buffers
    assert [int(array[k]) for array in arrays.values() for k in (0, 8)] == [k for k in range(7) for _ in range(2)]
    assert (whole == -1).sum() == 64 - 18


def test_too_few_storage_buffers(bound: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    card(monkeypatch, bound, storage_buffers=1)
    with pytest.raises(Unsupported, match="kernel many: shaders of this device have 1 storage buffers, which is too"):
        run(bound, many(["x"]), {"x": np.zeros(9, np.int32)})


def test_one_array_by_two_names(bound: VulkanBackend) -> None:
    text = """kernel k(x: f64[1], y: f64[1]) {
      bounds { %0: i32 = const 0 %1: i32 = shape y, 0 } parallel %2: i32 in %0 .. %1 {
      %3: f64 = load x[%2] %4: f64 = add %3, %3 store y[%2], %4 } }"""
    for x in (np.arange(8.0), np.arange(11.0)[3:]):
        run(bound, text, {"x": x, "y": x})
        run(bound, text, {"x": x, "y": x[3:6]})
        begin = x[0] / 2
        twice = [2 * (begin + k) for k in range(8)]
        assert x.tolist() == [*twice[:3], *(2 * v for v in twice[:3]), *twice[6:]]


# ---- how far a shader reaches -----------------------------------------------------------------------------------

ROW = """kernel row(x: i32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    adstack_alloca s: i32 capacity CAPACITY of v  adstack_alloca t: f64 capacity 2
    %3: i32 = load x[%2] %4: i32 = const 1 %5: f64 = cast %2 adstack_push t, %5
    adstack_push s, %3 adstack_push s, %2 adstack_push s, %4
    %6: i32 = adstack_load_top s adstack_pop s %7: i32 = adstack_load_top s adstack_pop s
    %8: i32 = adstack_load_top s %9: i32 = add %6, %7 %10: i32 = mul %9, %8
    %11: f64 = adstack_load_top t %12: i32 = cast %11 %13: i32 = add %10, %12 store x[%2], %13 } }"""


def rows(n: int) -> Any:
    return lambda: {"x": np.arange(3, 3 + n, dtype=np.int32)}


def test_adstacks_that_no_buffer_holds_are_split(bound: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heap larger than what a shader reaches (128 MiB here): parts of a task, each with a window of its own."""
    reach, most = min(bound.device.card.reach, 128 << 20), most_threads(bound.device)
    card(monkeypatch, bound, reach=reach)
    text = ROW.replace("CAPACITY", str(reach // (most * 4) + 3000))
    assert agrees(bound, text, rows(most + 700))
    assert bound.heap_report()["integer"]["current"] > reach
    bound.reset()


@pytest.mark.parametrize(("reach", "parts"), [(64 * 4 * 100, 8), (64 * 4 * 100 + 255, 8), (3 * 64 * 4 * 100, 3)])
def test_parts(bound: VulkanBackend, monkeypatch: pytest.MonkeyPatch, reach: int, parts: int) -> None:
    """Rows of a part fill a window; the last part may have fewer."""
    card(monkeypatch, bound, reach=reach)
    seen: list[Any] = []
    send = RecordedCommands.run
    monkeypatch.setattr(RecordedCommands, "run", lambda self, *given: (seen.append(given), send(self, *given)))
    assert agrees(bound, ROW.replace("CAPACITY", "100"), rows(500))
    ((sets, steps),) = seen
    assert len(sets) == parts and [part.set for part in steps[1]] == list(range(parts))
    assert sum(part.groups for part in steps[1]) == 8 and all(part.threads == 512 for part in steps[1])
    assert all(shown[k].size <= reach for shown in sets for k in (1, 2))
    for shown, after in zip(sets, sets[1:]):  # rows of no two parts meet
        assert all(shown[k].offset + shown[k].size <= after[k].offset for k in (1, 2))


def test_threads_give_way_where_there_is_no_memory_for_all_parts(
    bound: VulkanBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    card(monkeypatch, bound, reach=64 * 4 * 100)
    heap = VulkanHeap(bound.device, limit=4 * 64 * 4 * 100)
    made = bound.compile(parse_kernel(ROW.replace("CAPACITY", "100")), Options())
    made.heap = heap  # type: ignore[assignment]
    ours, theirs = rows(500)(), rows(500)()
    made.run(ours, {}, Sizes(), Draws())
    interpret(parse_kernel(ROW.replace("CAPACITY", "100")), theirs, {})
    assert ours["x"].tolist() == theirs["x"].tolist()
    assert 0 < heap.report()["integer"]["current"] <= 4 * 64 * 4 * 100
    heap.reset()


def test_a_group_that_no_buffer_holds_is_refused_with_the_numbers(bound: VulkanBackend) -> None:
    reach = bound.device.card.reach
    slots = reach // (64 * 4) + 1
    arrays = rows(100)()
    with pytest.raises(DeviceError) as caught:
        run(bound, ROW.replace("CAPACITY", str(slots)), arrays)
    said = str(caught.value)
    assert f"the adstacks of one group of threads need {64 * 4 * slots} bytes" in said
    assert f"without buffer addresses reach {reach} bytes of a storage buffer" in said
    assert f"for the history of v: {slots} slots of 4 bytes" in said and "cure: " in said
    assert arrays["x"].tolist() == list(range(3, 103))


FILL = """kernel fill(x: u8[1], y: u8[1]) { serial {
  %0: i64 = shape x, 0 %1: i64 = const 1 %2: i64 = sub %0, %1 %3: u8 = const 7 store x[%2], %3 store y[%1], %3 } }"""


def test_an_array_that_no_shader_reaches_is_refused_with_the_numbers(bound: VulkanBackend) -> None:
    reach = bound.device.card.reach
    x, y = np.zeros(reach + 16, np.uint8), np.zeros(2, np.uint8)
    with pytest.raises(DeviceError, match=rf"array x takes \d+ bytes, .* reach {reach} bytes of a storage buffer"):
        run(bound, FILL, {"x": x, "y": y})
    assert not y.any()
    run(bound, FILL, {"x": y, "y": y})
    assert y.tolist() == [0, 7]


def test_a_large_array_is_reached_to_its_end(bound: VulkanBackend) -> None:
    x, y = np.zeros(bound.device.card.reach - 4096, np.uint8), np.zeros(2, np.uint8)
    run(bound, FILL, {"x": x, "y": y})
    assert x[-1] == 7 and not x[:-1].any() and y.tolist() == [0, 7]
    bound.reset()


def test_arrays_that_share_a_buffer_are_refused_together(bound: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    card(monkeypatch, bound, storage_buffers=2, reach=4096)
    with pytest.raises(DeviceError, match=r"arrays x, y take, in one buffer, \d+ bytes"):
        run(bound, FILL, {"x": np.zeros(3000, np.uint8), "y": np.zeros(3000, np.uint8)})


# ---- errors -----------------------------------------------------------------------------------------------------


def test_errors_are_those_of_other_devices(bound: VulkanBackend) -> None:
    text = ROW.replace("CAPACITY", "2")
    with pytest.raises(AdstackOverflow, match="adstack s, the history of v, overflowed: it holds 2 values") as caught:
        run(bound, text, rows(100)())
    assert "published capacities: s 2, t 2" in str(caught.value) and "of kernel row, task 0" in str(caught.value)
    outside = """kernel k(x: f32[1]) { bounds { %0: i32 = const 0 %1: i32 = const 9 } parallel %2: i32 in %0 .. %1 {
      %3: f32 = load x[%2] } }"""
    with pytest.raises(OutOfBounds, match="index [78] is outside axis 0 of x, which has 7 elements"):
        run(bound, outside, {"x": np.zeros(7, np.float32)}, debug=True)


# ---- mistakes that these tests find -----------------------------------------------------------------------------


def test_parts_that_count_from_0_are_found(bound: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    card(monkeypatch, bound, reach=64 * 4 * 100)
    chunk = access.chunk
    monkeypatch.setattr(access, "chunk", lambda code: (code.const(access.I64, 0), chunk(code)[1]))
    assert not agrees(bound, ROW.replace("CAPACITY", "100"), rows(500))


GATED = """kernel gated(g: i32[1], y: f32[1]) {
  bounds { %0: i32 = const 0 %1: i32 = shape g, 0 } parallel %2: i32 in %0 .. %1 {
    adstack_alloca s: f32
    %3: i32 = load g[%2] %4: i32 = const 0 %5: u1 = cmp_gt %3, %4
    if %5 {
      %6: f32 = const 1.0
      for %7: i32 in %4 .. %3 { adstack_push s, %6 }
      %8: f32 = adstack_load_top s
      store y[%2], %8
    }
  }
}"""


def test_a_list_that_cannot_grow_stays_where_it_was(bound: VulkanBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is refused; no buffer is then both in use and to be had, and the next call is right."""
    executable = bound.compile(parse_kernel(GATED), Options())

    def launch(passing: int) -> np.ndarray:
        gate, y = np.zeros(200_000, np.int32), np.zeros(200_000, np.float32)
        gate[:passing] = 1
        sizes = Sizes({"s": 1}, rows={(0, "real"): passing}, totals={"s": passing}, iterations={0: gate.size})
        executable.run({"g": gate, "y": y}, {}, sizes, Draws())
        return y

    assert launch(5).sum() == 5
    (old,) = executable._lists
    place, take = executable._place_lists, executable.pool.take

    def refused(rooms: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(executable.pool, "take", _none_left)
            place(rooms)

    with monkeypatch.context() as patched:
        patched.setattr(executable, "_place_lists", refused)
        with pytest.raises(DeviceError, match="no memory is left"):
            launch(90_000)
    assert executable._lists == [old] and take(old.size) is not old
    assert launch(90_000).sum() == 90_000


def _none_left(size: int) -> Any:
    raise DeviceError("no memory is left")
