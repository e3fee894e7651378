"""Functions without decorator: written without one, computed as those with one, drawn, judged and reduced."""

from __future__ import annotations

from dataclasses import replace

import pytest
from model_support import execute, same_bits
from stackgrad.harness.tools.fuzz.edits import decorated_functions
from stackgrad.harness.tools.model import Program, from_json, load, render_ir, to_json
from stackgrad.harness.tools.model.dialects import NotInDialect
from stackgrad.harness.tools.model.source import definitions
from stackgrad.harness.tools.strategies import SMOOTH, sample, shapes
from test_vectors import FUNCTIONS


def plainly(program: Program) -> Program:
    functions = tuple(replace(f, decorated=False) for f in program.kernel.functions)
    return replace(program, kernel=replace(program.kernel, functions=functions))


PLAIN = plainly(FUNCTIONS)


def agrees(program: Program) -> bool:
    kernel, arrays, scalars = load(program)
    found = execute(kernel, arrays, scalars)
    return same_bits(found, execute(render_ir(program), program.arrays(), program.scalars()))


def test_a_plain_function_is_written_without_decorator_and_means_the_same() -> None:
    assert "@sg.func" in definitions(FUNCTIONS) and "@sg.func" not in definitions(PLAIN)
    assert from_json(to_json(PLAIN)) == PLAIN
    assert agrees(PLAIN)
    with pytest.raises(NotInDialect, match="undecorated functions"):
        definitions(PLAIN, "taichi")


def test_programs_with_it_are_drawn_and_agree() -> None:
    drawn = [p for p in (sample(seed, SMOOTH) for seed in range(300)) if "function without decorator" in shapes(p)]
    assert len(drawn) >= 5
    assert all(map(agrees, drawn))


def test_the_reducer_puts_decorators_back() -> None:
    assert list(decorated_functions(PLAIN)) == [FUNCTIONS]
    assert not list(decorated_functions(FUNCTIONS))
