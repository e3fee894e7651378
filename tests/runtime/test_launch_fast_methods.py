"""Kernels of objects stand ready too: what they took from the object is compared before each launch."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from launch_fast_support import arrays, near_sines, repeat
from stackgrad.backends.host.trampoline import trampoline


@pytest.fixture(autouse=True)
def on_the_cpu(fresh_runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    monkeypatch.setattr(trampoline(), "patience", 1 << 62)


@sg.data_oriented
class Model:
    """y = sin applied to x, `times` times, scaled."""

    def __init__(self, times: int = 3) -> None:
        self.x, self.y = (sg.field(sg.f64, 8, needs_grad=True) for _ in range(2))
        self.x.from_numpy(np.linspace(0.2, 1.0, 8))
        self.times, self.factor = times, 1.0

    @sg.kernel
    def run(self):  # type: ignore[no-untyped-def]
        for i in self.x:
            v = self.x[i]
            for _ in range(self.times):
                v = sg.sin(v) * self.factor
            self.y[i] = v

    @sg.kernel
    def load(self, given: sg.types.ndarray(ndim=1), scale: sg.f64):  # type: ignore[no-untyped-def, valid-type]
        for i in self.x:
            self.x[i] = given[i] * scale

    def check(self) -> None:
        self.x.grad.fill(0.0)
        self.y.grad.fill(1.0)
        self.run()
        self.run.grad()
        near_sines(self.x.to_numpy(), self.times, self.factor, self.y.to_numpy(), self.x.grad.to_numpy())


def _launched(kernel: Any) -> int:
    """Return the number of launches that machine code made, without a question to Python before each of them."""
    return int(kernel._forward.free.launched)


def test_methods_are_native_while_the_object_is_as_it_was() -> None:
    model = Model()
    repeat(model.check)
    before = _launched(Model.run)
    repeat(model.check, 5)
    assert _launched(Model.run) == before + 5 and Model.run._forward.guarded is None


def test_every_change_of_the_object_is_seen() -> None:
    model = Model()
    for times, factor in ((3, 1.0), (4, 1.0), (3, 1.0), (3, 0.5), (0, 0.5)):
        model.times, model.factor = times, factor
        repeat(model.check, 6)
        assert _launched(Model.run) > 0
    model.x = sg.field(sg.f64, 8, needs_grad=True)
    repeat(model.check, 6)
    model.x, model.y = model.y, model.x
    model.x.fill(0.5)
    repeat(model.check, 6)


def test_functions_that_were_taken_before_see_changes_too() -> None:
    model = Model()
    call, grad = model.run, Model.run.grad
    repeat(call, 10)
    direct = Model.run.__call__
    model.times = 5
    direct(model)
    near_sines(model.x.to_numpy(), 5, y=model.y.to_numpy())
    model.times = 2
    model.x.grad.fill(0.0)
    model.y.grad.fill(1.0)
    grad(model)
    near_sines(model.x.to_numpy(), 2, slope=model.x.grad.to_numpy())


def test_objects_beside_each_other() -> None:
    one, two = Model(2), Model(7)
    for _ in range(8):
        one.check()
        two.check()
    before = _launched(Model.run)
    one.check()
    two.check()
    assert _launched(Model.run) == before + 2
    one.times = 4
    one.check()
    two.check()


@pytest.mark.expensive
def test_objects_die() -> None:
    model = Model()
    repeat(model.check, 8)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    for times in range(1, 20):
        Model(times).check()


def test_arrays_and_numbers_beside_the_object() -> None:
    model = Model()
    given = arrays(3, size=8)
    for k in range(12):
        model.load(given[k % 3], 0.5 * k)
        np.testing.assert_array_equal(model.x.to_numpy(), given[k % 3].to_numpy() * 0.5 * k)
    assert _launched(Model.load) > 5
    stats = Model.load.stats()
    assert stats.launches == 12


class Named:
    """An object outside of a kernel, whose attributes its kernel reads."""

    constant = 2.0

    def __init__(self) -> None:
        self.factor, self.unequal = 2.0, [2.0]

    @sg.func
    def inlined(self, v):  # type: ignore[no-untyped-def]
        """Return a number in kernels."""
        return v * 2.0


@sg.func
def _tripled(self, v):  # type: ignore[no-untyped-def]
    return v * 3.0


def _moved_class(named: Named) -> None:
    named.__class__ = type("Moved", (Named,), {"constant": 3.0, "inlined": _tripled})


CHANGES: dict[str, tuple[str, Any]] = {
    "attribute": ("named.factor", lambda one, kind: setattr(one, "factor", 3.0)),
    "dictionary": ("named.factor", lambda one, kind: setattr(one, "__dict__", {"factor": 3.0})),
    "property": ("named.factor", lambda one, kind: setattr(kind, "factor", property(lambda self: 3.0))),
    "constant": ("named.constant", lambda one, kind: setattr(kind, "constant", 3.0)),
    "constant hidden": ("named.constant", lambda one, kind: setattr(one, "constant", 3.0)),
    "constant of another class": ("named.constant", lambda one, kind: _moved_class(one)),
    "method": ("named.inlined(1.0)", lambda one, kind: setattr(kind, "inlined", _tripled)),
    "method hidden": ("named.inlined(1.0)", lambda one, kind: setattr(one, "inlined", sg.func(lambda v: 3.0 * v))),
    "method of another class": ("named.inlined(1.0)", lambda one, kind: _moved_class(one)),
    "class": ("type_of_named.constant", lambda one, kind: setattr(kind, "constant", 3.0)),
    "module": ("module.factor", lambda one, kind: setattr(MODULE, "factor", 3.0)),
}
"""What a kernel reads, and a change after which it gives 3 instead of 2."""

MODULE = ModuleType("module")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("size", [0, 1, 2, 3, 70])
def test_a_change_of_an_attribute_is_seen(change: str, size: int, tmp_path: Path) -> None:
    """Machine code launches while nothing changes, and never after the change; an object may have many attributes."""
    text, make = CHANGES[change]
    kind = type("Kind", (Named,), {})
    one: Any = kind()
    for k in range(size):
        setattr(one, f"other{k}", k)
    MODULE.factor = 2.0
    y = sg.field(sg.f64, ())
    names = {"named": one, "type_of_named": kind, "module": MODULE, "y": y, "sg": sg, "__name__": "scene"}
    file = tmp_path / "scene.py"
    file.write_text(f"@sg.kernel\ndef run():\n    y[None] = {text}\n")
    exec(compile(file.read_text(), str(file), "exec"), names)
    run: Any = names["run"]
    repeat(run, 8)
    before = _launched(run)
    repeat(run, 4)
    assert _launched(run) == before + 4 and y[None] == 2.0
    make(one, kind)
    repeat(run, 1)
    assert y[None] == 3.0
    repeat(run, 8)
    assert y[None] == 3.0


def test_a_number_that_is_stored_again_and_again_is_asked_for() -> None:
    """An equal number that is another object each time makes no ready launch useless: Python compares it."""
    model = Model()
    for k in range(60):
        model.factor = float(str(1 + 0 * k))
        model.run()
    guarded = Model.run._forward.guarded
    assert guarded is not None and guarded.launched > 20
