"""Stored programs of strangers: whatever a field says is data of the model or an error of ours, and nothing runs."""

from __future__ import annotations

import ast
import json
import random
import re
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import rotation
from attacks import WRONG, changed, deep, is_text, payloads, programs, walk
from stackgrad.compiler.errors import StackgradError
from stackgrad.compiler.ir.types import f64
from stackgrad.harness.tools.findings.evidence import Evidence
from stackgrad.harness.tools.findings.script import script
from stackgrad.harness.tools.model import Program, from_json, guard, loading, render_source, to_json, trace_program
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.model.codec import CLASSES, SCHEMA
from stackgrad.harness.tools.model.dialects import DIALECTS
from stackgrad.harness.tools.model.words import RESERVED, WORDS, is_name
from stackgrad.harness.tools.plain_data import MalformedDataError


def is_harmless(text: str) -> bool:
    """Whether a text is refused, or a program: then everything that makes text or objects of it works or is refused."""
    try:
        program = from_json(text)
    except MalformedDataError as error:
        assert re.match(r"\$[\w.\[\]]*: .+; cure: .+", str(error), re.S), error
        assert str(error).isprintable() and len(str(error)) < 1000
        return True
    assert from_json(to_json(program)) is not None
    try:
        ast.parse(render_source(program))
        trace_program(program)
    except (StackgradError, SyntaxError):
        pass
    return False


@pytest.fixture(scope="module")
def valid() -> list[dict[str, Any]]:
    return programs()


def places(valid: list[dict[str, Any]], text: bool) -> dict[tuple[str, str], tuple[Any, Any]]:
    """For each field of each class a program and a place in it, words alone or everything."""
    found: dict[tuple[str, str], tuple[Any, Any]] = {}
    for data in valid:
        for place, owner, value in walk(data):
            if place and (is_text(owner, place, value) if text else place[-1] == owner[1]):
                found.setdefault(owner, (data, place))
    return found


@pytest.mark.expensive
def test_valid_programs_are_kept(valid: list[dict[str, Any]]) -> None:
    for data in valid:
        assert json.loads(to_json(from_json(json.dumps(data)))) == data


def test_every_field_of_text_is_attacked_and_has_a_row(valid: list[dict[str, Any]]) -> None:
    assert places(valid, text=True).keys() == WORDS.keys()
    for cls in CLASSES.values():
        assert SCHEMA.shapes(cls).keys() == {f.name for f in fields(cls)}


@pytest.mark.expensive
def test_every_field_of_text_with_every_payload(valid: list[dict[str, Any]], canary: Path) -> None:
    """What remains a program is one whose word the table has, as a message or an empty name."""
    left = set()
    for owner, (data, place) in places(valid, text=True).items():
        for payload in payloads(canary):
            if not is_harmless(changed(data, place, payload)):
                left.add((owner, payload))
            assert not canary.exists(), (owner, payload)
    assert {owner for owner, payload in left if payload} == {("Assert", "message")}
    assert {owner for owner, payload in left if not payload} <= {
        ("Assert", "message"),
        ("Range", "stride"),
        ("Field", "struct"),
        ("Param", "struct"),
    }


@pytest.mark.expensive
def test_every_word_of_some_programs_with_payloads(valid: list[dict[str, Any]], canary: Path) -> None:
    """Not one place of each kind but every place there is."""
    pick, made = random.Random(5), payloads(canary)[:16]
    for data in valid[::12]:
        for place, owner, value in walk(data):
            if is_text(owner, place, value):
                refused = is_harmless(changed(data, place, pick.choice(made)))
                assert refused or owner == ("Assert", "message")


@pytest.mark.expensive
def test_every_field_with_every_wrong_value(valid: list[dict[str, Any]], canary: Path) -> None:
    table = places(valid, text=False).values()
    assert len(table) > 100
    for data, place in rotation.share(table):
        for value in WRONG:
            is_harmless(changed(data, place, value))


@pytest.mark.expensive
def test_every_class_and_type_with_payloads(valid: list[dict[str, Any]], canary: Path) -> None:
    """How JSON says a class, a real or a type is attacked like the words."""
    seen = set()
    for data in valid:
        for place, owner, _ in walk(data):
            if place and place[-1] in ("is", "real", "type") and (place[-1], owner) not in seen:
                seen.add((place[-1], owner))
                for payload in payloads(canary)[:16]:
                    assert is_harmless(changed(data, place, payload))
    assert len(seen) > 60


