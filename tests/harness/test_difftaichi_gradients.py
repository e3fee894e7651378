"""Gradients of programs that are laid out like those of DiffTaichi are compared with differences of their loss."""

from __future__ import annotations

import math
import sys

import pytest
from stackgrad.harness.compat import __main__ as command
from stackgrad.harness.compat import children, difftaichi_gradients
from stackgrad.harness.compat.difftaichi_gradients import GradientRun, Sides

BALLS = """
import sys
import numpy as np
import taichi as ti

real = ti.f32
ti.init(default_fp=real, arch=ti.gpu)
steps = 16
start = np.fromfile("start.bin", dtype=np.float32)
init_x = ti.Vector.field(2, dtype=real, shape=(), needs_grad=True)
init_v = ti.Vector.field(2, dtype=real, shape=(), needs_grad=True)
x = ti.Vector.field(2, dtype=real, shape=steps, needs_grad=True)
loss = ti.field(dtype=real, shape=(), needs_grad=True)

@ti.kernel
def initialize():
    x[0] = init_x[None]

@ti.kernel
def advance(t: ti.i32):
    # The rows that a step writes begin with what the iteration before has left in them.
    x[t] = x[t - 1] + 0.125 * init_v[None] * (1 + 0.5 * x[t])

@ti.kernel
def compute_loss(t: ti.i32):
    loss[None] = SLOPE(x[t][0] * x[t][1])

def clear():
    pass

def forward():
    initialize()
    for t in range(1, steps):
        advance(t)
    compute_loss(steps - 1)

init_x[None], init_v[None] = [0.5, start[0]], [0.25, 0.75]
for _ in range(100):
    with ti.ad.Tape(loss):
        forward()
    print("loss", loss[None])
    for d in range(2):
        init_x[None][d] -= 0.01 * init_x.grad[None][d]
"""
HAND = """
import taichi as ti

ti.init(default_fp=ti.f32)
steps = 4
weights = ti.field(dtype=ti.f32, shape=3, needs_grad=True)
bias = ti.field(dtype=ti.f32, shape=3, needs_grad=True)
loss = ti.field(dtype=ti.f32, shape=(), needs_grad=True)

@ti.kernel
def compute_loss():
    for i in weights:
        loss[None] += ti.tanh(weights[i] * (i + 1) + bias[i]) * steps

def forward():
    compute_loss()
    return loss[None]

def backward():
    compute_loss.grad()

weights.fill(0.25)
for _ in range(100):
    ti.ad.clear_all_gradients()
    loss[None] = 0
    forward()
    loss.grad[None] = 1
    backward()
    for i in range(3):
        weights[i] -= 0.125 * weights.grad[i]
"""


@pytest.fixture
def programs(tmp_path):
    """Make a folder of programs: with a tape, with a derivative that is left out, by hand, and one that ends early."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "billiards.py").write_text(BALLS.replace("SLOPE", ""))
    (folder / "wrong").mkdir()
    (folder / "wrong" / "billiards.py").write_text(BALLS.replace("SLOPE", "x[t][0] + ti.stop_grad"))
    (folder / "liquid.py").write_text(HAND)
    (folder / "wave.py").write_text("import taichi as ti\nti.init()\n")
    (folder / "unplanned.py").write_text("import taichi as ti\nti.init()\n")
    for place in (folder, folder / "wrong"):
        (place / "start.bin").write_bytes(b"\0\0\xc0\x3f")
    return folder


def compare(capsys, *arguments):
    status = command.main(["difftaichi", *map(str, arguments), "--gradients", "--python", sys.executable])
    return status, capsys.readouterr().out


@pytest.mark.expensive
def test_right_gradients_are_called_right(programs, tmp_path, capsys):
    page = tmp_path / "page.md"
    status, told = compare(capsys, programs, "billiards", "liquid", "unplanned", "--markdown", page)
    assert status == 0, told
    assert "| billiards | right, within " in page.read_text() and "| liquid | right, within " in page.read_text()
    assert "unplanned" not in told and "times in 32 bits" in told


@pytest.mark.expensive
def test_wrong_gradients_are_called_wrong(programs, capsys):
    status, told = compare(capsys, programs / "wrong", "billiards")
    assert status == 1 and "billiards  wrong in 4 of 4 entries, by " in told


@pytest.mark.expensive
def test_a_program_that_ends_early_is_named(programs, capsys):
    status, told = compare(capsys, programs, "wave")
    assert status == 1 and "the program ended before it had computed enough gradients" in told


@pytest.mark.parametrize(
    ("slopes", "want"),
    [
        ([1.0, 2.0], "right, within 0.0e+00"),
        ([1.0, 2.25], "right, within 1.2e-01"),
        ([1.0, 3.0], "wrong in 1 of 2 entries, by 5.0e-01"),
        ([math.nan, 2.0], "wrong in 1 of 2 entries, by nan"),
    ],
)
def test_a_derivative_is_judged_by_the_bound_of_the_difference(slopes, want):
    entries = [
        {"slope": slope, "difference": difference, "bound": 0.5}
        for slope, difference in zip(slopes, (1.0, 2.0), strict=True)
    ]
    assert difftaichi_gradients.verdict(GradientRun(entries)) == want
    assert difftaichi_gradients.verdict(GradientRun(problem="ran past the time limit")) == "ran past the time limit"


def test_both_sides_stand_beside_each_other(monkeypatch, tmp_path, capsys):
    def run(command, limit, folder, given):
        ours = command[0] == "mine"
        entry = {"slope": 1.0 if ours else 2.0, "difference": 1.0, "bound": 1e-9}
        seconds = [9.0, 0.5, 0.25] if ours else [9.0, 1.0, 1.5]
        told = json_line(seconds, [entry] if "64" in command else [])
        return children.Ended(0, f"chatter\n{told}\n")

    monkeypatch.setattr(children, "run", run)
    (tmp_path / "wave.py").touch()
    sides = Sides({"ours": "mine", "taichi": "theirs"}, 10.0)
    found = difftaichi_gradients.row("wave", tmp_path / "wave.py", [], sides)
    assert found == ("wave", "right, within 0.0e+00", "wrong in 1 of 1 entries, by 1.0e+00", "250 ms", "1 s", "4.00x")


def json_line(seconds, entries):
    return f'{{"seconds": {seconds}, "entries": {entries}}}'.replace("'", '"')
