"""Kernels given as IR text: fields and arrays by name, gradients, checks of arguments, statistics, dumps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from runtime_kernels import LOOKUP, POWER, RANDOM, SHIFT, SQUARE, TYPES, over_array
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.launch.program import Binding


def three(value: float = 0.0, grad: bool = True) -> Any:
    made = sg.field(sg.f64, 3, needs_grad=grad)
    made.fill(value)
    return made


def test_fields_and_their_gradients() -> None:
    a, y = three(3), three()
    square = sg.kernel_from_text(SQUARE)
    square(a=a, y=y)
    assert y.to_numpy().tolist() == [9] * 3
    y.grad.fill(1)
    square.grad(a=a, y=y)
    assert a.grad.to_numpy().tolist() == [6] * 3 and not y.grad.to_numpy().any()


def test_numpy_arrays_and_a_dict() -> None:
    a, y = np.full(3, 2.0), np.zeros(3)
    square = sg.kernel_from_text(SQUARE)
    square({"a": a}, y=y)
    assert y.tolist() == [4] * 3
    grads = {"a.grad": np.zeros(3), "y.grad": np.ones(3)}
    square.grad({"a": a, "y": y}, **grads)
    assert grads["a.grad"].tolist() == [4] * 3 and grads["y.grad"].tolist() == [0] * 3


def test_a_given_gradient_goes_before_the_fields_own() -> None:
    a, y, mine = three(2), three(), np.zeros(3)
    y.grad.fill(1)
    sg.kernel_from_text(SQUARE).grad({"a": a, "y": y, "a.grad": mine})
    assert mine.tolist() == [4] * 3 and not a.grad.to_numpy().any()


def test_launches_change_versions_of_what_they_write() -> None:
    a, y = three(1), three()
    square = sg.kernel_from_text(SQUARE)
    before = a.version, y.version, a.grad.version, y.grad.version
    square(a=a, y=y)
    assert a.version == before[0] and y.version != before[1]
    y_version = y.version
    square.grad(a=a, y=y)
    assert (a.version, y.version) == (before[0], y_version)
    assert a.grad.version != before[2] and y.grad.version != before[3]


def test_a_launch_that_raises_changes_versions_too() -> None:
    a = three(1, grad=False)
    lookup = sg.kernel_from_text(LOOKUP)
    before = a.version
    with pytest.raises(sg.OutOfBounds):
        lookup(a=a, at=3)
    assert a.version != before
    lookup(a=a, at=2)


def test_scalars_of_every_kind() -> None:
    out = sg.field(sg.f64, 4)
    types = sg.kernel_from_text(TYPES)
    types(flag=True, k=255, n=1 << 40, h=0.5, out=out)
    assert out.to_numpy().tolist() == [1, 255, 1 << 40, 0.5]
    types(flag=np.bool_(0), k=np.uint64(7), n=np.int8(-3), h=np.float32(2), out=out)
    assert out.to_numpy().tolist() == [0, 7, -3, 2]
    types(flag=2, k=True, n=False, h=3, out=out)
    assert out.to_numpy().tolist() == [1, 1, 0, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 256}, "the parameter k: u8 cannot take 256: it does not fit"),
        ({"k": -1}, "the parameter k: u8 cannot take -1: it does not fit"),
        ({"n": 1 << 63}, "the parameter n: i64 cannot take 9223372036854775808: it does not fit"),
        ({"n": 1.0}, "the parameter n: i64 cannot take float 1.0"),
        ({"n": np.float32(1)}, "cannot take float32"),
        ({"n": "1"}, "cannot take str '1'"),
        ({"h": "x"}, "the parameter h: f16 cannot take str"),
        ({"h": 1j}, "cannot take complex"),
        ({"h": None}, "cannot take NoneType"),
        ({"flag": 0.5}, "the parameter flag: u1 cannot take float"),
        ({"out": 1.0}, "the parameter out: f64[1] cannot take float"),
        ({"out": np.zeros(4, np.float32)}, "cannot take an array of float32 with 1 axes"),
        ({"out": np.zeros((4, 1))}, "cannot take an array of float64 with 2 axes"),
        ({"out": np.zeros(8)[::2]}, "not C-contiguous and writable"),
    ],
)
def test_arguments_that_do_not_fit(change: dict[str, Any], words: str) -> None:
    good = {"flag": True, "k": 1, "n": 1, "h": 1.0, "out": np.zeros(4)}
    with pytest.raises(sg.KernelTypeError) as caught:
        sg.kernel_from_text(TYPES)(good | change)
    assert words in str(caught.value) and "kernel types" in str(caught.value) and "cure:" in str(caught.value)


def test_names_that_are_missing_or_unknown() -> None:
    square = sg.kernel_from_text(SQUARE)
    with pytest.raises(sg.ArgumentError, match="needs y"):
        square(a=three())
    with pytest.raises(sg.ArgumentError, match="no parameter 'by'"):
        square(a=three(), y=three(), by=1)
    with pytest.raises(sg.ArgumentError, match="a.grad has shape"):
        square.grad({"a": np.zeros(3), "a.grad": np.zeros(2), "y": three()})


def test_stale_fields_are_refused() -> None:
    a, y = three(), three()
    square = sg.kernel_from_text(SQUARE)
    square(a=a, y=y)
    sg.init(arch=sg.reference)
    with pytest.raises(sg.StaleFieldError):
        square(a=a, y=y)
    square(a=three(), y=three())
    assert square.stats().launches == 1


def test_missing_gradients() -> None:
    plain = sg.kernel_from_text(LOOKUP)
    with pytest.raises(sg.NotDifferentiable, match="missing gradient: no array that kernel lookup uses"):
        plain.grad(a=three(), at=0)
    with pytest.raises(sg.NotDifferentiable, match="missing gradient: a of kernel square"):
        sg.kernel_from_text(SQUARE).grad(a=three(grad=False), y=three())
    with pytest.raises(sg.NotDifferentiable, match="give the array as 'a.grad'"):
        sg.kernel_from_text(SQUARE).grad(a=np.zeros(3), y=three())


def test_one_memory_under_two_names_is_refused() -> None:
    a, y = three(2), three()
    square = sg.kernel_from_text(SQUARE)
    with pytest.raises(sg.ArgumentError, match="a and y are the same memory"):
        square(a=a, y=a)
    whole = np.zeros(5)
    with pytest.raises(sg.ArgumentError, match="same memory"):
        square(a=whole[:3], y=whole[2:])
    square(a=whole[:2], y=whole[3:])
    square(a=a, y=a.grad)
    assert a.grad.to_numpy().tolist() == [4] * 3
    with pytest.raises(sg.ArgumentError, match="a.grad and y are the same memory|y and a.grad are the same memory"):
        square.grad({"a": a, "y": a.grad, "y.grad": np.zeros(3)})
    y.fill(0)


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "implied"])
def test_a_gradient_as_text(declared: bool) -> None:
    """x.grad += x, by way of an adstack; the adjoint array is a parameter, or implied."""
    params = "x: f64[1] grad" + (", x.grad: f64[1]" if declared else "")
    text = over_array(
        "pull",
        params,
        "x",
        """\
