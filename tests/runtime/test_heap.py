"""The adstack heap as users see it: what gradients take, what is given back, and what no machine can give."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import stackgrad as sg
from stackgrad.backends.heap import PAGE, Heap, HeapRefusal
from stackgrad.compiler.ir.ops import OPS
from stackgrad.runtime.session import RUNTIME

ULP = float(np.finfo(np.float32).eps)
"""Of f32, as a share of the value, at most."""


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    sg.init(arch=sg.cpu, default_fp=sg.f32, cpu_max_num_threads=2)
    yield
    sg.reset()


def steps(counts: np.ndarray, gate: float = -1.0) -> tuple[sg.Kernel, sg.Field, sg.Field]:
    """y[i] = sin applied counts[i] times to x[i], in iterations with x[i] > gate."""
    n = sg.field(sg.i32, len(counts))
    n.from_numpy(counts.astype(np.int32))
    return steps_of(n, gate)


def steps_of(n: sg.Field, gate: float = -1.0) -> tuple[sg.Kernel, sg.Field, sg.Field]:
    """The same, with as many steps as a field says."""
    x, y = (sg.field(sg.f32, n.shape, needs_grad=True) for _ in range(2))
    x.from_numpy(np.linspace(0.2, 0.9, n.shape[0], dtype=np.float32))

    @sg.kernel
    def wave() -> None:
        for i in x:
            v = x[i]
            if v > gate:
                for _ in range(n[i]):
                    v = sg.sin(v)
            y[i] = v

    return wave, x, y


def slope(v: float, count: int) -> tuple[float, float]:
    """dy/dx of `steps` in double precision, and how far single precision may be from it.

    error: of v, by the ulps of a sine and what its argument is off by. share: of the slope, a product of cosines, by
    their ulps, the error of v and a rounding for each: (1 + r1)(1 + r2)... <= exp(r1 + r2 + ...).
    """
    slope, error, share = 1.0, 0.0, 0.0
    for _ in range(count):
        s, c = math.sin(v), math.cos(v)
        share += (s * error + error * error / 2) / c + (OPS["cos"].ulps + OPS["mul"].ulps) * ULP
        error = c * error + error * error / 2 + OPS["sin"].ulps * ULP * s
        slope, v = slope * c, s
    return slope, slope * math.expm1(share)


def near_slopes(found: np.ndarray, x: np.ndarray, counts: np.ndarray) -> None:
    slopes, bounds = np.array([slope(*pair) for pair in zip(x.tolist(), counts.tolist())]).T
    assert (np.abs(found - slopes) <= bounds).all(), np.max(np.abs(found - slopes) / bounds)


def gradient(kernel: sg.Kernel, x: sg.Field, y: sg.Field) -> np.ndarray:
    x.grad.fill(0)
    y.grad.fill(1)
    kernel.grad()
    return x.grad.to_numpy()


def real_slab() -> dict[str, int]:
    return dict(sg.adstack_report().slabs["real"])


def resident() -> int:
    """Bytes of memory that the process has backed."""
    return int(psutil.Process().memory_info().rss)


# -- what is taken --------------------------------------------------------------------------------------------


def test_one_deep_row_among_a_thousand_shallow_ones() -> None:
    """At most a tenth more than the content, all threads together."""
    counts = np.ones(1001, int)
    counts[500] = 100_000
    kernel, x, y = steps(counts)
    found = gradient(kernel, x, y)
    near_slopes(found, x.to_numpy(), counts)
    content = 4 * counts.sum()
    assert real_slab()["peak"] <= 1.1 * content
    (use,) = [u for u in sg.adstack_report().tasks if u.slab == "real"]
    assert (use.content, use.threads, use.lanes, use.stride) == (content, 1, 1, 400_000)
    assert kernel.stats().heap_bytes == use.bytes == 400_000


def test_other_slabs_are_not_touched_by_real_pushes() -> None:
    kernel, x, y = steps(np.full(50, 300))
    gradient(kernel, x, y)
    slabs = sg.adstack_report().slabs
    assert slabs["real"]["current"] > 0 == slabs["integer"]["current"] == slabs["flag"]["current"]


def test_forward_programs_take_nothing() -> None:
    kernel, _, _ = steps(np.full(50, 300))
    for _ in range(3):
        kernel()
    assert sg.adstack_report().peak == 0 and not any(s.memory for s in RUNTIME.backend.heap.slabs.values())
    assert kernel.stats().growths == kernel.stats().heap_bytes == 0


@pytest.mark.parametrize("gate", [-1.0, 2.0])
def test_gradients_without_depth_take_nothing(gate: float) -> None:
    """No trip of any loop, or no iteration behind the gate."""
    kernel, x, y = steps(np.zeros(50, int) if gate < 0 else np.full(50, 300), gate)
    assert gradient(kernel, x, y).tolist() == [1.0] * 50
    assert sg.adstack_report().peak == 0 and not any(s.memory for s in RUNTIME.backend.heap.slabs.values())


def test_constant_first_values_take_no_slot_and_open_no_gate() -> None:
    """The 0 that a sum starts from is known without a slot; the row is needed behind the gate alone."""
    n, size = 7, 40
    x, y = (sg.field(sg.f32, size, needs_grad=True) for _ in range(2))
    trips = sg.field(sg.i32, ())
    trips[None] = n
    x.from_numpy(np.linspace(-1, 1, size, dtype=np.float32))

    @sg.kernel
    def total() -> None:
        for i in x:
            v = 0.0
            k = 0
            if x[i] > 0.9:
                for _ in range(trips[None]):
                    v = sg.sin(v) + x[i]
                    k = k + 1
            y[i] = v + k

    total()
    passing = int((x.to_numpy() > 0.9).sum())
    gradient(total, x, y)
    uses = [u for u in sg.adstack_report().tasks if u.stride]
    assert [(u.slab, u.passing, u.stride, u.content) for u in uses] == [("real", passing, 4 * n, 4 * n * passing)]


# -- growth and return ----------------------------------------------------------------------------------------


def test_growth_is_counted_and_amortized() -> None:
    kernel, x, y = steps(np.full(4, 2000))
    n = sg.field(sg.i32, ())

    @sg.kernel
    def creeping() -> None:
        for i in x:
            v = x[i]
            for _ in range(n[None]):
                v = sg.sin(v)
            y[i] = v

    for trips in range(1000, 60_000, 1000):
        n[None] = trips
        gradient(creeping, x, y)
    stats = creeping.stats()
    assert 2 <= stats.growths <= 14 and stats.evaluations == 59
    before = stats.growths
    for trips in (5, 59_000, 1000):
        n[None] = trips
        gradient(creeping, x, y)
    assert creeping.stats().growths == before
    gradient(kernel, x, y)
    assert kernel.stats().growths == 0, "what another kernel made serves"


def test_launches_that_stand_ready_follow_the_heap() -> None:
    """Another kernel makes the heap larger, so that it moves: a launch that was prepared before uses the new one."""
    small, x, y = steps(np.arange(1, 60))
    large, u, v = steps(np.full(60, 3000))
    bases = set()
    for trips in (0, 1, 2):
        for _ in range(4):
            near_slopes(gradient(small, x, y), x.to_numpy(), np.arange(1, 60))
        bases.add(RUNTIME.backend.heap.slabs["real"].base)
        assert trips or small.stats().growths == 1
        if trips == 0:
            gradient(large, u, v)
        else:
            RUNTIME.backend.reset()
    assert len(bases) >= 2 and small.stats().countings + small.stats().evaluations == 1


@pytest.mark.expensive
def test_launches_of_several_threads_share_the_heap() -> None:
    """Each asks for other sizes all the time, so that slabs grow and launches take turns."""
    right: list[int] = []

    def work(seed: int) -> None:
        draw, trips = np.random.default_rng(seed), sg.field(sg.i32, 30)
        kernel, x, y = steps_of(trips)
        for _ in range(30):
            counts = draw.integers(0, 400 * seed, 30)
            trips.from_numpy(counts.astype(np.int32))
            near_slopes(gradient(kernel, x, y), x.to_numpy(), counts)
        right.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(right) == [1, 2, 5]


def test_reset_gives_everything_back() -> None:
    for _ in range(2):
        before = resident()
        kernel, x, y = steps(np.array([8_000_000]))
        assert gradient(kernel, x, y)[0] < 1
        heap = RUNTIME.backend.heap
        assert heap.slabs["real"].current >= 32_000_000 and resident() - before > 24_000_000
        sg.reset()
        assert heap.report()["real"] == {"current": 0, "peak": 0}
        assert resident() - before < 12_000_000
        sg.init(arch=sg.cpu)


def test_memory_is_backed_when_rows_are_used() -> None:
    heap, size = Heap(), 512 << 20
    before = resident()
    assert heap.reserve({"real": size})
    assert heap.slabs["real"].current == size and resident() - before < 8 << 20
    memory = heap.slabs["real"].memory
    assert memory is not None
    memory[100 << 20 : 132 << 20] = b"\1" * (32 << 20)
    assert 32 << 20 <= resident() - before < 72 << 20
    del memory
    heap.reset()
    assert resident() - before < 8 << 20


def test_a_slab_that_grows_keeps_no_old_one() -> None:
    heap = Heap()
    for size in (1 << 20, 3 << 20, 9 << 20):
        heap.reserve({"real": size, "flag": 5})
        assert heap.report() == {
            "real": {"current": size, "peak": size},
            "integer": {"current": 0, "peak": 0},
            "flag": {"current": PAGE, "peak": PAGE},
        }


# -- what cannot be had ---------------------------------------------------------------------------------------


def test_a_refusal_names_bytes_kernel_task_line_variable_and_cure() -> None:
    """Before anything is written; the next smaller launch is right."""
    counts = np.array([5, 100_000])
    kernel, x, y = steps(counts)
    RUNTIME.backend.heap.limit = 40 * PAGE
    try:
        with pytest.raises(sg.DeviceError) as caught:
            gradient(kernel, x, y)
        text = str(caught.value)
        for part in (
            "kernel wave",
            "task 0",
            "400000 bytes of real slots",
            f"limited to {40 * PAGE} bytes",
            "nothing was run",
            "the history of v",
            "test_heap.py:",
            "100000 slots of 4 bytes",
            "v = sg.sin(v)",
            "cure:",
        ):
            assert part in text, text
        assert x.grad.to_numpy().tolist() == [0, 0] and y.grad.to_numpy().tolist() == [1, 1]
        assert sg.adstack_report().peak == 0
        small, x, y = steps(np.array([5, 9]))
        near_slopes(gradient(small, x, y), x.to_numpy(), np.array([5, 9]))
    finally:
        RUNTIME.backend.heap.limit = None


def test_requests_beyond_64_bits_are_refused() -> None:
    heap = Heap()
    for size in (1 << 62, 1 << 64, 1 << 90):
        with pytest.raises(HeapRefusal, match=f"{size} bytes of real slots, and this machine has|control group has"):
            heap.reserve({"real": size})
    assert heap.reserve({"real": 100}) and heap.slabs["real"].base % PAGE == 0


def test_threads_are_given_up_before_the_launch() -> None:
    """Rows for one thread fit where those for two do not."""
    counts = np.full(64, 20_000)
    kernel, x, y = steps(counts)
    heap = RUNTIME.backend.heap
    heap.limit = 100_000
    try:
        near_slopes(gradient(kernel, x, y), x.to_numpy(), counts)
    finally:
        heap.limit = None
    assert 80_000 <= real_slab()["peak"] <= 100_000


ADDRESSES = """
import resource
import numpy as np
import psutil
import stackgrad as sg
sg.init(arch=sg.cpu, default_fp=sg.f32, cpu_max_num_threads=2)  # each thread has rows of its own
x, y = (sg.field(sg.f32, 2, needs_grad=True) for _ in range(2))
n = sg.field(sg.i32, ())

@sg.kernel
def wave():
    for i in x:
        v = x[i]
        for _ in range(n[None]):
            v = sg.sin(v)
        y[i] = v

def gradient(trips):
    n[None] = trips
    x.fill(0.5)
    x.grad.fill(0)
    y.grad.fill(1)
    wave.grad()
    return float(x.grad[0])

first = gradient(3)
used = psutil.Process().memory_info().vms
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), -1))
try:
    gradient(60_000_000)
except sg.DeviceError as error:
    text = str(error)
    for part in ("kernel wave", "240000000 bytes", "ulimit -v", "history of v", "nothing was run"):
        assert part in text, text
else:
    raise SystemExit("not refused")
assert float(x.grad[0]) == 0 and float(y.grad[0]) == 1, "nothing was written"
assert gradient(3) == first
assert sg.adstack_report().current < 10_000
gradient(1_000_000)
assert sg.adstack_report().current >= 4_000_000
print("went on")
"""


@pytest.mark.expensive
def test_a_limit_on_addresses_is_an_exception_and_the_process_goes_on(tmp_path: Path) -> None:
    program = tmp_path / "addresses.py"
    program.write_text(ADDRESSES)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and done.stdout.strip() == "went on", done.stderr
