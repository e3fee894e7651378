"""Effects of statements, and the walks that gather them."""

from __future__ import annotations

import pytest
from stackgrad.compiler.ir import effects
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.nodes import STATEMENTS
from stackgrad.compiler.ir.statement import Stmt, Value
from stackgrad.compiler.ir.types import f32, i32, u1

X, Y, C = Value(0, f32), Value(1, i32), Value(2, u1)

PURE = {"Const", "Arg", "Shape", "Op", "Cast", "BitCast", "Within"}


def sample(cls: type[Stmt]) -> Stmt:
    """Some statement of the class."""
    return {
        n.Const: n.Const(X, 1.0),
        n.Arg: n.Arg(X, "x"),
        n.Shape: n.Shape(Y, "a", 0),
        n.Op: n.Op(X, "sin", (X,)),
        n.Cast: n.Cast(X, Y),
        n.BitCast: n.BitCast(X, Y),
        n.Random: n.Random(X),
        n.Load: n.Load(X, "a", (Y,)),
        n.Within: n.Within(Y, Y, Y, "m"),
        n.Store: n.Store("a", (Y,), X),
        n.Atomic: n.Atomic(X, "add", "a", (Y,), X),
        n.Local: n.Local("v", f32),
        n.Get: n.Get(X, "v"),
        n.Set: n.Set("v", X),
        n.LocalArray: n.LocalArray("v", f32, 2),
        n.GetElement: n.GetElement(X, "v", Y),
        n.SetElement: n.SetElement("v", Y, X),
        n.SharedArray: n.SharedArray("v", f32, 2),
        n.UpdateElement: n.UpdateElement(X, "add", "v", Y, X),
        n.Sync: n.Sync("block"),
        n.Collective: n.Collective(Y, "thread", ()),
        n.If: n.If(C, ()),
        n.For: n.For(Y, Y, Y, (), stop="v"),
        n.While: n.While((), C, ()),
        n.Scope: n.Scope(()),
        n.Break: n.Break(),
        n.Continue: n.Continue(),
        n.Return: n.Return(),
        n.Assert: n.Assert(C, "m"),
        n.Print: n.Print("", ()),
        n.StackAlloca: n.StackAlloca("s", f32),
        n.StackPush: n.StackPush("s", X),
        n.StackPop: n.StackPop("s"),
        n.StackTop: n.StackTop(X, "s"),
        n.StackTopAdjoint: n.StackTopAdjoint(X, "s"),
        n.StackAccumulate: n.StackAccumulate("s", X),
    }[cls]


@pytest.mark.parametrize("name", STATEMENTS)
def test_purity(name: str) -> None:
    assert effects.is_pure(sample(STATEMENTS[name])) is (name in PURE)


@pytest.mark.parametrize("name", STATEMENTS)
def test_places_are_names_of_the_statement(name: str) -> None:
    """A row that names a field of another class would fail here."""
    stmt = sample(STATEMENTS[name])
    assert {place for _, place in (*effects.reads(stmt), *effects.writes(stmt))} <= {"a", "v", "s"}


@pytest.mark.parametrize(
    ("stmt", "reads", "writes"),
    [
        (n.Load(X, "a", (Y,)), {("array", "a")}, set()),
        (n.Atomic(X, "add", "a", (Y,), X), {("array", "a")}, {("array", "a")}),
        (n.For(Y, Y, Y, (), stop="v"), {("local", "v")}, set()),
        (n.For(Y, Y, Y, ()), set(), set()),
        (n.StackTop(X, "s"), {("stack", "s")}, set()),
        (n.StackAccumulate("s", X), {("stack", "s"), ("adjoint", "s")}, {("adjoint", "s")}),
        (n.StackPush("s", X), set(), {("stack", "s"), ("adjoint", "s")}),
    ],
)
def test_reads_and_writes(stmt: Stmt, reads: set[effects.EffectPlace], writes: set[effects.EffectPlace]) -> None:
    assert set(effects.reads(stmt)) == reads
    assert set(effects.writes(stmt)) == writes


def test_only_integer_divisions_trap_among_operations() -> None:
    assert effects.may_trap(n.Op(Y, "floordiv", (Y, Y)))
    assert not effects.may_trap(n.Op(X, "floordiv", (X, X)))
    assert not effects.may_trap(n.Op(Y, "add", (Y, Y)))


def test_walks_see_nested_statements() -> None:
    inner = (n.Store("a", (Y,), X), n.If(C, (n.Load(X, "b", (Y,)),), (n.Set("v", X),)))
    loop = (n.For(Y, Y, Y, inner, stop="go"),)
    assert effects.arrays_written(loop) == {"a"}
    assert effects.all_reads(loop) == {("array", "b"), ("local", "go")}
    assert effects.all_writes(loop) == {("array", "a"), ("local", "v")}
