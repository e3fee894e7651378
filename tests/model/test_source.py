"""Programs as text: files that run by themselves, in three dialects; and JSON that keeps every bit."""

from __future__ import annotations

import ast
import json
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from model_support import bits, execute
from stackgrad.compiler.ir.types import SCALARS, f32, f64, i32, u1
from stackgrad.harness.tools.model import Program, from_json, render_ir, render_source, to_json
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.model.dialects import DIALECTS, NotInDialect
from stackgrad.harness.tools.model.nodes import RESULT
from stackgrad.harness.tools.model.source import definitions
from stackgrad.harness.tools.strategies import SMOOTH, WILD, sample
from test_vectors import FUNCTIONS, LOCALS


def run_file(program: Program, folder: Path) -> dict[str, dict[str, list[object]]]:
    file = folder / "program.py"
    file.write_text(render_source(program), encoding="utf-8")
    done = subprocess.run([sys.executable, str(file), "reference"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def read(values: list[object], like: np.ndarray) -> np.ndarray:
    exact = [float.fromhex(v) if isinstance(v, str) else v for v in values]
    return np.array(exact, like.dtype).reshape(like.shape)


@pytest.mark.rotating
@pytest.mark.parametrize("program", [sample(3, SMOOTH), LOCALS, FUNCTIONS], ids=["3", "locals", "functions"])
def test_a_file_runs_by_itself(program: Program, tmp_path: Path) -> None:
    result = run_file(program, tmp_path)
    expected = execute(render_ir(program), program.arrays(), program.scalars())
    assert not isinstance(expected, str)
    for name, array in expected.items():
        if name == RESULT:
            continue
        np.testing.assert_allclose(read(result["forward"][name], array), array, rtol=1e-4, atol=1e-6)
    assert set(result["gradient"]) == {f.name for f in program.fields if f.grad}


def test_an_exception_is_a_result(tmp_path: Path) -> None:
    """A failed assertion is reported in the same line of JSON."""
    body = (
        m.Assign((m.Element("s"),), (m.Number(2.0),)),
        m.Assert(m.Compare(("<",), (m.Element("s"), m.Number(1.0))), "too large"),
    )
    field = m.Field("s", f64, (), True)
    program = Program(m.Kernel("k", body), (field,), (), m.Inputs((("s", (0.0,)),), (), (("s", (1.0,)),)), f64)
    assert "KernelAssertionError" in run_file(program, tmp_path)["error"]


@pytest.mark.rotating
@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects_differ_in_names_alone(dialect: str) -> None:
    alias = DIALECTS[dialect].alias
    texts = 0
    for seed in range(120):
        program = sample(seed)
        try:
            text = definitions(program, dialect)
        except NotInDialect:
            continue
        ast.parse(render_source(program, dialect))
        if "(1.0 / (" not in text:
            assert shape(text, alias, DIALECTS[dialect].renamed) == shape(definitions(program), "sg", {})
            texts += 1
    assert texts > 15


def shape(text: str, alias: str, renamed: Mapping[str, str]) -> str:
    """The text with the functions of our dialect, every conversion written as `cast`."""
    for name, other in renamed.items():
        text = text.replace(f"{alias}.{other}(", f"{alias}.{name}(")
    text = text.replace(f"{alias}.", "sg.").replace("sg.round(", "round(")
    return ast.unparse(_Conversions().visit(ast.parse(text)))


class _Conversions(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in SCALARS:
            function = ast.Attribute(ast.Name("sg"), "cast")
            return ast.Call(function, [*node.args, node.func], [])
        return node


def test_a_dialect_may_need_another_form() -> None:
    call = m.Assign((m.Element("s"),), (m.Call("rcp", (m.Element("s"),)),))
    program = Program(m.Kernel("k", (call,)), (m.Field("s", f32),), (), m.Inputs((("s", (1.0,)),)))
    assert "s[None] = (1.0 / (s[None]))" in definitions(program, "taichi")


def test_what_a_dialect_lacks_is_named() -> None:
    call = m.For(("i",), m.Range(None, m.Number(3), reverse=True), (m.Pass(),))
    program = Program(m.Kernel("k", (call,)), (), (), m.Inputs(()))
    with pytest.raises(NotInDialect, match="taichi has no `reversed`"):
        render_source(program, "taichi")


@pytest.mark.parametrize("profile", [SMOOTH, WILD])
def test_json_keeps_programs(profile: str) -> None:
    for seed in range(40):
        program = sample(seed, profile)
        again = from_json(to_json(program))
        assert definitions(again) == definitions(program)
        assert (again.kernel, again.fields, again.arguments) == (program.kernel, program.fields, program.arguments)
        assert all(bits(a) == bits(b) for a, b in zip(again.arrays().values(), program.arrays().values()))


def test_json_keeps_every_bit() -> None:
    values = (0.1, -0.0, 5e-324, math.inf, -math.inf, 1.7976931348623157e308, math.nan)
    inputs = m.Inputs((("x", values), ("c", (2**62, -1))), (("flag", True),))
    fields = (m.Field("x", f64, (7,)), m.Field("c", i32, (2,)))
    again = from_json(to_json(Program(m.Kernel("k", ()), fields, (m.Param("flag", u1),), inputs)))
    content = dict(again.inputs.arrays)
    assert [v.hex() for v in content["x"]] == [v.hex() for v in values]  # type: ignore[union-attr]
    assert content["c"] == (2**62, -1) and again.inputs.scalars[0][1] is True


def test_json_of_something_else() -> None:
    with pytest.raises(ValueError, match="'Field' is not the class of Program"):
        from_json('{"is": "Field", "name": "x", "dtype": {"type": "f32"}}')
    with pytest.raises(ValueError, match="'Exit' is not the class of Program"):
        from_json('{"is": "Exit"}')


def test_operands_keep_their_tree() -> None:
    """Negative numbers, nested operators and chains are in parentheses."""
    a = m.Name("a")
    inner = m.Binary("-", a, m.Binary("-", m.Number(-2.0), a))
    body = (
        m.Assign((m.Name("a"),), (m.Number(1.0),)),
        m.Assign((m.Name("b"),), (m.Binary("**", m.Number(-1.5), inner),)),
        m.Assign((m.Name("d"),), (m.Unary("not", m.Compare(("<", "<="), (a, m.Unary("-", a), a))),)),
    )
    text = definitions(Program(m.Kernel("k", body), (), (), m.Inputs(())))
    assert "b = (-1.5) ** (a - ((-2.0) - a))" in text
    assert "d = not (a < (-a) <= a)" in text
