"""Launches of large kernels stand ready too: with many arrays, and with arguments given by name or by default."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from launch_fast_support import READY, repeat, site_of
from stackgrad.backends.host.trampoline import trampoline
from stackgrad.launch.native_calls import MOST
from stackgrad.launch.native_launches import patience_of

COUNT = MOST + 36
Parts: Any = dataclasses.make_dataclass(
    "Parts", [(f"a{k}", sg.types.ndarray(sg.f64, 1)) for k in range(COUNT)], frozen=True
)


@pytest.fixture(autouse=True)
def on_the_cpu(fresh_runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    monkeypatch.setattr(trampoline(), "patience", 1 << 40)


def _wide(folder: Path, names: dict[str, Any], parameters: str = "parts: Parts, n: sg.i32") -> Any:
    """Return a kernel that adds k + 1 to each element of array number k, and then the array number 0 to number 1."""
    lines = [f"        parts.a{k}[i] += {k + 1}.0" for k in range(COUNT)]
    text = "\n".join((f"def wide({parameters}):", "    for i in range(n):", *lines))
    file = folder / "wide.py"
    file.write_text(text)
    names.update({"Parts": Parts, "sg": sg})
    exec(compile(text, str(file), "exec"), names)
    return sg.kernel(names["wide"])


def _parts() -> Any:
    return Parts(*(sg.ndarray(sg.f64, 3) for _ in range(COUNT)))


def _check(parts: Any, launches: int) -> None:
    for k in range(COUNT):
        found = getattr(parts, f"a{k}").to_numpy()
        assert np.array_equal(found, np.full(3, launches * (k + 1.0))), k


def test_a_kernel_of_many_arrays_stands_ready(tmp_path: Path) -> None:
    wide, first, second = _wide(tmp_path, {}), _parts(), _parts()
    for parts in (first, second):
        repeat(lambda parts=parts: wide(parts, 3), 3 * READY)  # type: ignore[misc]
        before = site_of(wide).free.launched
        repeat(lambda parts=parts: wide(parts, 3), 5)  # type: ignore[misc]
        assert site_of(wide).free.launched == before + 5
        _check(parts, 3 * READY + 5)
    wide(first, 3)
    _check(first, 3 * READY + 6)
    _check(second, 3 * READY + 5)


def test_many_arrays_beside_one_that_is_given_are_told_by_identity(tmp_path: Path) -> None:
    wide = _wide(tmp_path, {}, "given: sg.types.ndarray(sg.f64, 1), parts: Parts, n: sg.i32")
    parts, one, other = _parts(), sg.ndarray(sg.f64, 2), sg.ndarray(sg.f64, 5)
    for given in (one, other, one):
        repeat(lambda given=given: wide(given, parts, 3), 3 * READY)  # type: ignore[misc]
    before = site_of(wide).free.launched
    repeat(lambda: wide(other, parts, 3), 2)
    assert site_of(wide).free.launched == before + 2
    _check(parts, 9 * READY + 2)


@sg.kernel
def _add(x: sg.types.ndarray(sg.f64, 1), step: sg.f64 = 2.0, times: sg.i32 = 1):  # type: ignore[no-untyped-def, valid-type]
    for i in x:
        x[i] += step * times


@pytest.mark.parametrize(
    ("given", "sum_of_one"), [({}, 2.0), ({"times": 3}, 6.0), ({"times": 2, "step": 0.5}, 1.0), ({"step": 4.0}, 4.0)]
)
def test_arguments_by_name_and_by_default_stand_ready(given: dict[str, Any], sum_of_one: float) -> None:
    x = sg.ndarray(sg.f64, 4)
    repeat(lambda: _add(x, **given), READY)
    before = site_of(_add).free.launched
    repeat(lambda: _add(x, **given), 5)
    assert site_of(_add).free.launched == before + 5
    assert np.array_equal(x.to_numpy(), np.full(4, (READY + 5) * sum_of_one))


def test_wrong_names_are_refused_by_a_kernel_that_stands_ready() -> None:
    x = sg.ndarray(sg.f64, 4)
    repeat(lambda: _add(x, times=1))
    for wrong, said in (({"many": 1}, "no parameter 'many'"), ({"x": x}, "given twice")):
        with pytest.raises(sg.CallError, match=said):
            _add(x, **wrong)
    with pytest.raises(sg.CallError, match="takes 3 arguments, got 4"):
        _add(x, 1.0, 1, 1)
    assert np.array_equal(x.to_numpy(), np.full(4, READY * 2.0))


@pytest.mark.parametrize(("arrays", "times"), [(0, 1), (16, 1), (17, 1.0625), (64, 4), (160, 10)])
def test_a_launch_that_python_prepares_slowly_may_take_longer(arrays: int, times: float) -> None:
    assert patience_of(1600, arrays) == 1600 * times
