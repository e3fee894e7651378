"""Vectors, matrices, index vectors, array arguments and results: the model's lowering and the frontend agree."""

from __future__ import annotations

import numpy as np
import pytest
from model_support import execute, same_bits
from stackgrad.compiler.ir.types import f32, i32
from stackgrad.harness.tools.fuzz.edits import smaller_inputs
from stackgrad.harness.tools.model import Program, from_json, load, render_ir, render_source, to_json
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.model.dialects import DIALECTS, NotInDialect
from stackgrad.harness.tools.model.source import definitions
from stackgrad.harness.tools.model.tidy import tidy
from stackgrad.harness.tools.strategies import sample
from stackgrad.harness.tools.strategies.shapes import shapes

I, J, K, V, W, A = map(m.Name, "ijkvwa")
X, Y, C = (m.Element(name, (I,)) for name in "XYc")
x, y = (m.Element(name, (I,)) for name in "xy")
ZERO, ONE, TWO = map(m.Number, (0, 1, 2))


def part(base: m.Expr, *indices: m.Expr) -> m.Part:
    return m.Part(base, indices)


LANES = m.Over("x")


def program(
    *body: m.Stmt, domain: m.Domain = LANES, functions: tuple[m.Function, ...] = (), result: bool = False
) -> Program:
    """Over scalars x, y, vectors X, Y, matrices G of 3 lanes; c are indices; x and G are given at the call."""
    end = (m.Return((m.Element("x", (ONE,)),)),) if result else ()
    kernel = m.Kernel("k", (m.For(("i",), domain, body), *end), functions, f32 if result else None)
    fields = (
        m.Field("x", f32, (3,), True, (), True),
        m.Field("X", f32, (3,), True, (3,)),
        m.Field("y", f32, (3,), True),
        m.Field("Y", f32, (3,), True, (3,)),
        m.Field("G", f32, (3, 2), True, (2, 2), True),
        m.Field("c", i32, (3,)),
    )
    contents = (
        ("x", (0.5, 1.5, 2.0)),
        ("X", tuple(0.1 * k for k in range(9))),
        ("y", (1.0, 2.0, 3.0)),
        ("Y", tuple(0.2 * k for k in range(9))),
        ("G", tuple(0.07 * k for k in range(24))),
        ("c", (2, 0, 1)),
    )
    seeds = tuple((f.name, (1.0,) * int(np.prod(f.storage))) for f in fields if f.grad)
    beta = m.Param("beta", f32, (3,))
    scalars = (("beta.0", 0.5), ("beta.1", 0.25), ("beta.2", -1.0))
    return tidy(m.Program(kernel, fields, (beta,), m.Inputs(contents, scalars, seeds), f32))


LOCALS = program(
    m.Assign((V,), (X,)),
    m.Assign((W,), (m.Vector((m.Number(1.0), x, TWO)),)),
    m.For(
        ("j",),
        m.Range(None, C),
        (
            m.Augment(V, "*", W),
            m.Augment(part(V, m.Binary("%", J, m.Number(3))), "+", x),
            m.Assign((m.Swizzle(V, "xy"),), (m.Swizzle(V, "yx"),)),
            m.Augment(m.Slice(V, 0, 2), "*", m.Number(0.5)),
            m.Assign((part(V, ZERO), part(V, TWO)), (part(V, TWO), part(V, C))),
        ),
    ),
    m.Assign((W,), (m.Method(V, "cross", (W,)),)),
    m.Augment(Y, "+", m.Method(W, "normalized", (m.Number(0.5),))),
    m.Augment(m.Swizzle(Y, "zx"), "-", m.Slice(V, None, None, -2)),
    m.Augment(part(Y, C), "-", m.Method(V, "norm")),
    m.Assign(
        (y,),
        (
            m.Choice(
                m.Method(m.Compare((">",), (V, m.Number(0.0))), "any"),
                m.Method(m.Binary("+", V, m.Filled("one", (3,), f32)), "max"),
                m.Comprehension("sum", "k", 3, m.Binary("*", part(W, K), K)),
            ),
        ),
    ),
)
"""Parts read and written, by known and by dynamic indices; loops that carry vectors."""

EARLY = m.Function(
    "f",
    (m.Param("a"), m.Param("b", f32, (3,))),
    (
        m.If(m.Compare((">",), (part(A, ZERO), m.Number(0.3))), (m.Return((m.Binary("*", A, m.Name("b")),)),)),
        m.Augment(part(A, ONE), "+", ONE),
        m.Return((m.Call("sin", (A,)),)),
    ),
)
CHOSEN = m.Function(
    "g",
    (m.Param("a"),),
    (m.Return((m.Choice(m.Compare((">",), (part(A, ZERO), m.Number(0.1))), m.Binary("*", A, TWO), A),)),),
    f32,
    (3,),
)
FUNCTIONS = program(
    m.Assign((V,), (m.Invoke("f", (X, m.Comprehension("Vector", "k", 3, m.Binary("+", K, x)))),)),
    m.Assign((Y,), (m.Binary("+", m.Invoke("g", (V,)), m.Name("beta")),)),
    functions=(EARLY, CHOSEN),
    result=True,
)
"""Vectors into and out of functions, with early returns; one as argument of the kernel; a result."""

