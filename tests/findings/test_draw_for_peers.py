"""Test programs drawn for peers: they are valid, the peers can express them, and peers differentiate such programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from findings_support import V, X, Y, assign, loop, program, sine
from stackgrad.backends.base import Draws, Sizes
from stackgrad.compiler.ir.types import f32, f64
from stackgrad.harness.tools.findings.draw import (
    sample_for_peers,
    stores_once,
    takes,
    to_common_language,
    to_double,
    with_arguments,
)
from stackgrad.harness.tools.findings.traits import traits
from stackgrad.harness.tools.fuzz.lowerings import Lowerings
from stackgrad.harness.tools.fuzz.reference_run import FUEL
from stackgrad.harness.tools.model import load, render_source
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.model.walk import walk_program
from stackgrad.harness.tools.peers import PEERS
from stackgrad.reference.launch import run

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_trace_here_and_can_be_said_there(seed: int) -> None:
    drawn = sample_for_peers(seed, PEERS)
    assert drawn == sample_for_peers(seed, PEERS)
    assert load(drawn)[0].tasks
    for peer in PEERS:
        compile(render_source(drawn, peer), peer, "exec")


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_run_to_their_end(seed: int) -> None:
    kernel, arrays, scalars = load(sample_for_peers(seed, PEERS))
    run(Lowerings(kernel).plain.kernel, arrays, scalars, Sizes(), Draws(), fuel=FUEL)


@pytest.mark.expensive
def test_what_gradients_depend_on_is_drawn_often() -> None:
    wanted = {
        "a value from before a loop": 0.12,
        "a bound by a difference": 0.08,
        "a loop that begins elsewhere": 0.12,
        "a serial loop at the top": 0.04,
        "a vector changed in a loop": 0.15,
        "an entry at a dynamic index": 0.08,
        "an atomic min or max": 0.02,
        "a bound read from memory": 0.2,
    }
    met = Counter(t for seed in range(300) for t in traits(sample_for_peers(seed, PEERS)))
    assert {name: met[name] / 300 for name in wanted if met[name] < 300 * wanted[name]} == {}


def test_entries_of_vectors_are_changed_in_fields() -> None:
    target = m.Part(m.Element("y", (m.Name("i"),)), (m.Number(0),))
    whole = program(m.Augment(target, "+", X))
    inputs = replace(whole.inputs, arrays=(("x", (0.5, 1.0)), ("y", (0.0,) * 4)), seeds=(("y", (1.0,) * 4),))
    fields = (whole.field("x"), replace(whole.field("y"), element=(2,)))
    made = with_arguments(replace(whole, fields=fields, inputs=inputs))
    assert made.field("x").argument and not made.field("y").argument


def test_no_two_seeds_draw_the_same() -> None:
    assert len({sample_for_peers(seed, PEERS) for seed in SEEDS}) == len(SEEDS)


def test_most_programs_are_in_double_precision_and_in_arguments() -> None:
    drawn = [sample_for_peers(seed, PEERS) for seed in SEEDS]
    assert sum(p.default_fp == f64 for p in drawn) > len(drawn) / 2
    assert sum(any(f.argument for f in p.fields) for p in drawn) > len(drawn) / 2


@pytest.mark.parametrize(
    ("domain", "numbers"),
    [
        (m.Range(m.Number(3), m.Number(-1), -1), range(4)),
        (m.Range(None, m.Number(5), 2), range(5)),
        (m.Range(m.Number(1), m.Number(4), reverse=True), range(1, 4)),
    ],
)
def test_loops_count_up_by_one(domain: m.Range, numbers: range) -> None:
    body = m.For(("j",), domain, (m.Augment(m.Name("v"), "+", X),))
    made = to_common_language(program(assign(V, X), body, assign(Y, V)))
    found = next(n for n in walk_program(made) if isinstance(n, m.Range))
    begin = found.begin.value if isinstance(found.begin, m.Number) else 0
    assert isinstance(found.end, m.Number) and range(int(begin), int(found.end.value)) == numbers
    assert not found.reverse and found.step == 1


@pytest.mark.parametrize(
    "stmt",
    [
        m.While(m.Compare(("<",), (V, m.Number(0.0))), (assign(V, X),)),
        loop(m.If(m.Compare(("<",), (V, m.Number(0.0))), (m.Break(),))),
        assign(V, m.Call("round", (X,))),
        assign(V, m.Random(f64)),
    ],
)
def test_what_no_peer_differentiates_is_not_drawn(stmt: m.Stmt) -> None:
    assert takes(program(assign(V, X), assign(Y, V)))
    assert not takes(program(assign(V, X), stmt, assign(Y, V)))


def test_statements_beside_loops_are_not_drawn() -> None:
    whole = program(assign(Y, sine(X)))
    beside = replace(whole, kernel=replace(whole.kernel, body=(assign(V, m.Number(1.0)), *whole.kernel.body)))
    assert takes(whole) and not takes(beside)


def test_no_element_is_stored_twice() -> None:
    j = m.Name("j")
    assert stores_once(program(assign(Y, sine(X)))) and stores_once(program(loop(m.Augment(Y, "+", X))))
    assert stores_once(program(loop(assign(m.Element("y", (j,)), X))))
    assert not stores_once(program(loop(assign(Y, X))))
    assert not stores_once(program(assign(Y, X), assign(Y, sine(X))))


def test_a_single_number_becomes_an_array_of_one() -> None:
    total = m.Element("s")
    fields = (m.Field("x", f64, (2,), True), m.Field("s", f64, (), True))
    inputs = m.Inputs((("x", (0.5, 1.5)), ("s", (0.0,))), (), (("x", (0.0, 0.0)), ("s", (1.0,))))
    before = replace(program(m.Augment(total, "+", sine(X))), fields=fields, inputs=inputs)
    made = with_arguments(before)
    assert all(f.argument for f in made.fields) and made.field("s").shape == (1,)
    assert made.arrays()["s"].shape == (1,) and load(made)[0].tasks


def test_in_double_changes_reals_alone() -> None:
    single = replace(program(assign(Y, m.Cast(sine(X), f32))), default_fp=f32)
    made = to_double(replace(single, fields=tuple(replace(f, dtype=f32) for f in single.fields)))
    assert made.default_fp == f64 and {f.dtype for f in made.fields} == {f64}
    assert made.inputs == single.inputs and made.arrays()["x"].dtype == np.float64
    assert not any(isinstance(n, m.Cast) and n.dtype == f32 for n in walk_program(made))
