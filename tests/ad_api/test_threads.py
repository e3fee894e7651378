"""Test tapes and forward modes of several threads: each records the launches of its own thread, and no others."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.harness.tools.mutants import MUTANTS
from stackgrad.runtime.session import RUNTIME


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Make Python switch threads often while a test runs."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Powers:
    """Represent a program y = c x^2, repeated three times with a copy of y to x between; loss = sum y."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.x, self.y = (sg.field(sg.f64, 4, needs_grad=True) for _ in range(2))
        self.loss = sg.field(sg.f64, (), needs_grad=True)
        x, y, loss = self.x, self.y, self.loss

        @sg.kernel
        def square():
            for i in x:
                y[i] = factor * x[i] * x[i]

        @sg.kernel
        def total():
            for i in x:
                loss[None] += x[i]

        self.square, self.total = square, total

    def run(self) -> None:
        for _ in range(3):
            self.square()
            self.x.copy_from(self.y)
        self.total()

    def exact(self) -> list[float]:
        start = np.arange(1.0, 5.0)
        return (8 * self.factor**7 * start**7).tolist()

    def gradient(self) -> list[float]:
        self.x.from_numpy(np.arange(1.0, 5.0))
        with sg.ad.Tape(self.loss):
            self.run()
        return self.x.grad.to_numpy().tolist()

    def tangent(self) -> float:
        self.x.from_numpy(np.arange(1.0, 5.0))
        self.loss[None] = 0.0
        with sg.ad.FwdMode(self.loss, self.x, seed=np.ones(4)):
            self.run()
        return float(self.loss.dual[None])


def together(*works: Callable[[], Any]) -> None:
    """Run these functions in threads at the same time, and raise an exception that one of them raised."""
    start = threading.Barrier(len(works))

    def work(one: Callable[[], Any]) -> None:
        start.wait()
        one()

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(work, one) for one in works]:
            done.result()


def test_two_tapes_at_once() -> None:
    programs = [Powers(1.0), Powers(2.0)]
    wrong: list[Any] = []

    def work(p: Powers) -> None:
        for _ in range(25):
            found = p.gradient()
            wrong.extend([found] if found != p.exact() else [])

    together(*(lambda p=p: work(p) for p in programs))  # type: ignore[misc]
    assert not wrong and RUNTIME.tapes == ()


def test_forward_mode_in_two_threads_and_a_tape_in_a_third() -> None:
    programs = [Powers(1.0), Powers(2.0), Powers(-1.0)]
    wrong: list[Any] = []

    def work(p: Powers) -> None:
        for _ in range(15):
            found = p.tangent()
            wrong.extend([found] if found != sum(p.exact()) else [])

    def tape(p: Powers) -> None:
        for _ in range(15):
            found = p.gradient()
            wrong.extend([found] if found != p.exact() else [])

    together(lambda: work(programs[0]), lambda: work(programs[1]), lambda: tape(programs[2]))
    assert not wrong


def test_second_derivatives_in_two_threads() -> None:
    programs = [Powers(1.0), Powers(2.0)]
    wrong: list[Any] = []

    def work(p: Powers) -> None:
        for _ in range(5):
            p.x.from_numpy(np.arange(1.0, 5.0))
            found = sg.ad.hvp(p.loss, p.x, p.run, np.ones(4)).tolist()
            exact = (56 * p.factor**7 * np.arange(1.0, 5.0) ** 6).tolist()
            wrong.extend([found] if found != exact else [])

    together(*(lambda p=p: work(p) for p in programs))  # type: ignore[misc]
    assert not wrong


def test_launches_beside_a_tape_are_not_recorded() -> None:
    recorded, beside = Powers(1.0), Powers(2.0)
    beside.x.fill(1.0)
    tape = sg.ad.Tape(recorded.loss)
    recorded.x.from_numpy(np.arange(1.0, 5.0))
    with ThreadPoolExecutor(1) as pool, tape:
        for _ in range(5):
            pool.submit(beside.square).result()
        recorded.run()
        pool.submit(beside.total).result()
        pool.submit(beside.x.fill, 3.0).result()
        pool.submit(lambda: beside.x.to_numpy()).result()
    assert recorded.x.grad.to_numpy().tolist() == recorded.exact()
    assert len(tape.launches()) == 7, "six launches and copies of the run, and the total"
    assert not beside.x.grad.to_numpy().any()


