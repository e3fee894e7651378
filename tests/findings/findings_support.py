"""Make programs for the tests of findings, and a peer that is this package with a planted mistake."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stackgrad.compiler.ir.types import f64
from stackgrad.harness.tools.model import Program
from stackgrad.harness.tools.model import nodes as m

X, Y = (m.Element(name, (m.Name("i"),)) for name in "xy")
V = m.Name("v")

_SERVER = """\
import runpy
import sys

from stackgrad.harness.tools.mutants import MUTANTS

sys.argv = sys.argv[1:]
with MUTANTS[{mutant!r}].planted():
    runpy.run_path(sys.argv[0], run_name="__main__")
"""

_SHELL = """\
#!/bin/sh
case "$1" in -c) exec {python} "$@";; esac
exec {python} {server} "$@"
"""


def program(*body: m.Stmt, arguments: tuple[m.Param, ...] = (), scalars: tuple[tuple[str, int], ...] = ()) -> Program:
    """Return a program of one parallel loop over `x` with this body, whose result is `y`."""
    kernel = m.Kernel("k", (m.For(("i",), m.Over("x"), body),))
    fields = (m.Field("x", f64, (2,), True), m.Field("y", f64, (2,), True))
    inputs = m.Inputs((("x", (0.5, -1.25)), ("y", (0.0, 0.0))), scalars, (("x", (0.0, 0.0)), ("y", (1.0, 2.0))))
    return Program(kernel, fields, arguments, inputs, f64)


def loop(*body: m.Stmt, trips: int = 3, index: str = "j") -> m.For:
    """Return a serial loop with this body."""
    return m.For((index,), m.Range(None, m.Number(trips)), body)


def assign(target: m.PlaceExpr, value: m.Expr) -> m.Assign:
    return m.Assign((target,), (value,))


def sine(value: m.Expr) -> m.Call:
    return m.Call("sin", (value,))


def wrong_python(folder: Path, mutant: str) -> str:
    """Return a command that runs Python scripts with a mistake planted in this package."""
    server, shell = folder / "server.py", folder / "python"
    server.write_text(_SERVER.format(mutant=mutant), encoding="utf-8")
    shell.write_text(_SHELL.format(python=sys.executable, server=server), encoding="utf-8")
    os.chmod(shell, 0o755)
    return str(shell)
