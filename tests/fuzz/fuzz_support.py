"""Define planted mistakes, a small program, samplers that worker processes can import, and runs in this process."""

from __future__ import annotations

import multiprocessing
import os
import time
from contextlib import AbstractContextManager

from stackgrad.backends.codegen.ops import LLVM
from stackgrad.compiler.ad.rules import VJP
from stackgrad.compiler.ir.types import f32, i32
from stackgrad.harness.tools.fuzz.loop import fuzz
from stackgrad.harness.tools.fuzz.statistics import Finding, Statistics
from stackgrad.harness.tools.model import Program
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.mutants import patched_row
from stackgrad.harness.tools.strategies import sample

CRASHES, HANGS = 2, 3
"""Seeds of cases that kill their process, and that never end."""


def wrong_derivative() -> AbstractContextManager[None]:
    """Plant the wrong rule d(x - y)/dy = 1."""
    return patched_row(VJP, "sub", (lambda b, g, a, r: g, lambda b, g, a, r: g))


def wrong_backend() -> AbstractContextManager[None]:
    """Plant tanh x = x on the CPU."""
    return patched_row(LLVM, "tanh", lambda e, t, x: x)


def smooth(seed: int) -> Program:
    """Return a program with bounded values and a gradient."""
    return sample(seed, "smooth")


def first_finding(seed: int, cases: int = 30) -> tuple[Finding, Statistics]:
    """Return the first finding of some cases that run in this process."""
    found = fuzz(cases=cases, seed=seed, processes=0, sample=smooth, stop=lambda s: bool(s.findings))
    assert found.findings, f"nothing was found in {found.cases} cases"
    return found.findings[0], found


def loop_program(trips: tuple[int, ...] = (0, 1, 3, 7)) -> Program:
    """Return a program that computes y[i] = sin(... sin(x[i]²)² ...), n[i] times."""
    i, v = m.Name("i"), m.Name("v")
    square = m.Binary("*", v, v)
    body = (
        m.For(
            ("i",),
            m.Over("x"),
            (
                m.Assign((v,), (m.Element("x", (i,)),)),
                m.For(("j",), m.Range(None, m.Element("n", (i,))), (m.Assign((v,), (m.Call("sin", (square,)),)),)),
                m.Assign((m.Element("y", (i,)),), (v,)),
            ),
        ),
    )
    lanes = len(trips)
    reals = tuple(0.5 + 0.25 * k for k in range(lanes))
    fields = (m.Field("x", f32, (lanes,), True), m.Field("n", i32, (lanes,)), m.Field("y", f32, (lanes,), True))
    inputs = m.Inputs((("x", reals), ("n", trips), ("y", (0.0,) * lanes)), (), (("x", reals), ("y", reals)))
    return m.Program(m.Kernel("k", body), fields, (), inputs)


def small(seed: int) -> Program:
    """Return the same program for all seeds."""
    return loop_program((seed % 3, 1))


def hostile(seed: int) -> Program:
    """Return the program of `small`, but let one case kill and one case hang a worker process."""
    if multiprocessing.parent_process() is not None:
        if seed == CRASHES:
            os._exit(3)
        if seed == HANGS:
            time.sleep(600)
    return small(seed)
