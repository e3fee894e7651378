"""The frontend and the model's own lowering agree on what programs mean, to the last bit; and Python agrees too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from model_support import execute, is_plain, same_bits
from recorded_support import forward, verdicts
from stackgrad.compiler.frontend import domains, loops
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.types import f64, i32
from stackgrad.compiler.ir.walk import walk_kernel
from stackgrad.harness.tools.model import Program, load, render_ir, run_python, trace_program
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.model.walk import walk_program
from stackgrad.harness.tools.strategies import programs, sample

BATCH = 20


def agree(program: Program) -> bool:
    kernel, arrays, scalars = load(program)
    return same_bits(execute(kernel, arrays, scalars), execute(render_ir(program), program.arrays(), scalars))


@pytest.mark.rotating
@pytest.mark.parametrize("first", range(0, 160, BATCH))
def test_traced_and_lowered_kernels_agree(first: int) -> None:
    wrong = [seed for seed in range(first, first + BATCH) if not agree(sample(seed))]
    assert not wrong


@given(programs())
@settings(max_examples=10, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_drawn_programs_agree(program: Program) -> None:
    assert agree(program)


@pytest.mark.expensive
def test_python_agrees() -> None:
    """Programs of doubles and small integers are also Python."""
    judged = narrow = 0
    for seed in range(400):
        program = sample(seed, "smooth")
        if not is_plain(program) or trace_program(program).warnings:
            continue
        judged += 1
        known = forward(render_ir(program), program.arrays(), program.scalars())
        told = verdicts(known, run_python(program))
        assert "disagree" not in {v.state for v in told.values()}, f"{seed}: {told}"
        narrow += "undecided" not in {v.state for v in told.values()}
    assert judged >= 30 and narrow > judged // 2


def one_lane(*body: m.Stmt, functions: tuple[m.Function, ...] = ()) -> Program:
    """A program over x and y of three doubles."""
    kernel = m.Kernel("k", body, functions)
    fields = (m.Field("x", f64, (3,), True), m.Field("y", f64, (3,), True), m.Field("c", i32, (3,)))
    content = (("x", (0.5, -0.0, 2.0)), ("y", (1.0, 2.0, 3.0)), ("c", (2, 0, 1)))
    return Program(kernel, fields, (), m.Inputs(content, (), (("x", (0.0,) * 3), ("y", (1.0,) * 3))), f64)


I, V = m.Name("i"), m.Name("v")
X, Y = m.Element("x", (m.Name("i"),)), m.Element("y", (m.Name("i"),))


def over_x(*body: m.Stmt) -> m.For:
    return m.For(("i",), m.Over("x"), body)


def test_a_difference_is_seen() -> None:
    """The comparison fails for programs that differ in one sign of zero."""
    a = one_lane(over_x(m.Assign((Y,), (X,))))
    b = one_lane(over_x(m.Assign((Y,), (m.Binary("+", X, m.Number(0.0)),))))
    results = [execute(render_ir(p), p.arrays(), {}) for p in (a, b)]
    assert not same_bits(*results)
    np.testing.assert_array_equal(results[0]["y"], results[1]["y"])  # type: ignore[index]


@pytest.mark.parametrize(
    "program",
    [
        one_lane(over_x(m.Assign((Y, X), (X, Y)))),
        one_lane(
            over_x(
                m.For(
                    ("j",),
                    m.Unrolled(0, 4),
                    (
                        m.If(m.Compare(("==",), (m.Name("j"), m.Element("c", (I,)))), (m.Continue(),)),
                        m.If(m.Compare((">",), (Y, m.Number(2.5))), (m.Break(),)),
                        m.Augment(Y, "+", m.Binary("*", m.Name("j"), X)),
                    ),
                )
            )
        ),
        one_lane(
            m.For(
                ("j", "k"),
                m.Box(((None, m.Number(3)), (m.Number(1), m.Number(3)))),
                (
                    m.If(m.Compare(("==",), (m.Name("k"), m.Number(2))), (m.Continue(),)),
                    m.If(m.Compare(("==",), (m.Name("j"), m.Number(2))), (m.Break(),)),
                    m.Augment(m.Element("y", (m.Name("j"),)), "-", m.Number(0.25)),
                ),
                serialize=True,
            )
        ),
    ],
    ids=["swap of elements", "exits of an unrolled loop", "exits of a serial box"],
)
def test_corners(program: Program) -> None:
    assert agree(program)
    changed = execute(render_ir(program), program.arrays(), {})
    assert not same_bits(changed, program.arrays())


def ordered_box(grouped: bool, serialize: bool) -> Program:
    """A loop over a box whose second axis is the outer one: what it stores last shows which iteration came last."""
    box = m.Box(((None, m.Number(3)), (m.Number(1), m.Number(3))), order=(1, 0))
    j, k = (m.Part(m.Name("J"), (m.Number(a),)) for a in (0, 1)) if grouped else (m.Name("j"), m.Name("k"))
    if serialize:
        body: tuple[m.Stmt, ...] = (
            m.Assign((m.Element("y", (m.Number(0),)),), (m.Binary("+", m.Binary("*", j, m.Number(10)), k),)),
        )
        body = (m.If(m.Compare(("==",), (m.Binary("+", j, k), m.Number(4))), (m.Continue(),)), *body)
    else:
        body = (m.Augment(m.Element("y", (j,)), "+", k),)
    indices = ("J",) if grouped else ("j", "k")
    return one_lane(m.For(indices, m.Grouped(box) if grouped else box, body, serialize=serialize))


@pytest.mark.parametrize("serialize", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_axes_of_a_box_in_another_order(grouped: bool, serialize: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    program = ordered_box(grouped, serialize)
    assert agree(program)
    found = execute(render_ir(program), program.arrays(), {})["y"].tolist()  # type: ignore[index]
    assert found[0] == (12.0 if serialize else program.arrays()["y"][0] + 3.0)
    right = domains.declared
    monkeypatch.setattr(
        loops, "declared", lambda node, domain, indices: right(node, replace(domain, order=None), indices)
    )
    assert not agree(program), "a frontend that mixes up the indices is found"


def test_other_orders_of_axes_are_drawn() -> None:
    boxes = (node for seed in range(200) for node in walk_program(sample(seed)) if isinstance(node, m.Box))
    assert {box.order for box in boxes} == {(), (0, 1), (1, 0)}


def test_early_returns_of_two_types() -> None:
    """The result has the common type of all returns."""
    u = m.Name("u")
    function = m.Function(
        "f",
        (m.Param("u"),),
        (
            m.If(m.Compare((">",), (u, m.Number(1.0))), (m.Return((m.Cast(m.Number(1), i32),)),)),
            m.Return((m.Binary("*", u, m.Number(0.5)),)),
        ),
    )
    program = one_lane(over_x(m.Assign((Y,), (m.Invoke("f", (X,)),))), functions=(function,))
    assert agree(program)
    assert execute(render_ir(program), program.arrays(), {})["y"].tolist() == [0.25, -0.0, 1.0]  # type: ignore[index]


def test_short_circuits_branch() -> None:
    """The model's lowering computes the right operand only where it counts; the frontend may compute both."""
    condition = m.Logic("and", (m.Compare((">",), (V, m.Number(0.0))), m.Compare(("<",), (V, m.Number(1.0)))))
    program = one_lane(over_x(m.Assign((V,), (X,)), m.If(condition, (m.Assign((Y,), (m.Number(9.0),)),))))
    ours = [s for s in walk_kernel(render_ir(program)) if isinstance(s, n.If)]
    theirs = [s for s in walk_kernel(load(program)[0]) if isinstance(s, n.If)]
    assert (len(ours), len(theirs)) == (2, 1)
    assert agree(program)