def test_unknown_and_missing_keys(valid: list[dict[str, Any]]) -> None:
    seen = set()
    for data in valid:
        for place, _, value in walk(data):
            if isinstance(value, dict) and "is" in value and value["is"] not in seen:
                seen.add(value["is"])
                with pytest.raises(MalformedDataError, match="'more' is no field of"):
                    from_json(changed(data, place, {**value, "more": 1}))
                if any(needed for _, needed in SCHEMA.shapes(CLASSES[value["is"]]).values()):
                    with pytest.raises(MalformedDataError, match="lacks"):
                        from_json(changed(data, place, {"is": value["is"]}))
    assert len(seen) >= 50


SMALL = m.Program(
    m.Kernel("k", (m.For(("i",), m.Over("x"), (m.Pass(),)),)),
    (m.Field("x", f64, (2,)),),
    (),
    m.Inputs((("x", (0.5, 1.0)),)),
    f64,
)


def body(*stmts: m.Stmt, functions: tuple[m.Function, ...] = ()) -> str:
    return to_json(replace(SMALL, kernel=m.Kernel("k", stmts, functions)))


def unrolled(levels: int) -> m.Stmt:
    inside: m.Stmt = m.Pass()
    for k in range(levels):
        inside = m.For((f"i{k}",), m.Unrolled(0, 1000), (inside,))
    return inside


def branches(levels: int) -> m.Stmt:
    inside: m.Stmt = m.Pass()
    for _ in range(levels):
        inside = m.If(m.Number(1), (inside,))
    return inside


def doubling(levels: int) -> tuple[m.Function, ...]:
    """Functions each of which calls the one before twice."""
    made = [m.Function("f0", (), (m.Return((m.Number(1),)),))]
    for k in range(levels):
        twice = m.Binary("+", m.Invoke(f"f{k}"), m.Invoke(f"f{k}"))
        made.append(m.Function(f"f{k + 1}", (), (m.Return((twice,)),)))
    return tuple(made)


SIZES: dict[str, tuple[str, str]] = {
    "brackets": ("[" * 100_000, "nested too deeply"),
    "objects": ('{"is":' * 100_000, "nested too deeply|no JSON"),
    "operators": (
        changed(json.loads(body(m.Evaluate(m.Number(1)))), ("kernel", "body", 0, "value"), deep(300)),
        "nested too deeply",
    ),
    "digits": (body(m.Evaluate(m.Number(1))).replace('"value": 1', '"value": ' + "9" * 5000), "no JSON"),
    "many digits": (body(m.Evaluate(m.Number(1))).replace('"value": 1', '"value": ' + "9" * 4000), "is not from"),
    "not a number": (body(m.Evaluate(m.Number(1))).replace('"value": 1', '"value": NaN'), "no number of JSON"),
    "a key twice": (body(m.Evaluate(m.Number(1))).replace('"value": 1', '"value": 1, "value": 2'), "a key twice"),
    "unrolled loops": (body(unrolled(5)), "inlined and unrolled"),
    "calls of calls": (body(m.Evaluate(m.Invoke("f40")), functions=doubling(40)), "inlined and unrolled"),
    "a large field": (to_json(replace(SMALL, fields=(m.Field("x", f64, (1 << 20, 1 << 20)),))), "holds more than"),
    "a huge field": (to_json(replace(SMALL, fields=(m.Field("x", f64, (1 << 40,)),))), "is not from"),
    "content that does not fit": (to_json(replace(SMALL, fields=(m.Field("x", f64, (3,)),))), "has 2 numbers"),
    "a view outside": (
        to_json(replace(SMALL, fields=(m.Field("x", f64, (2,), views=(m.View("v", 1, 2),)),))),
        "leaves it",
    ),
    "two fields of a name": (to_json(replace(SMALL, fields=SMALL.fields * 2)), "names two"),
    "a field without content": (to_json(replace(SMALL, inputs=m.Inputs(()))), "lacks x"),
    "content of no field": (to_json(replace(SMALL, inputs=m.Inputs((("y", (1.0,)),)))), "which is no field"),
    "an attribute": (body(m.Evaluate(m.Member(m.Name("x"), "memory"))), "no member of a type"),
    "very many statements": (body(*[m.Pass()] * 200_000), "inlined and unrolled"),
    "blocks": (body(branches(130)), "more than 120 blocks"),
    "no text": ("", "no JSON"),
    "another file": ("#!/bin/sh\n", "no JSON"),
    "half a file": (body()[:40], "no JSON"),
}


