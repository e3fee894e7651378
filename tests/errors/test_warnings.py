"""Warnings point at the line of the user's program, whatever part of the package issues them, and however deep."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.errors import outer_frame, warn

ROOT = Path(__file__).resolve().parents[2]


def reduction() -> None:
    """A loop of which the compiler cannot tell whether a reduction is meant."""
    x, y = sg.field(sg.f64, 3), sg.field(sg.f64, 3)

    @sg.kernel
    def k():
        total = 0.0
        for i in x:
            total += x[i]
            y[i] = total

    k()  # here


def templates() -> None:
    """A number that changes, given as a template."""

    @sg.kernel
    def k(dt: sg.template()) -> sg.f64:  # type: ignore[valid-type]
        return dt

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(64):
            k(float(step))
    k(0.25)  # here


def cache() -> None:
    """A folder of compiled code that cannot be used."""
    x = sg.field(sg.f64, 3)

    @sg.kernel
    def k():
        for i in x:
            x[i] = 17.0 * x[i]

    k()  # here


def unseen() -> None:
    """A write through a view, under validation."""
    x, loss = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    view = x.to_numpy(copy=False)

    @sg.kernel
    def total():
        for i in x:
            loss[None] += x[i]

    with sg.ad.Tape(loss, validation=True):
        total()
        view[0] = 3.0
        total()  # here


def through_the_host() -> None:
    """A value that a launch wrote, read inside the block."""
    x, m, loss = (sg.field(sg.f64, k, needs_grad=True) for k in (3, (), ()))

    @sg.kernel
    def total():
        for i in x:
            m[None] += x[i]

    with sg.ad.Tape(loss):
        total()
        m[None]  # here


def through_the_host_in_forward_mode() -> None:
    """The same, where tangents tell."""
    x, m = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def total():
        for i in x:
            m[None] += x[i]

    with sg.ad.FwdMode(m, x, seed=np.ones(3)):
        total()
        np.asarray(m)  # here


ALL: list[tuple[Callable[[], None], type[Warning]]] = [
    (reduction, sg.KernelWarning),
    (templates, sg.KernelWarning),
    (cache, sg.CacheWarning),
    (unseen, sg.ad.ValidationWarning),
    (through_the_host, sg.ad.LostGradientWarning),
    (through_the_host_in_forward_mode, sg.ad.LostGradientWarning),
]


@pytest.mark.parametrize(("program", "category"), ALL, ids=[program.__name__ for program, _ in ALL])
def test_points_at_the_call(
    program: Callable[[], None], category: type[Warning], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program is cache:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("STACKGRAD_CACHE", "1")
        monkeypatch.setenv("STACKGRAD_CACHE_DIR", str(tmp_path / "file"))
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        program()
    sg.reset()
    mine = [w for w in found if w.category is category]
    first = program.__code__.co_firstlineno
    source = Path(__file__).read_text().splitlines()
    lines = [k for k, line in enumerate(source, 1) if line.endswith("# here") and k > first]
    assert [(w.filename, w.lineno) for w in mine] == [(__file__, lines[0])], [str(w.message) for w in found]


def test_through_a_method_a_decorator_and_a_default() -> None:
    """The innermost line of the user counts, not that which called it."""
    sg.init(arch=sg.reference, default_fp=sg.f64)
    x, m, loss = (sg.field(sg.f64, k, needs_grad=True) for k in (3, (), ()))

    @sg.data_oriented
    class Solver:
        @sg.kernel
        def total(self):
            for i in x:
                m[None] += x[i]

        def norm(self) -> float:
            self.total()
            return float(m[None])  # innermost

    with pytest.warns(sg.ad.LostGradientWarning) as found, sg.ad.Tape(loss):
        Solver().norm()
    line = Path(__file__).read_text().splitlines()[found[0].lineno - 1]
    assert found[0].filename == __file__ and line.endswith("# innermost")
    sg.reset()


@pytest.mark.expensive
def test_a_program_sees_its_own_line(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import stackgrad as sg\nsg.init(arch=sg.reference)\nx = sg.field(sg.f32, (), needs_grad=True)\n"
        "y, loss = (sg.field(sg.f32, (), needs_grad=True) for _ in range(2))\n\n@sg.kernel\ndef k():\n"
        "    y[None] = x[None]\n\nwith sg.ad.Tape(loss):\n    k()\n    for _ in range(3):\n        y[None]\n"
    )
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stderr.count(f"{program}:13: LostGradientWarning") == 1 and ran.stderr.count("Warning") == 1


def test_where_all_frames_are_of_the_package_the_outermost_is_named() -> None:
    space = runpy.run_path(__file__, run_name="stackgrad.not_a_module")
    with pytest.warns(UserWarning, match="odd") as found:
        space["_from_inside"]()
    assert found[0].filename == __file__, "the frame of this test, which is the first outside"


def _from_inside() -> None:
    assert outer_frame() is not None
    warn("odd", UserWarning)


@pytest.mark.expensive
def test_nobody_else_warns() -> None:
    """One function of the package calls `warnings.warn`."""
    callers = []
    for folder in ("src", "compiler", "backends", "reference", "harness"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr in ("warn", "warn_explicit")]
            callers += [path.relative_to(ROOT).as_posix() for n in names if ast.unparse(n.value) == "warnings"]
    assert callers == ["compiler/errors.py"]
