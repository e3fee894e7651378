"""Run the programs of pages: all Python blocks of a page, in order, as one program, at their line numbers."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

BLOCK = re.compile(r"^```(\w+) ?(.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """Represent a fenced block of a page: language, rest of the first line, code, and number of the first line."""

    tag: str
    info: str
    code: str
    line: int


class Undeclared(AssertionError):
    """Signal that a block ended otherwise than the page says."""


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page that name a language."""
    for match in BLOCK.finditer(text):
        yield Block(match[1], match[2], match[3], text[: match.start(3)].count("\n"))


def run(text: str, file: Path, replaced: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run the Python blocks of a page and return the names that they leave.

    A block `python raises=NAME` must end with this exception. A block `text` below a Python block must equal its
    output.

    Args:
        text: the page.
        file: where the program goes, so that kernels have a source.
        replaced: words of the page, and what is run in their place.
    """
    for old, new in (replaced or {}).items():
        text = text.replace(old, new)
    padded = ["" for _ in text.splitlines()]
    found = list(blocks(text))
    for block in found:
        if block.tag == "python":
            padded[block.line : block.line + block.code.count("\n")] = block.code.splitlines()
    source = "\n".join(padded) + "\n"
    file.write_text(source, encoding="utf-8")
    linecache.checkcache(str(file))
    space: dict[str, Any] = {"__name__": "page", "__file__": str(file)}
    printed = ""
    for block in found:
        if block.tag == "python":
            printed = _execute(block, file, space)
        elif block.tag == "text" and printed:
            if block.code.strip() != printed.strip():
                raise Undeclared(f"line {block.line}: printed is\n{printed}")
            printed = ""
    return space


def _execute(block: Block, file: Path, space: dict[str, Any]) -> str:
    """Execute a block and return what it prints."""
    expected = re.search(r"raises=(\w+)", block.info)
    code = compile("\n" * block.line + block.code, str(file), "exec")
    with redirect_stdout(StringIO()) as out:
        try:
            exec(code, space)
        except Exception as error:
            if expected is None or type(error).__name__ != expected[1]:
                raise
            return out.getvalue()
    if expected is not None:
        raise Undeclared(f"line {block.line}: no {expected[1]}")
    return out.getvalue()