@pytest.mark.rotating
@pytest.mark.parametrize("name", SIZES)
def test_what_is_too_large_or_does_not_fit(name: str) -> None:
    text, reason = SIZES[name]
    with pytest.raises(MalformedDataError, match=reason):
        from_json(text)
    assert is_harmless(text)


@pytest.mark.parametrize("kind", ["branches", "branches after else", "operators", "loops"])
def test_the_deepest_programs_can_be_handled(kind: str) -> None:
    """What nests as deeply as is allowed is rendered, written and read without running out of anything."""
    stmt: m.Stmt = m.Evaluate(m.Number(1))
    value: m.Expr = m.Number(1)
    for k in range(78 if kind in ("branches", "loops") else 140):
        inner, value = stmt, m.Binary("+", value, m.Number(k))
        stmt = m.If(m.Number(1), (inner,)) if kind == "branches" else m.If(m.Number(1), (), (inner,))
        stmt = m.For(("j",), m.Range(None, m.Number(1)), (inner,)) if kind == "loops" else stmt
    program = from_json(body(m.Evaluate(value) if kind == "operators" else stmt))
    assert len(render_source(program)) > 1000
    assert not is_harmless(to_json(program))


# ---- names ----------------------------------------------------------------------------------------------------


def test_names_that_rendered_files_use_are_reserved() -> None:
    """A program whose field had such a name would exchange what its file means."""
    used: set[str] = set()
    for dialect in DIALECTS:
        used |= _names(render_source(SMALL, dialect))
    for peer in DIALECTS.keys() - {"stackgrad"}:
        used |= _names(script(SMALL, peer, Evidence({}, ()), "title", "1"))
    own = {"x", "k", "i", "f"}  # of the program, and one that lives in a comprehension
    assert used - own <= RESERVED, used - own - RESERVED
    assert is_name("x") and not any(map(is_name, RESERVED))


def _names(text: str) -> set[str]:
    """Names that mean something at the top of a file, and what functions there read from it."""
    tree = ast.parse(text)
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for s in f.body for n in ast.walk(s)}
    found = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in inside}
    return found | {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}


# ---- the second line of defense -------------------------------------------------------------------------------


def smuggled(canary: Path) -> list[Program]:
    """Programs made past all tables."""
    found = []
    for payload in payloads(canary)[:16]:
        found.append(replace(SMALL, kernel=m.Kernel(payload, ())))
        for expr in (m.Name(payload), m.Invoke(payload), m.Call(payload, (m.Name("x"),)), m.Element(payload)):
            found.append(replace(SMALL, kernel=m.Kernel("k", (m.Evaluate(expr),))))
        parameter = m.Function("f", (m.Param(payload, f64),), (m.Pass(),))
        found.append(replace(SMALL, kernel=m.Kernel("k", (), (parameter,))))
        found.append(replace(SMALL, structs=(m.StructType("S", (m.Param(payload, f64),), True),)))
        found.append(replace(SMALL, arguments=(m.Param("a", f64, struct=payload),)))
    return found


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_text_that_no_table_has_seen_is_not_run(canary: Path) -> None:
    """Texts that are Python at all are stopped by what they hold."""
    stopped = 0
    for program in smuggled(canary):
        try:
            loading.function_of(program, {"x": None})
        except MalformedDataError as error:
            stopped += "the text of a program has" in str(error)
        except (SyntaxError, KeyError, ValueError, NameError):
            pass
        assert not canary.exists()
    assert stopped >= 20


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_builtins_of_a_program_open_nothing(canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without the look at the tree."""
    monkeypatch.setattr(loading, "checked_tree", lambda text, file, alias, given: ast.parse(text, file))
    for program in smuggled(canary)[::8]:
        with suppress(Exception):
            loading.function_of(program, {"x": None})
    assert not canary.exists()
    assert not {"open", "exec", "eval", "__import__", "getattr", "compile", "input"} & guard.BUILTINS.keys()
