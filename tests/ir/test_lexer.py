"""The lexer that all text forms share: kinds, comments, places and errors."""

from __future__ import annotations

import pytest
from stackgrad.compiler.errors import ParseError
from stackgrad.compiler.ir.lexer import COMMENT, NAME, STRING, Lexer, language

WORDS = language("->|//", number=r"-?\d+", name=NAME, string=STRING)
COMMENTED = language("->", COMMENT, number=r"-?\d+", name=NAME)


def kinds(text: str, pattern: object = WORDS) -> list[tuple[str, str]]:
    return [(lexeme.kind, lexeme.text) for lexeme in Lexer(text, "f", pattern).lexemes[:-1]]  # type: ignore[arg-type]


def test_kinds_and_marks() -> None:
    assert kinds("a.b->-3 ?") == [("name", "a.b"), ("mark", "->"), ("number", "-3"), ("mark", "?")]
    assert kinds(r'"a \" b" c') == [("string", r'"a \" b"'), ("name", "c")]


def test_a_language_has_comments_or_has_not() -> None:
    assert kinds("a // b\n c", COMMENTED) == [("name", "a"), ("name", "c")]
    assert kinds("a // b") == [("name", "a"), ("mark", "//"), ("name", "b")]


def test_an_error_names_line_and_column_and_shows_the_line() -> None:
    lexer = Lexer("first\n  second third", "f.txt", WORDS)
    assert lexer.accept("first") and not lexer.accept("third") and lexer.next("name", "a name") == "second"
    with pytest.raises(ParseError) as caught:
        lexer.expect("->")
    assert str(caught.value) == "f.txt:2:10: expected '->', found 'third'\n    second third\n           ^^^^^"
    assert lexer.fail("no", back=1).span == lexer.span(lexer.lexemes[1])


def test_the_end_has_a_place_too() -> None:
    lexer = Lexer("a\n", "f", WORDS)
    lexer.expect("a")
    lexer.expect_end()
    with pytest.raises(ParseError, match="f:2:1: expected an integer, found 'end of text'"):
        lexer.integer()


@pytest.mark.parametrize(
    ("text", "bits", "message"), [("255", 9, ""), ("256", 9, "of 9 bits"), ("9" * 5000, 64, "an integer,")]
)
def test_integers_have_a_size(text: str, bits: int, message: str) -> None:
    lexer = Lexer(text, "f", WORDS)
    if not message:
        assert lexer.integer(bits) == int(text)
        return
    with pytest.raises(ParseError, match=message):
        lexer.integer(bits)
    assert lexer.position == 0, "the error stands before what it names"
