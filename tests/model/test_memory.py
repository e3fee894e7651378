"""Structs, offsets, views, steps of the launch, atomics that exchange: both renderings agree, and with Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from model_support import execute, same_bits
from stackgrad.compiler.ir.types import f32, i32
from stackgrad.harness.tools.fuzz.edits import plain_memory, smaller_inputs
from stackgrad.harness.tools.model import Program, from_json, load, render_ir, render_source, to_json
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.model.dialects import DIALECTS, NotInDialect
from stackgrad.harness.tools.model.origins import move_origins
from stackgrad.harness.tools.model.source import definitions
from stackgrad.harness.tools.model.tidy import tidy, without_views
from stackgrad.harness.tools.strategies import SMOOTH, alterations, sample
from stackgrad.harness.tools.strategies.draw import RandomChooser

I, J, K, S, V, G, A = map(m.Name, "ijksvga")
x, y, c = (m.Element(name, (I,)) for name in "xyc")
P = m.Element("P", (I,))
ONE, TWO, HALF = m.Number(1), m.Number(2), m.Number(0.5)


def member(base: m.Expr, *names: str) -> m.Expr:
    for name in names:
        base = m.Member(base, name)
    return base


def mul(a: m.Expr, b: m.Expr) -> m.Expr:
    return m.Binary("*", a, b)


BODY = m.StructType("Body", (m.Param("pos", f32, (2,)), m.Param("mass", f32)), True)
PAIR = m.StructType("Pair", (m.Param("first", struct="Body"), m.Param("n", i32)))


def program(*body: m.Stmt, domain: m.Domain = m.Over("x"), functions: tuple[m.Function, ...] = ()) -> Program:  # noqa: B008
    """Over x, y, c of 3 lanes and a field P of pairs; an argument `step` of 2."""
    fields = (
        m.Field("x", f32, (3,), True),
        m.Field("y", f32, (3,), True),
        m.Field("c", i32, (3,)),
        m.Field("P.first.pos", f32, (3,), True, (2,), struct="Pair"),
        m.Field("P.first.mass", f32, (3,), True, struct="Pair"),
        m.Field("P.n", i32, (3,), struct="Pair"),
    )
    contents = (
        ("x", (0.5, 1.5, 2.0)),
        ("y", (1.0, 2.0, 3.0)),
        ("c", (2, 0, 1)),
        ("P.first.pos", (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)),
        ("P.first.mass", (2.0, 3.0, 4.0)),
        ("P.n", (1, 3, 2)),
    )
    seeds = tuple((f.name, (1.0,) * int(np.prod(f.storage))) for f in fields if f.grad)
    inputs = m.Inputs(contents, (("step", 2),), seeds)
    kernel = m.Kernel("k", (m.For(("i",), domain, body),), functions)
    return tidy(Program(kernel, fields, (m.Param("step", i32),), inputs, f32, structs=(BODY, PAIR)))


MADE = m.Make("Body", (m.Vector((x, m.Number(0.25)), f32), y))
HEAVIER = m.Function(
    "heavier",
    (m.Param("s", struct="Body"), m.Param("a")),
    (
        m.If(m.Compare((">",), (member(S, "mass"), A)), (m.Return((member(S, "pos"),)),)),
        m.Augment(member(S, "mass"), "+", ONE),
        m.Return((mul(member(S, "pos"), member(S, "mass")),)),
    ),
)
STRUCTS = program(
    m.Assign((S,), (m.Make("Pair", (MADE, c), named=True),)),
    m.For(
        ("j",),
        m.Range(None, m.Number(3)),
        (
            m.Augment(member(S, "first", "mass"), "*", HALF),
            m.Augment(m.Part(member(S, "first", "pos"), (m.Binary("%", J, TWO),)), "+", member(S, "first", "mass")),
            m.Assign((G,), (member(S, "first"),)),
            m.Assign((m.Swizzle(member(G, "pos"), "x"),), (m.Number(7.0),)),
            m.If(m.Compare(("==",), (J, member(S, "n"))), (m.Assign((member(S, "first"),), (G,)),)),
        ),
    ),
    m.Assign((V,), (m.Choice(m.Compare((">",), (c, ONE)), member(S, "first"), member(P, "first")),)),
    m.Assign((y,), (m.Method(m.Invoke("heavier", (V, m.Number(1.0))), "sum"),)),
    m.Augment(member(P, "first", "pos"), "+", member(V, "pos")),
    m.Augment(m.Part(member(P, "first", "pos"), (m.Binary("%", c, TWO),)), "-", member(V, "mass")),
    m.Assign((member(P, "n"),), (m.Extent("P", 0),)),
    functions=(HEAVIER,),
    domain=m.Over("P"),
)
"""Members of members, read and written, in loops, by functions and in memory; structs assigned as wholes."""

WHOLE = program(m.Assign((S,), (P,)), m.Augment(member(S, "first", "mass"), "+", x), m.Assign((P,), (S,)))
"""Elements of a field of structs as wholes."""

STEPS = program(
    m.For(("j",), m.Range(I, m.Number(5), 2, stride="step"), (m.Augment(y, "+", mul(x, J)),)),
    m.For(
        ("j",),
        m.Range(m.Number(0), m.Number(5), 2, True, "step"),
        (m.If(m.Compare(("==",), (J, TWO)), (m.Continue(),)), m.Assign((y,), (mul(m.Binary("+", y, J), HALF),))),
    ),
    domain=m.Range(m.Number(0), m.Number(3), 2, stride="step"),
)
"""Parallel and serial loops by a step of the launch, one of them from last to first."""

ATOMICS = program(
    m.Assign((V,), (m.AtomicCall("exchange", y, mul(x, TWO)),)),
    m.Assign((K,), (m.AtomicCall("cas", c, m.Number(9), ONE),)),
    m.Assign((A,), (m.AtomicCall("cas", y, V, y),)),
    m.Assign((x,), (m.Binary("+", m.Binary("+", V, A), K),)),
)

ALL = pytest.mark.parametrize("given", [STRUCTS, WHOLE, STEPS, ATOMICS], ids=["structs", "wholes", "steps", "atomics"])
Outcomes = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


def both(given: Program) -> Outcomes:
    kernel, arrays, scalars = load(given)
    found = execute(kernel, arrays, scalars), execute(render_ir(given), given.arrays(), given.scalars())
    assert isinstance(found[0], dict) and isinstance(found[1], dict), found
    return found  # type: ignore[return-value]


def changed(given: Program, found: dict[str, np.ndarray]) -> set[str]:
    before = given.arrays()
    return {name for name, array in found.items() if not np.array_equal(before[name], array)}


@ALL
def test_both_lowerings_agree(given: Program) -> None:
    traced, lowered = both(given)
    assert traced.keys() == lowered.keys() and same_bits(traced, lowered) and changed(given, traced)
    assert same_bits(traced, execute(render_ir(given, in_memory=True), given.arrays(), given.scalars()))
    assert from_json(to_json(given)) == given


def test_structs_by_hand() -> None:
    """Lane 0 leaves its own struct in v; the others take that of P."""
    found = both(STRUCTS)[0]
    pos, mass = np.array([0.5, 0.25]), 1.0
    for j in range(3):
        mass *= 0.5
        pos[j % 2] += mass
        if j == 2:
            pos[0] = 7.0
    # 0.125 is not above 1.0, so the function adds 1 to its own mass; 3.0 and 4.0 are
    np.testing.assert_allclose(found["y"], [(pos * (mass + 1)).sum(), 0.5 + 0.75, 1.0 + 1.25])
    stored = np.array([[0.0, 0.25], [0.5, 0.75], [1.0, 1.25]])
    stored += [pos, stored[1], stored[2]]
    stored[[0, 1, 2], [0, 0, 1]] -= [mass, 3.0, 4.0]
    np.testing.assert_allclose(found["P.first.pos"], stored)
    assert found["P.n"].tolist() == [3, 3, 3]


def test_steps_by_hand() -> None:
    expected, x_ = [1.0, 2.0, 3.0], [0.5, 1.5, 2.0]
    for i in range(0, 3, 2):
        expected[i] += sum(x_[i] * j for j in range(i, 5, 2))
        for j in (4, 0):
            expected[i] = (expected[i] + j) * 0.5
    np.testing.assert_allclose(both(STEPS)[0]["y"], expected)


@pytest.mark.parametrize("step", [-3, -1, 0, 1, 2, 7])
def test_steps_of_either_sign(step: int) -> None:
    domain = m.Range(m.Number(3), m.Number(-2 if step < 0 else 6), step, stride="step")
    index = m.Binary("%", J, m.Number(3))
    given = program(m.For(("j",), domain, (m.Augment(m.Element("y", (index,)), "+", m.Binary("+", J, ONE)),)))
    given = replace(given, inputs=replace(given.inputs, scalars=(("step", step),)))
    expected = np.array([1.0, 2.0, 3.0])
    for j in range(3, -2 if step < 0 else 6, step) if step else ():
        expected[j % 3] += 3 * (j + 1)
    lowered = execute(render_ir(given), given.arrays(), given.scalars())
    assert isinstance(lowered, dict)
    np.testing.assert_array_equal(lowered["y"], expected)
    if step:
        assert same_bits(both(given)[0], lowered)


def test_atomics_by_hand() -> None:
    """y holds 2 x, then again; c of 1 becomes 9; both give what was there."""
    found = both(ATOMICS)[0]
    np.testing.assert_array_equal(found["c"], [2, 0, 9])
    np.testing.assert_array_equal(found["y"], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(found["x"], [1.0 + 1.0 + 2, 2.0 + 3.0 + 0, 3.0 + 4.0 + 1])


def test_one_number_is_all_entries_of_a_member() -> None:
    """As an edit of the reducer may leave it; the frontend spreads it."""
    given = program(m.Assign((G,), (m.Make("Body", (x, y)),)), m.Assign((y,), (m.Method(member(G, "pos"), "sum"),)))
    traced, lowered = both(given)
    assert same_bits(traced, lowered)
    assert traced["y"].tolist() == [1.0, 3.0, 4.0]


# ---- the same program, kept otherwise -----------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("first", [-2, 3])
def test_another_origin_changes_nothing(given: Program, first: int) -> None:
    firsts = {"x": first, "y": first, "P": -first}
    there = move_origins(given, {f.owner: (firsts[f.owner],) for f in given.fields if f.owner in firsts})
    assert definitions(there) != definitions(given)
    traced, lowered = both(there)
    assert same_bits(traced, lowered) and same_bits(traced, both(given)[0])
    back = move_origins(there, {f.owner: (0,) for f in there.fields if f.offset})
    assert definitions(back) == definitions(given) and back.fields == given.fields


def with_views() -> Program:
    base = m.Field("B", f32, (9,), True, (), True, views=(m.View("y", 1, 3), m.View("x", 5, 3)))
    inputs = m.Inputs(
        (("B", (9.0, 1.0, 2.0, 3.0, 9.0, 0.5, 1.5, 2.0, 9.0)), ("c", (2, 0, 1))), (), (("B", (1.0,) * 9),)
    )
    total = m.Binary("+", m.Element("x", (c,)), m.Extent("y", 0))
    kernel = m.Kernel("k", (m.For(("i",), m.Over("y"), (m.Assign((y,), (mul(y, total),)),)),))
    return Program(kernel, (base, m.Field("c", i32, (3,))), (), inputs, f32)


def test_views_of_one_array() -> None:
    given = with_views()
    assert "def k(y: sg.BufferView[sg.f32], x: sg.BufferView[sg.f32]):" in definitions(given)
    assert "k(sg.BufferView(B, 1, 3), sg.BufferView(B, 5, 3))" in render_source(given)
    traced, lowered = both(given)
    assert same_bits(traced, lowered)
    assert traced["B"].tolist() == [9.0, 1.0 * 5.0, 2.0 * 3.5, 3.0 * 4.5, 9.0, 0.5, 1.5, 2.0, 9.0]
    own = without_views(given, given.fields[0])
    assert both(own)[0]["y"].tolist() == traced["B"][1:4].tolist()


def test_edits_make_memory_plain() -> None:
    plain = list(plain_memory(with_views()))
    assert [f.name for f in plain[0].fields] == ["y", "x", "c"]
    there = move_origins(STRUCTS, {"P": (5,), "y": (-1,)})
    assert [{f.owner for f in p.fields if f.offset} for p in plain_memory(there)] == [set(), {"P"}, {"y"}]
    few = next(iter(smaller_inputs(with_views())))
    assert [v.size for v in few.fields[0].views] == [1, 1] and len(few.arrays()["B"]) == 9


# ---- text -------------------------------------------------------------------------------------------------------


def test_definitions() -> None:
    text = render_source(STRUCTS)
    assert "@sg.dataclass\nclass Body:\n    pos: sg.types.vector(2, sg.f32)\n    mass: sg.f32\n" in text
    assert "Pair = sg.types.struct(first=Body, n=sg.i32)" in text
    assert "P = Pair.field(shape=(3,), needs_grad=True)" in text
    assert "s = Pair(first=Body(sg.Vector([x[i], 0.25], sg.f32), y[i]), n=c[i])" in text
    assert "def heavier(s: Body, a):" in text and "for i in P:" in text
    assert "fill(P.first.mass.grad, [1.0, 1.0, 1.0], 'float32', (3,))" in text
    there = render_source(move_origins(STRUCTS, {"y": (-2,)}))
    assert "y = sg.field(sg.f32, shape=(3,), needs_grad=True, offset=(-2,))" in there


@ALL
@pytest.mark.parametrize("dialect", DIALECTS)
def test_text_of_the_dialects(given: Program, dialect: str) -> None:
    try:
        text = render_source(given, dialect)
    except NotInDialect as error:
        assert dialect != "stackgrad" and any(word in str(error) for word in ("atomic", "step"))
        return
    compile(text, dialect, "exec")


# ---- random programs --------------------------------------------------------------------------------------------

RATES = ("STRUCT_FIELDS", "STRUCT_ARGUMENTS", "STRUCT_LOCALS", "VIEWS", "OFFSETS", "STRIDES", "STRUCTS_OF_VECTORS")


@pytest.mark.rotating
@pytest.mark.parametrize("only", [*RATES, "all"])
def test_altered_programs_agree(only: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every alteration by itself, and all at once, of programs that would have it rarely."""
    for name in RATES:
        monkeypatch.setattr(alterations, name, float(only in (name, "all")))
    wrong, altered = [], 0
    for seed in range(40, 70):
        given = sample(seed)
        altered += bool(given.structs) or any(f.views or f.offset for f in given.fields) or "step0" in given.scalars()
        traced, lowered = load(given), render_ir(given)
        found = execute(*traced), execute(lowered, given.arrays(), given.scalars())
        wrong += [seed] * (not same_bits(*found) or from_json(to_json(given)).kernel != given.kernel)
    assert not wrong and altered >= 1


def test_offsets_and_views_change_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in RATES:
        monkeypatch.setattr(alterations, name, 0.0)
    for seed in range(20):
        given = sample(seed, SMOOTH)
        there = alterations.with_offsets(RandomChooser(seed), given)
        assert same_bits(
            execute(render_ir(given), given.arrays(), given.scalars()),
            execute(render_ir(there), there.arrays(), there.scalars()),
        ), seed
