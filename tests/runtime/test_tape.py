"""Tapes: order, the state a gradient is taken at, budget, exceptions, nesting, misuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from launch_fast_support import sines
from recorded_support import gradients, memory_of, near
from runtime_kernels import POWER, SQUARE, TOTAL, Program
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.data.fields import Array
from stackgrad.runtime.session import RUNTIME


def test_gradient_of_a_chain(p: Program) -> None:
    with sg.ad.Tape(p.loss):
        p.square()
        p.total()
    assert p.loss[None] == 14 and p.gradient() == [2, 4, 6]
    assert p.y.grad.to_numpy().tolist() == [0, 0, 0], "the adjoint of what is overwritten is zeroed"


def test_entry_clears_and_the_next_tape_gives_the_same(p: Program) -> None:
    p.a.grad.fill(9)
    for _ in range(2):
        with sg.ad.Tape(p.loss):
            p.square()
            p.total()
        assert p.loss[None] == 14 and p.gradient() == [2, 4, 6]


def test_gradients_accumulate_on_request(p: Program) -> None:
    for _ in range(2):
        with sg.ad.Tape(p.loss, clear_gradients=False):
            p.square()
            p.total()
    assert p.gradient() == [4, 8, 12]


def test_loss_of_one_element() -> None:
    loss, a, y = (sg.field(sg.f32, 1, needs_grad=True) for _ in range(3))
    tape = sg.ad.Tape(loss)
    assert tape.loss is loss
    text = SQUARE.replace("f64", "f32")
    with sg.ad.Tape(loss):
        sg.kernel_from_text(text)(a=a, y=loss)
    assert loss.grad.to_numpy().tolist() == [0]


# ---- state --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overwrite", ["kernel", "fill", "element", "from_numpy", "copy_from"])
def test_what_is_overwritten_is_restored_for_the_gradient(p: Program, overwrite: str) -> None:
    zeros = sg.field(sg.f64, 3)
    write: dict[str, Callable[[], None]] = {
        "kernel": lambda: p.shift(5.0),
        "fill": lambda: p.a.fill(7),
        "element": lambda: p.a.__setitem__(1, -1.0),
        "from_numpy": lambda: p.a.from_numpy([4, 4, 4]),
        "copy_from": lambda: p.a.copy_from(zeros),
    }
    with sg.ad.Tape(p.loss) as tape:
        p.square()
        p.total()
        write[overwrite]()
        final = p.a.to_numpy()
    assert p.gradient() == [2, 4, 6]
    assert (p.a.to_numpy() == final).all(), "the primals hold their final values again"
    assert tape.used_bytes == 24


def test_each_launch_sees_its_own_state(p: Program) -> None:
    """loss = sum over s of sum((a + 10 s)**2), so the gradient is sum over s of 2 (a + 10 s)."""
    with sg.ad.Tape(p.loss) as tape:
        for _ in range(4):
            p.square()
            p.total()
            p.shift(10.0)
    assert p.gradient() == [8 * a + 2 * (10 + 20 + 30) for a in (1, 2, 3)]
    assert p.a.to_numpy().tolist() == [41, 42, 43]
    assert tape.used_bytes == 4 * 24


def test_writes_that_no_gradient_minds_save_nothing(p: Program) -> None:
    with sg.ad.Tape(p.loss) as tape:
        p.a.fill(2)
        p.shift(1.0)
        p.square()
        p.total()
        p.y.fill(0)
    assert tape.used_bytes == 0 and p.gradient() == [6, 6, 6]


def test_one_write_is_saved_once(p: Program) -> None:
    with sg.ad.Tape(p.loss) as tape:
        p.square()
        p.total()
        for i in range(10):
            p.shift(1.0)
            p.a[0] = i
    assert tape.used_bytes == 24 and p.gradient() == [2, 4, 6]


def test_restored_versions_find_their_sizes_again() -> None:
    """A bound that changes between launches is counted once per value, not once per launch of a gradient."""
    x, y = (sg.field(sg.f64, 3, needs_grad=True) for _ in range(2))
    loss, n = sg.field(sg.f64, (), needs_grad=True), sg.field(sg.i32, ())
    power, total = sg.kernel_from_text(POWER), sg.kernel_from_text(TOTAL)
    x.from_numpy([0.1, 0.2, 0.3])
    with sg.ad.Tape(loss) as tape:
        for trips in (2, 5):
            n[None] = trips
            power(x=x, n=n, y=y)
            total(y=y, loss=loss)
        n[None] = 1
    memory = memory_of(x=x, y=y) | {"x.grad": np.zeros(3)}
    known = gradients(parse_kernel(POWER), memory, [{"n": np.array(k, np.int32), "y.grad": np.ones(3)} for k in (5, 2)])
    near(known, "x.grad", x.grad.to_numpy(), sum(sines(x.to_numpy(), k)[1] for k in (5, 2)))
    assert n[None] == 1 and tape.used_bytes == 8
    assert power.stats().grad_launches == 2 and power.stats().evaluations == 2


def test_versions_and_primals_are_the_final_ones_afterwards(p: Program) -> None:
    with sg.ad.Tape(p.loss):
        p.square()
        p.total()
        p.shift(1.0)
        version = p.a.version
    assert p.a.version == version


def test_budget(p: Program) -> None:
    tape = sg.ad.Tape(p.loss, budget_bytes=40)
    with pytest.raises(sg.TapeError) as caught, tape:
        p.square()
        p.total()
        p.shift(1.0)
        p.square()
        p.shift(1.0)
    text = str(caught.value)
    assert "over its budget" in text and "kernel shift overwrites what the gradient of kernel square reads" in text
    assert "saving field 'a' takes 24 bytes, 24 of 40 are in use" in text and "budget_bytes" in text
    assert p.a.to_numpy().tolist() == [2, 3, 4], "the launch over budget did not run"
    tape = sg.ad.Tape(p.loss)
    assert tape.budget_bytes == 1 << 30
    with tape:
        tape.budget_bytes = 24
        p.square()
        p.a.fill(0)


def test_the_budget_names_arrays_without_a_name_as_kernels_do() -> None:
    x, loss = sg.ndarray(sg.f64, 5, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def total(price: sg.types.ndarray()):
        for i in price:
            loss[None] += price[i] ** 2

    with pytest.raises(sg.TapeError) as caught, sg.ad.Tape(loss, budget_bytes=8):
        total(x)
        x.fill(0)
    text = str(caught.value)
    assert "saving field 'price' takes 40 bytes" in text and "elements of field 'price'" in text
    assert "the field of f64" not in text


STEP = """kernel step(x: f64[2] grad, t: i32) {
  bounds { %0: i32 = const 0  %1: i32 = shape x, 1 } parallel %2: i32 in %0 .. %1 {
    %3: i32 = arg t
    %4: f64 = load x[%3, %2]
    %5: f64 = mul %4, %4
    %6: i32 = const 1
    %7: i32 = add %3, %6
    store x[%7, %2], %5
  }
}"""
LAST = """kernel last(x: f64[2] grad, t: i32, loss: f64[0] grad) {
  bounds { %0: i32 = const 0  %1: i32 = shape x, 1 } parallel %2: i32 in %0 .. %1 {
    %3: i32 = arg t
    %4: f64 = load x[%3, %2]
    %5: f64 = atomic add loss[], %4
  }
}"""


def run_steps(times: list[int], rows: int) -> tuple[sg.ad.Tape, Array, np.ndarray]:
    """Squares row t into row t + 1 for each t, then sums the row after the last; gradient of the first row."""
    x, loss = sg.field(sg.f64, (rows, 2), needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    step, last = sg.kernel_from_text(STEP), sg.kernel_from_text(LAST)
    x.from_numpy(np.full((rows, 2), [0.5, 2.0]))
    with sg.ad.Tape(loss) as tape:
        for t in times:
            step(x=x, t=t)
        last(x=x, t=times[-1] + 1, loss=loss)
    return tape, x, x.grad.to_numpy()


def test_time_indexed_programs_save_nothing() -> None:
    tape, x, grad = run_steps([0, 1, 2], 4)
    assert tape.used_bytes == 0
    assert grad[0].tolist() == [8 * 0.5**7, 8 * 2.0**7] and x.to_numpy()[3].tolist() == [0.5**8, 2.0**8]


def test_a_row_that_is_written_again_is_saved_alone() -> None:
    """Step 0 runs again, over row 1, which the gradient of step 1 reads. No gradient reads row 2."""
    tape, x, grad = run_steps([0, 1, 0, 1], 4)
    assert tape.used_bytes == 16, "row 1 before its second write"
    assert grad[0].tolist() == [4 * 0.5**3, 4 * 2.0**3] and x.to_numpy()[2].tolist() == [0.5**4, 2.0**4]


def test_arrays_that_are_no_fields_are_copied() -> None:
    y, loss = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    a, grad = np.array([1.0, 2.0, 3.0]), np.zeros(3)
    square, total = sg.kernel_from_text(SQUARE), sg.kernel_from_text(TOTAL)
    with sg.ad.Tape(loss) as tape:
        square({"a": a, "a.grad": grad, "y": y})
        total(y=y, loss=loss)
        a[...] = 0
    assert grad.tolist() == [2, 4, 6] and not a.any() and tape.used_bytes == 24


# ---- exceptions and nesting ---------------------------------------------------------------------------------


def test_nothing_runs_backward_if_the_body_raises(p: Program) -> None:
    with pytest.raises(RuntimeError, match="mine"), sg.ad.Tape(p.loss):
        p.square()
        p.total()
        raise RuntimeError("mine")
    assert p.gradient() == [0, 0, 0] and p.loss.grad[None] == 0
    assert RUNTIME.tapes == ()
    p.square()


def test_an_exception_while_running_backward_puts_primals_back(p: Program) -> None:
    @sg.ad.grad_replaced
    def step() -> None:
        p.square()

    @sg.ad.grad_for(step)
    def step_grad() -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"), sg.ad.Tape(p.loss):
        step()
        p.square()
        p.a.fill(5)
    assert p.a.to_numpy().tolist() == [5, 5, 5] and RUNTIME.tapes == ()


def test_only_the_innermost_tape_records(p: Program) -> None:
    inner = sg.field(sg.f64, (), needs_grad=True)
    total = sg.kernel_from_text(TOTAL)
    with sg.ad.Tape(p.loss):
        p.square()
        with sg.ad.Tape(inner):
            p.square()
            p.square()
            total(y=p.y, loss=inner)
        assert p.gradient() == [2, 4, 6]
        p.total()
    assert p.gradient() == [2, 4, 6] and p.loss[None] == 14


def test_the_outer_tape_sees_what_the_inner_one_overwrites(p: Program) -> None:
    with sg.ad.Tape(p.loss):
        p.square()
        p.total()
        with sg.ad.Tape(sg.field(sg.f64, (), needs_grad=True)):
            p.shift(9.0)
    assert p.gradient() == [2, 4, 6]


def test_an_accumulating_tape_admits_no_inner_one(p: Program) -> None:
    inner = sg.field(sg.f64, (), needs_grad=True)
    with sg.ad.Tape(p.loss, clear_gradients=False), pytest.raises(sg.TapeError, match="clear_gradients=False"):
        sg.ad.Tape(inner).__enter__()


def test_a_tape_is_entered_once(p: Program) -> None:
    tape = sg.ad.Tape(p.loss)
    with tape:
        pass
    with pytest.raises(sg.TapeError, match="entered before"), tape:
        pass


def test_init_inside_a_tape(p: Program) -> None:
    with pytest.raises(sg.TapeError, match="inside the tape"), sg.ad.Tape(p.loss):
        sg.init(arch=sg.reference)
    assert RUNTIME.tapes == ()


# ---- losses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda: None, "needs a loss, not None"),
        (lambda: 3.0, "the loss is a field, not float"),
        (lambda: np.zeros(()), "the loss is a NumPy array"),
        (lambda: sg.field(sg.i32, ()), "is of i32, which has no gradient"),
        (lambda: sg.field(sg.f32, 2, needs_grad=True), "has shape (2,), not one element"),
        (lambda: sg.field(sg.f32, ()), "make it with needs_grad=True"),
    ],
)
def test_unfit_losses(loss: Callable[[], Any], words: str) -> None:
    with pytest.raises(sg.TapeError) as caught:
        sg.ad.Tape(loss())
    assert words in str(caught.value)


def test_stale_loss(p: Program) -> None:
    tape = sg.ad.Tape(p.loss)
    sg.init(arch=sg.reference)
    with pytest.raises(sg.StaleFieldError), tape:
        pass
