"""Test the fuzzer of IR texts: any text is accepted, or raises an error of stackgrad."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from stackgrad.compiler.errors import ParseError, StackgradError, Unsupported, VerifyError
from stackgrad.compiler.ir import parser
from stackgrad.compiler.ir.codec import CodecError, decode, encode
from stackgrad.compiler.ir.depth import NESTING, stack_room
from stackgrad.compiler.ir.kernels import Kernel, Task
from stackgrad.compiler.ir.nodes import Const, If, Shape
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.statement import Block, Stmt, Value
from stackgrad.compiler.ir.types import f64, i32, u1
from stackgrad.compiler.ir.verify import verify
from stackgrad.harness.tools.fuzz import text_case
from stackgrad.harness.tools.fuzz.text_case import EVERYTHING, base_texts, judge, judge_text, text_of
from stackgrad.harness.tools.fuzz.text_edits import edit_text, tokens_of
from stackgrad.harness.tools.fuzz.text_loop import fuzz_texts
from text_support import DIES, FOUND, HANGS, troubled


@pytest.mark.expensive
def test_two_thousand_texts() -> None:
    verdicts = {seed: judge(seed) for seed in range(2000)}
    assert {seed: v.problem for seed, v in verdicts.items() if v.problem} == {}
    assert sum(v.passed for v in verdicts.values()) > 60  # of which half go through the passes


def test_a_seed_is_a_text() -> None:
    texts = [text_of(seed) for seed in range(40)]
    assert texts == [text_of(seed) for seed in range(40)]
    assert len({*texts}) == 40 and not {*texts} <= {*base_texts()}


def test_tokens_make_their_text_and_edits_another() -> None:
    for text in base_texts():
        assert "".join(tokens_of(text)) == text
    rng = random.Random(1)
    assert len({edit_text(rng, EVERYTHING, base_texts()) for _ in range(100)}) > 90


@pytest.mark.expensive
def test_texts_go_wrong_in_many_ways() -> None:
    """The fuzzer reaches parser and verifier alike, and depth."""
    kinds: Counter[str] = Counter()
    for seed in range(600):
        try:
            for kernel in parser.parse_kernels(text_of(seed)):
                verify(kernel, "source")
            kinds["passed"] += 1
        except StackgradError as error:
            kinds[type(error).__name__] += 1
            kinds["deep"] += "nest more than" in str(error)
    assert kinds["ParseError"] > 100 and kinds["VerifyError"] > 50 and kinds["passed"] > 30 and kinds["deep"] > 0


# ---- faults that it finds -------------------------------------------------------------------------------------------


def test_an_error_of_python_in_the_parser_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser._KernelParser, "string", lambda self: int(self.next("string", "a string")))
    found = judge_text('kernel k() { serial { print "a" } }', random.Random(0))
    assert found.problem.startswith("reading: ValueError at ")


def test_a_text_that_does_not_come_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_case, "print_kernel", lambda kernel: "kernel other() { }")
    assert "not the same after printing" in judge_text("kernel k() { }", random.Random(0)).problem


def test_a_pass_that_breaks_a_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_case, "prepare_reverse", lambda kernel, check: verify(kernel, "adjoint"))
    monkeypatch.setattr(text_case, "_LOWERED", 1)
    found = judge_text("kernel k() { serial { return } }", random.Random(0))
    assert found.problem.startswith("reverse: VerifyError") and found.passed


@pytest.mark.expensive
def test_the_loop_survives_what_it_finds() -> None:
    found = fuzz_texts(0, 450, processes=2, judged=troubled, hang=3.0)
    assert (found.cases, found.passed) == (450, 448)
    assert found.problems[FOUND] == "reading: KeyError"
    assert found.problems[HANGS] == "no answer within 3 s"
    assert found.problems[DIES] == "the process died: exit status 3"
    assert len(found.problems) == 3


# ---- errors of Python that there were -------------------------------------------------------------------------------


def nested(count: int, head: str = "scope {") -> str:
    return f"kernel k() {{ serial {{ %0: u1 = const true\n{head * count}{'}' * count} }} }}"


def test_blocks_nest_to_the_limit_and_no_deeper() -> None:
    verify(parse_kernel(nested(NESTING)), "source")
    with pytest.raises(ParseError, match=rf"blocks nest more than {NESTING} deep, found '{{'(?s:.*)\^(?s:.*)cure"):
        parse_kernel(nested(NESTING + 1))
    with pytest.raises(ParseError, match="mine.kir:2:"):
        parse_kernel(nested(330, "if %0 {"), "mine.kir")


def test_a_kernel_that_was_built_too_deep_is_refused_by_the_verifier() -> None:
    yes, block = Value(0, u1), ()
    for _ in range(1000):
        inner: Block = block
        block = (If(yes, inner),)  # type: ignore[assignment]
    with pytest.raises(Unsupported, match="blocks nest more than 640 deep"):
        verify(Kernel("k", (), (Task((Const(yes, True), *block)),)), "source")


@pytest.mark.parametrize(
    "stmt",
    [
        Const(Value(0, i32), "a"),  # type: ignore[arg-type]
        Const(Value(0, i32), float("inf")),
        Const(Value(0, i32), None),  # type: ignore[arg-type]
        Shape(Value(0, i32), "x", "0"),  # type: ignore[arg-type]
        Shape(Value(0, i32), "x", True),
    ],
)
def test_attributes_of_another_class_are_refused_by_the_verifier(stmt: Stmt) -> None:
    kernel = parse_kernel("kernel k(x: f32[1]) { }")
    with pytest.raises(VerifyError):
        verify(Kernel("k", kernel.params, (Task((stmt,)),)), "source")


def test_numbers_of_thousands_of_digits() -> None:
    digits = "9" * 5000
    heads = ("%9: i32 = const ", "%9: i32 = const -", "break ")
    for text in (f"%{digits}: i32 = const 1", *(head + digits for head in heads)):
        with pytest.raises(ParseError, match=r"(too long|expected an integer), found '[%-]?9{30,50}\.\.\.'") as caught:
            parse_kernel("kernel k() { serial {\n" + text + "\n} }")
        assert "<kernel given as IR text>:2:" in str(caught.value)
    (constant,) = parse_kernel(f"kernel k() {{ serial {{ %0: f64 = const {digits} }} }}").tasks[0].body
    assert constant == Const(Value(0, f64), float("inf"))


def test_a_deep_kernel_comes_back_from_its_bytes() -> None:
    kernel = parse_kernel(nested(NESTING))
    back = decode(encode(kernel, kernel.locations), kernel.locations)
    with stack_room():  # for the comparison
        assert back == kernel
    with pytest.raises(CodecError):
        decode(b"[[],[],[" + b"[0," * 5000)


def test_the_statement_that_a_verifier_refuses_is_shown_in_the_text() -> None:
    with pytest.raises(VerifyError, match=r"mine.kir:3:3\n.*%1: f32 = load y\[\]\n +\^"):
        verify(parse_kernel("kernel k(x: f32[0]) {\nserial {\n  %1: f32 = load y[]\n} }", "mine.kir"), "source")


def test_an_adjoint_of_which_a_kernel_asks_the_shape_alone() -> None:
    """It was found by the fuzzer, at seed 3176789."""
    text = "kernel k(z: f32[1] grad) { serial { %0: i32 = shape z.grad, 0 } }"
    assert [judge_text(text, random.Random(k)).problem for k in range(8)] == [""] * 8
    assert judge(3176789).problem == ""