def test_kernels_with_arrays_and_results_are_not_recorded_either() -> None:
    p = Powers(1.0)
    array = np.arange(4.0)

    @sg.kernel
    def doubled(a: sg.types.ndarray()) -> sg.f64:
        for i in a:
            a[i] = 2.0 * a[i]
        return a[1]

    for _ in range(4):
        doubled(array)
    p.x.from_numpy(np.arange(1.0, 5.0))
    with ThreadPoolExecutor(1) as pool, sg.ad.Tape(p.loss) as tape:
        assert pool.submit(doubled, array).result() == 32.0
        p.run()
    assert len(tape.launches()) == 7 and p.x.grad.to_numpy().tolist() == p.exact()


def test_standing_launches_pass_through_python_while_another_thread_has_a_tape() -> None:
    p, beside = Powers(1.0), Powers(1.0)
    for _ in range(8):
        beside.square()  # stands ready natively from some call on
    launches = beside.square.stats().launches
    p.x.from_numpy(np.arange(1.0, 5.0))
    with ThreadPoolExecutor(1) as pool, sg.ad.Tape(p.loss) as tape:
        pool.submit(beside.square).result()
        p.run()
    assert beside.square.stats().launches == launches + 1 and len(tape.launches()) == 7
    beside.square()
    assert beside.square.stats().launches == launches + 2


def test_gradients_of_another_thread_are_not_cleared() -> None:
    mine, others = Powers(1.0), Powers(2.0)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(others.gradient).result() == others.exact()
        assert mine.gradient() == mine.exact()
        assert others.x.grad.to_numpy().tolist() == others.exact(), "they belong to a thread that lives"
        sg.ad.clear_all_gradients()
        assert others.x.grad.to_numpy().tolist() == others.exact()
        assert others.gradient() == others.exact(), "used in this thread, they are this thread's, and begin at 0"
    assert mine.gradient() == mine.exact()
    assert not others.x.grad.to_numpy().any()


def test_one_field_in_tapes_of_two_threads_is_refused() -> None:
    p = Powers(1.0)
    entered, over = threading.Event(), threading.Event()

    def hold() -> None:
        with sg.ad.Tape(p.loss):
            p.square()
            entered.set()
            over.wait(60)

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(hold)
        entered.wait(60)
        loss = sg.field(sg.f64, (), needs_grad=True)
        with pytest.raises(sg.TapeError, match="another thread is taking derivatives of"), sg.ad.Tape(loss):
            p.square()
        with pytest.raises(sg.TapeError, match="another thread is taking derivatives of"):
            sg.ad.Tape(p.loss).__enter__()
        with pytest.raises(sg.TapeError, match="another thread is taking derivatives of"):
            sg.ad.FwdMode(loss, p.x, seed=np.ones(4)).__enter__()
        over.set()
        held.result()
    assert RUNTIME.tapes == () and RUNTIME.forward is None
    assert p.gradient() == p.exact()


@pytest.mark.parametrize("write", ["launch", "host"])
def test_what_another_thread_writes_to_a_field_of_a_tape_is_an_error(write: str) -> None:
    p = Powers(1.0)
    other = Powers(1.0)
    x = p.x

    @sg.kernel
    def clear():
        for i in x:
            x[i] = 0.0

    with ThreadPoolExecutor(1) as pool:
        told = pytest.raises(sg.TapeError, match=r"in another thread wrote .*, which this tape uses")
        with told, sg.ad.Tape(p.loss):
            p.square()
            pool.submit(clear if write == "launch" else lambda: x.fill(0.0)).result()
            p.total()
        told = pytest.raises(sg.TapeError, match=r"in another thread wrote .*, which this forward mode uses")
        with told, sg.ad.FwdMode(p.loss, p.x, seed=np.ones(4)):
            p.square()
            pool.submit(clear).result()
        with sg.ad.Tape(p.loss):
            p.square()
            pool.submit(other.square).result()
    assert p.gradient() == p.exact()