adstack_alloca s: f64 capacity 1
%3: f64 = load x[%2]
adstack_push s, %3
%4: f64 = adstack_load_top s
adstack_pop s
%5: f64 = atomic add x.grad[%2], %4""",
    )
    x = three(2)
    before = x.grad.version
    sg.kernel_from_text(text)(x=x)
    assert x.grad.to_numpy().tolist() == [2] * 3 and x.grad.version != before
    assert sg.Kernel.from_text(text).ir().name == "pull"


def test_bad_texts() -> None:
    with pytest.raises(sg.ParseError):
        sg.kernel_from_text("kernel k(")
    with pytest.raises(sg.VerifyError):
        sg.kernel_from_text("kernel k() {\n serial {\n %0: i32 = const 0\n store nothing[], %0\n }\n}\n")


@pytest.mark.lowering("lean")
def test_evaluation_is_cached_until_a_bound_changes() -> None:
    x, y, n = three(0.5), three(), sg.field(sg.i32, ())
    n[None] = 3
    power = sg.kernel_from_text(POWER)
    arrays = {"x": x, "n": n, "y": y}
    power(arrays)
    assert power.stats().evaluations == 0
    for _ in range(5):
        power.grad(arrays)
    assert (power.stats().evaluations, power.stats().cache_hits) == (1, 4)
    x.fill(0.25)
    power.grad(arrays)
    assert power.stats().evaluations == 1, "what decides no bound is not looked at again"
    n[None] = 4
    for _ in range(3):
        power.grad(arrays)
    stats = power.stats()
    assert (stats.launches, stats.grad_launches, stats.evaluations, stats.cache_hits) == (1, 9, 2, 7)
    assert stats.countings == 0
    assert stats.bytes == {"real": 3 * 4 * 8, "integer": 0, "flag": 0} and stats.compile_seconds > 0


def test_numpy_bounds_are_evaluated_each_time() -> None:
    x, y, n = three(0.5), three(), np.array(2, np.int32)
    power = sg.kernel_from_text(POWER)
    for _ in range(3):
        power.grad(x=x, n=n, y=y)
    assert power.stats().evaluations == 3


@pytest.mark.lowering("lean")
def test_report_names_kernel_task_variable_and_bytes() -> None:
    power, n = sg.kernel_from_text(POWER), sg.field(sg.i32, ())
    n[None] = 6
    power.grad(x=three(1), n=n, y=three())
    report = sg.adstack_report()
    (use,) = [u for u in report.tasks if u.kernel.startswith("power")]
    assert (use.task, use.slab, use.rows, use.bytes) == (0, "real", 3, 3 * 6 * 8)
    assert [s.capacity for s in use.stacks] == [6] and use.stacks[0].variable in str(report)
    assert report.peak >= 3 * 6 * 8
    sg.reset()
    assert sg.adstack_report().tasks == () and sg.adstack_report().peak == 0


def test_a_gradient_gets_the_draws_of_the_launch_with_the_same_arguments() -> None:
    x, y = three(1), three()
    noise = sg.kernel_from_text(RANDOM)
    for s in (0, 1, 1):
        noise(x=x, y=y, s=s)
    binding = Binding(noise.program(), {"x": x, "y": y})
    assert [binding.draws_reverse({"s": s}).launch for s in (1, 0)] == [3, 1]
    with pytest.raises(sg.NotDifferentiable, match="was not launched with these arguments"):
        binding.draws_reverse({"s": 2})
    with pytest.raises(sg.NotDifferentiable, match="was not launched with these arguments"):
        Binding(noise.program(), {"x": x, "y": three()}).draws_reverse({"s": 0})


def test_random_numbers_depend_on_the_seed_alone() -> None:
    noise = sg.kernel_from_text(RANDOM)
    found = []
    for seed in (1, 1, 2):
        sg.init(arch=sg.reference, random_seed=seed)
        x, y = three(1), three()
        noise(x=x, y=y, s=0)
        found.append(y.to_numpy().tolist())
    assert found[0] == found[1] != found[2]


def test_ir_access() -> None:
    square = sg.kernel_from_text(SQUARE)
    assert square.ir() == parse_kernel(SQUARE)
    assert {p.name for p in square.lowered().kernel.params} == {"a", "y"}
    assert {p.name for p in square.lowered_grad().kernel.params} == {"a", "y", "a.grad", "y.grad"}
    assert "square" in repr(square)


def test_dump(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STACKGRAD_DUMP_IR", str(tmp_path / "ir"))
    n = sg.field(sg.i32, ())
    power = sg.kernel_from_text(POWER)
    power(x=three(), n=n, y=three())
    power.grad(x=three(), n=n, y=three())
    names = {path.name for path in (tmp_path / "ir").iterdir()}
    assert names == {"power.source.ir", "power.forward.ir", "power.reverse.ir", "power.reverse.counting.ir"}
    assert parse_kernel((tmp_path / "ir/power.source.ir").read_text()) == parse_kernel(POWER)


def test_scalars_under_a_shift() -> None:
    a = three(1)
    sg.kernel_from_text(SHIFT)(a=a, by=2)
    assert a.to_numpy().tolist() == [3] * 3
