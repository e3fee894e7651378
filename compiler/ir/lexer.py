"""This module splits texts into lexemes, and contains the base class of all parsers of the project.

The text forms of kernels (`parser.py`), of size expressions (`compiler/sizing/text.py`) and of checks in `.kir` files
differ in their lexemes and in their grammar, and in nothing else.
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from typing import NamedTuple

from ..errors import ParseError, Span

NAME = r"[A-Za-z_$][\w.$]*"
STRING = r'"(?:[^"\\]|\\.)*"'
COMMENT = r"//[^\n]*"

DIGITS = 4000
"""This limit bounds the number of digits of a number, because Python does not read integers that are much longer."""


class Lexeme(NamedTuple):
    """A `Lexeme` is a word, number, string or punctuation mark of a text.

    Attributes:
        kind: Name of a kind of lexeme, such as a number, that the language defines, or `end`.
        text: Characters of the lexeme.
        offset: Position of its first character in the text.
    """

    kind: str
    text: str
    offset: int


def language(marks: str, comment: str = "", **kinds: str) -> re.Pattern[str]:
    """Return a regular expression that matches the lexemes of a language with these punctuation marks and comments.

    Args:
        marks: Pattern of the marks that have several characters. Any other character is a mark, too.
        comment: Pattern of comments, which separate lexemes as spaces do.
        **kinds: Pattern of each other kind of lexeme. Where several match, the first counts.
    """
    rows = {"space": rf"\s+|{comment}" if comment else r"\s+", **kinds, "mark": rf"{marks}|."}
    return re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in rows.items()))


class Lexer:
    """A `Lexer` reads a text lexeme by lexeme. A parser is a subclass that adds the grammar.

    Attributes:
        file: Name of the text in messages.
        lines: Lines of the text.
        starts: Offset of the first character of each line, by which offsets become lines and columns.
        lexemes: All lexemes, and one at the end of the text.
        position: Number of the next lexeme.
    """

    def __init__(self, text: str, file: str, language: re.Pattern[str]) -> None:
        self.file = file
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.lexemes = [
            Lexeme(m.lastgroup or "", m.group(0), m.start()) for m in language.finditer(text) if m.lastgroup != "space"
        ]
        self.lexemes.append(Lexeme("end", "end of text", len(text)))
        self.position = 0

    def peek(self, ahead: int = 0) -> Lexeme:
        """Return the next lexeme, or the one that is `ahead` lexemes after the next, without consuming it."""
        return self.lexemes[min(self.position + ahead, len(self.lexemes) - 1)]

    def span(self, lexeme: Lexeme) -> Span:
        """Return the source location of a lexeme."""
        line = bisect(self.starts, lexeme.offset)
        column = lexeme.offset - self.starts[line - 1]
        width = 0 if lexeme.kind == "end" else len(lexeme.text)
        return Span(self.file, line, column, column + width, self.lines[line - 1])

    def fail(self, message: str, cure: str = "", back: int = 0) -> ParseError:
        """Return a ParseError that cites the next lexeme as the text found.

        Args:
            message: The reason, as a sentence without a full stop.
            cure: What the writer of the text can do.
            back: Number of lexemes that were taken since the one to name.
        """
        self.position -= back
        found = self.peek().text
        shown = repr(found if len(found) <= 40 else found[:40] + "...")
        return ParseError(f"{message}, found {shown}", cure, self.span(self.peek()))

    def next(self, kind: str, what: str) -> str:
        """Consume the next lexeme and return its text; raise ParseError if the lexeme is not of kind `kind`."""
        if self.peek().kind != kind:
            raise self.fail(f"expected {what}")
        self.position += 1
        return self.lexemes[self.position - 1].text

    def accept(self, text: str) -> bool:
        """Return True and consume the next lexeme if it is this name or punctuation mark."""
        if self.peek().text == text and self.peek().kind in ("name", "mark"):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Consume the next lexeme; raise ParseError if it is not the name or punctuation mark `text`."""
        if not self.accept(text):
            raise self.fail(f"expected {text!r}")

    def expect_end(self) -> None:
        """Raise ParseError if the text has not been read to its end."""
        if self.peek().kind != "end":
            raise self.fail("expected the end of the text")

    def integer(self, bits: int = 64, what: str = "an integer") -> int:
        """Consume a signed integer literal of at most `bits` bits and return its value."""
        text = self.next("number", what)
        found = int(text) if len(text) <= DIGITS and text.removeprefix("-").isdecimal() else None
        if found is None or found.bit_length() >= bits:
            raise self.fail(f"expected {what}" if found is None else f"expected {what} of {bits} bits", back=1)
        return found

    def string(self, what: str = "a string") -> str:
        """Consume a string literal in the syntax of JSON and return its value."""
        text = self.next("string", what)
        try:
            found: str = json.loads(text)
            found.encode()
        except ValueError as error:
            message, cure = f"the string is none of JSON: {error}", "escape what is no printable character"
            raise self.fail(message, cure, back=1) from None
        return found
