"""Loops `for I in grouped(s)` over a field without axes: written, computed as traced, drawn, judged and reduced."""

from __future__ import annotations

import pytest
from model_support import execute, same_bits
from stackgrad.compiler.ir.types import f64
from stackgrad.harness.tools.fuzz.edits import plain_memory
from stackgrad.harness.tools.model import Program, from_json, load, render_ir, to_json
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.model.dialects import NotInDialect
from stackgrad.harness.tools.model.source import definitions
from stackgrad.harness.tools.strategies import SMOOTH, sample, shapes

UPDATE = m.Augment(m.Element("s", (m.Name("I"),)), "+", m.Element("x", (m.Number(1),)))
LOOP = m.For(("I",), m.Grouped(m.Over("s")), (UPDATE,))


def over(*body: m.Stmt) -> Program:
    fields = (m.Field("s", f64, (), True), m.Field("x", f64, (2,), True))
    inputs = m.Inputs((("s", (0.5,)), ("x", (1.0, 2.0))), (), (("s", (1.0,)), ("x", (0.0, 0.0))))
    return Program(m.Kernel("k", body), fields, (), inputs, f64)


TASK = over(LOOP)
INSIDE = over(m.For(("i",), m.Over("x"), (LOOP,)))


def agrees(program: Program) -> bool:
    kernel, arrays, scalars = load(program)
    found = execute(kernel, arrays, scalars)
    return same_bits(found, execute(render_ir(program), program.arrays(), program.scalars()))


@pytest.mark.parametrize("program, trips", [(TASK, 1), (INSIDE, 2)], ids=["task", "inside"])
def test_the_loop_is_written_and_runs_once(program: Program, trips: int) -> None:
    assert "for I in sg.grouped(s):" in definitions(program) and "s[I] += x[1]" in definitions(program)
    assert from_json(to_json(program)) == program
    assert agrees(program)
    outcome = execute(render_ir(program), program.arrays(), program.scalars())
    assert not isinstance(outcome, str) and outcome["s"] == 0.5 + 2.0 * trips
    with pytest.raises(NotInDialect, match="grouped without axes"):
        definitions(program, "taichi")


def test_programs_with_it_are_drawn_and_agree() -> None:
    name = "loop over a field without axes"
    drawn = [p for p in (sample(seed, SMOOTH) for seed in range(200)) if name in shapes(p)]
    assert len(drawn) >= 5
    assert all(map(agrees, drawn))


def test_it_is_reduced_to_an_update_of_the_element() -> None:
    assert "    s[None] += x[1]\n" in definitions(next(plain_memory(TASK)))