def test_what_another_thread_writes_and_no_gradient_reads_is_no_error() -> None:
    p = Powers(1.0)
    counts = sg.field(sg.i32, 4)
    x, loss = p.x, p.loss

    @sg.kernel
    def weigh():
        for i in x:
            loss[None] += x[i] + counts[i]

    with ThreadPoolExecutor(1) as pool, sg.ad.Tape(p.loss):
        weigh()
        pool.submit(counts.fill, 3).result()
    assert p.x.grad.to_numpy().tolist() == [1.0] * 4


@pytest.mark.parametrize("what", ["tape", "forward mode"])
def test_a_block_is_left_in_the_thread_that_entered_it(what: str) -> None:
    p = Powers(1.0)
    opened: Any = sg.ad.Tape(p.loss) if what == "tape" else sg.ad.FwdMode(p.loss, p.x, seed=np.ones(4))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(opened.__enter__).result()
        with pytest.raises(sg.TapeError, match=f"{what} is left in another thread than the one that entered it"):
            opened.__exit__(None, None, None)
        assert pool.submit(p.gradient).result() == p.exact()
    assert p.gradient() == p.exact()


def test_an_init_forgets_the_tapes_of_all_threads(arch: str) -> None:
    p = Powers(1.0)
    tape = sg.ad.Tape(p.loss)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(tape.__enter__).result()
        sg.init(arch=arch, default_fp=sg.f64)
        again = Powers(2.0)
        assert pool.submit(again.gradient).result() == again.exact()
        with pytest.raises(sg.TapeError, match=r"sg.init\(\) or sg.reset\(\) was called inside the tape"):
            pool.submit(tape.__exit__, None, None, None).result()
    assert again.gradient() == again.exact()


def test_fields_answer_as_in_kernels_only_in_the_thread_that_traces() -> None:
    x = sg.field(sg.f64, 4)
    RUNTIME.tracing = True
    try:
        with ThreadPoolExecutor(1) as pool, pytest.raises(sg.GradientError):
            pool.submit(lambda: x.grad).result()
        assert x.grad is None
    finally:
        RUNTIME.tracing = False


def test_fields_may_be_made_while_tapes_clear() -> None:
    p = Powers(1.0)
    kept: list[Any] = []
    wrong: list[Any] = []

    def make() -> None:
        for _ in range(300):
            kept.append(sg.field(sg.f64, 2, needs_grad=True))

    def work() -> None:
        for _ in range(10):
            found = p.gradient()
            wrong.extend([found] if found != p.exact() else [])

    together(make, work)
    assert not wrong and len(kept) == 300


def test_state_that_threads_share_is_found_out() -> None:
    """The mutant of the harness, without the fuzzer."""
    first, second = Powers(1.0), Powers(2.0)
    with MUTANTS["tapes-of-all-threads"].planted(), ThreadPoolExecutor(1) as pool:
        first.x.from_numpy(np.arange(1.0, 5.0))
        with sg.ad.Tape(first.loss) as tape:
            first.run()
            pool.submit(second.square).result()
    assert len(tape.launches()) == 8


def test_a_claim_waits_for_a_thread_that_clears(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread found that nobody uses a gradient and sets it to 0; another one takes it before that is done."""
    beside, p = sg.field(sg.f64, (), needs_grad=True), Powers(2.0)
    entered, free, reached = threading.Event(), threading.Event(), threading.Event()
    fill = type(p.x.grad).fill

    def slow(self: Any, value: Any) -> None:
        if self is p.x.grad and not entered.is_set():
            entered.set()
            assert free.wait(20)
        fill(self, value)

    monkeypatch.setattr(type(p.x.grad), "fill", slow)

    def clear() -> None:
        with sg.ad.Tape(beside):
            pass

    def derive() -> list[float]:
        p.x.from_numpy(np.arange(1.0, 5.0))
        reached.set()
        return list(sg.ad.hvp(p.loss, p.x, p.run, np.ones(4)).tolist())

    with ThreadPoolExecutor(2) as pool:
        clearing = pool.submit(clear)
        assert entered.wait(20)
        found = pool.submit(derive)
        assert reached.wait(20)
        time.sleep(0.1)  # the claim has been asked for, and must not have been given
        assert not found.done()
        free.set()
        clearing.result(20)
        assert found.result(20) == (56 * p.factor**7 * np.arange(1.0, 5.0) ** 6).tolist()
