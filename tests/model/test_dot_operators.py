"""Dot products by `@`: the model writes and computes them as the frontend does; the fuzzer draws and judges them."""

from __future__ import annotations

import numpy as np
from model_support import execute, same_bits
from stackgrad.harness.tools.fuzz.edits import simplifications
from stackgrad.harness.tools.model import from_json, load, render_ir, to_json
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.model.source import definitions
from stackgrad.harness.tools.strategies import SMOOTH, sample, shapes
from test_vectors import X, program, y

DOTS = program(m.Assign((y,), (m.Binary("@", X, m.Name("beta")),)))


def test_the_operator_is_written_and_means_the_dot_product() -> None:
    assert "y[i] = X[i] @ beta" in definitions(DOTS)
    assert from_json(to_json(DOTS)) == DOTS
    kernel, arrays, scalars = load(DOTS)
    outcome = execute(kernel, arrays, scalars)
    assert same_bits(outcome, execute(render_ir(DOTS), DOTS.arrays(), DOTS.scalars()))
    assert not isinstance(outcome, str)
    expected = DOTS.arrays()["X"] @ np.array([0.5, 0.25, -1.0], np.float32)
    np.testing.assert_allclose(outcome["y"], expected, rtol=1e-6)


def test_programs_with_it_are_drawn_and_agree() -> None:
    drawn = [p for p in (sample(seed, SMOOTH) for seed in range(500)) if "vector @ vector" in shapes(p)]
    assert len(drawn) >= 3
    for found in drawn:
        kernel, arrays, scalars = load(found)
        left = execute(kernel, arrays, scalars)
        assert same_bits(left, execute(render_ir(found), found.arrays(), found.scalars()))


def test_it_is_reduced_to_an_operand_or_a_number() -> None:
    bodies = [definitions(p) for p in simplifications(DOTS)]
    assert any("y[i] = 1\n" in text for text in bodies)