S = m.Binary("+", m.Call("sin", (V,)), m.Binary("*", m.Filled("identity", (2, 2), f32), m.Number(2.5)))
MATRICES = program(
    m.Assign((V,), (m.Element("G", (I,)),)),
    m.Assign((V,), (m.Binary("@", V, m.Matrix(((m.Number(1.0), TWO), (part(V, ZERO, ONE), m.Number(0.5))))),)),
    m.Assign((part(V, m.Binary("%", part(I, ZERO), TWO), part(I, ONE)),), (m.Method(S, "determinant"),)),
    m.Assign((W,), (m.Binary("@", m.Method(m.Method(S, "inverse"), "transpose"), m.Vector((ONE, TWO), f32)),)),
    m.Augment(m.Element("y", (ZERO,)), "+", m.Method(m.Method(W, "outer_product", (W,)), "trace")),
    m.Augment(
        part(
            m.Element("G", (m.Binary("%", m.Binary("+", I, m.Vector((ONE, ZERO))), m.Vector((m.Number(3), TWO))),)),
            ONE,
            ZERO,
        ),
        "+",
        m.Binary("*", m.Random(None, "randn"), m.Method(m.Call("zero", (W,)), "sum")),
    ),
    m.Augment(
        m.Element("y", (ONE,)),
        "+",
        m.Method(
            m.Call(
                "math.mix",
                (m.Call("math.clamp", (V, m.Number(-1.0), m.Number(0.5))), m.Call("stop_grad", (V,)), m.Number(0.25)),
            ),
            "min",
        ),
    ),
    domain=m.Grouped(m.Box(((None, m.Number(3)), (ZERO, TWO)))),
)
"""Products and inverses; a loop with an index vector; functions of `math`."""

ALL = pytest.mark.parametrize("given", [LOCALS, FUNCTIONS, MATRICES], ids=["locals", "functions", "matrices"])


def both(given: Program) -> tuple[object, object]:
    kernel, arrays, scalars = load(given)
    return execute(kernel, arrays, scalars), execute(render_ir(given), given.arrays(), given.scalars())


@ALL
def test_both_lowerings_agree(given: Program) -> None:
    traced, lowered = both(given)
    assert isinstance(traced, dict) and same_bits(traced, lowered)  # type: ignore[arg-type]
    in_memory = execute(render_ir(given, in_memory=True), given.arrays(), given.scalars())
    assert same_bits(traced, in_memory)  # type: ignore[arg-type]
    before = given.arrays()
    assert any(not np.array_equal(before[name], array) for name, array in traced.items())


def test_a_vector_by_hand() -> None:
    """y = max(v + 1) after two turns of the loop in lane 0, none in lane 1."""
    found = both(LOCALS)[0]
    assert isinstance(found, dict)
    v, w = np.float32([0.0, 0.1, 0.2]), np.float32([1.0, 0.5, 2.0])
    for j in range(2):
        v = v * w
        v[j % 3] += np.float32(0.5)
        v[[0, 1]] = v[[1, 0]]
        v[:2] *= np.float32(0.5)
        v[[0, 2]] = v[[2, 2]]
    np.testing.assert_allclose(found["y"][0], (v + 1).max(), rtol=1e-6)
    np.testing.assert_allclose(found["y"][1], 0.5 + 1, rtol=1e-6)


@ALL
def test_json_keeps_them(given: Program) -> None:
    assert from_json(to_json(given)) == given


@ALL
@pytest.mark.parametrize("dialect", DIALECTS)
def test_text_of_the_dialects(given: Program, dialect: str) -> None:
    try:
        text = render_source(given, dialect)
    except NotInDialect as error:
        assert dialect != "stackgrad" and any(word in str(error) for word in ("generator", "slices", "stop_grad"))
        return
    compile(text, dialect, "exec")


def test_declarations() -> None:
    text = render_source(FUNCTIONS)
    assert "X = sg.Vector.field(3, sg.f32, shape=(3,), needs_grad=True)" in text
    assert "x = sg.ndarray(sg.f32, shape=(3,), needs_grad=True)" in text
    assert "def k(beta: sg.types.vector(3, sg.f32), x: sg.types.ndarray(dtype=sg.f32, ndim=1)) -> sg.f32:" in text
    assert "k(sg.Vector([0.5, 0.25, -1.0], sg.f32), x)" in text
    assert "def g(a) -> sg.types.vector(3, sg.f32):" in definitions(FUNCTIONS)


def test_smaller_inputs_keep_elements_whole() -> None:
    for smaller in smaller_inputs(LOCALS):
        for name, array in smaller.arrays().items():
            assert array.shape == smaller.field(name).storage
    few = next(iter(smaller_inputs(LOCALS)))
    assert few.arrays()["X"].shape == (1, 3) and np.array_equal(few.arrays()["X"][0], LOCALS.arrays()["X"][0])


@pytest.mark.expensive
def test_random_programs_with_vectors_agree() -> None:
    wrong, judged = [], 0
    for seed in range(400, 640):
        given = sample(seed)
        if "vectors" in shapes(given):
            judged += 1
            wrong += [seed] * (not same_bits(*both(given)))  # type: ignore[arg-type]
    assert not wrong and judged >= 30
