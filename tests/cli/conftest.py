"""Write programs to files, and run the command line in this process."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from stackgrad.cli import main


@dataclass(frozen=True)
class Output:
    """Hold the exit status of a command and the texts that it printed."""

    status: int
    out: str
    err: str


Command = Callable[..., Output]
Write = Callable[..., str]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs a command and returns its exit status and output."""

    def run(*arguments: str) -> Output:
        capsys.readouterr()
        status = main([*arguments])
        return Output(status, *capsys.readouterr())

    return run


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file and returns its path."""

    def put(text: str, name: str = "program.py") -> str:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    return put


PROGRAM = """
import stackgrad as sg

sg.init(arch=sg.cpu, default_fp=sg.{fp})
n = 6
x, y = (sg.field(float, n, needs_grad=True, name=name) for name in ("x", "y"))
loss = sg.field(float, (), needs_grad=True, name="loss")

@sg.kernel
def power(steps: sg.i32):
    for i in range(n):
        v = x[i]
        for _ in range(steps):
            v = sg.sin(v)
        y[i] = v

@sg.kernel
def total():
    for i in range(n):
        loss[None] += y[i] * y[i]

for i in range(n):
    x[i] = 0.1 * i + 0.2
for _ in range(5):
    with sg.ad.Tape(loss):
        power(4)
        total()
print("loss", loss[None])
"""
"""A right program in double or single precision."""


@pytest.fixture(params=["f64", "f32"])
def program(request: pytest.FixtureRequest, write: Write) -> str:
    """Return the path of a file with the program PROGRAM."""
    return write(PROGRAM.format(fp=request.param))


@pytest.fixture
def double_program(write: Write) -> str:
    """Return the path of a file with the program PROGRAM in double precision."""
    return write(PROGRAM.format(fp="f64"))
