"""Test that files of the project name no machine, no path of a machine, and no circumstances of their making."""

from __future__ import annotations

import re
from pathlib import Path

import project_tree as tree
import pytest

FOREIGN = {
    "a path of one machine": r"(?<![\w.$}/-])/(?:work|home|root|tmp|Users|mnt)/",
    "a document that is not here": r"\b(?:DESIGN|STYLE|PEER|REVERSE_MODE|AGENTS)\.md\b|\blimits/[A-Z]+\.md\b",
    "a folder that is not here": r"(?<![\w/.-])shared/",
    "who wrote it": r"(?i)\bsub-?agents?\b|\b(?:ai|coding) (?:agent|assistant)s?\b|\b(?:an)?other engineers?\b",
    "when it was written": r"(?i)\b(?:this|last|an? earlier|previous|next) (?:working )?session\b",
    "an unfinished state": r"\b(?:TODO|FIXME|XXX)\b",
}
SELF = "tests/meta/test_language.py"


def foreign_words(text: str) -> list[tuple[int, str, str]]:
    """Line number, kind and text of everything that does not belong into a file of the project."""
    return [
        (number, kind, match.group(0))
        for number, line in enumerate(text.splitlines(), 1)
        for kind, pattern in FOREIGN.items()
        for match in re.finditer(pattern, line)
    ]


def text_of(path: Path) -> str:
    """The text of a file; nothing for binary files."""
    content = path.read_bytes()
    return "" if b"\0" in content else content.decode("utf-8", errors="replace")


def test_files_speak_of_the_project() -> None:
    wrong = [
        f"{tree.relative(path)}:{number}: {kind}: {text!r}"
        for path in tree.project_files()
        if tree.relative(path) != SELF
        for number, kind, text in foreign_words(text_of(path))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "line",
    [
        "see /work/main/compiler",
        'open("/tmp/x.json")',
        "as DESIGN.md says",
        "kernels of shared/cases",
        "decided in an earlier session",
        "another engineer writes this",
        "# TODO: finish",
        "written by a coding agent",
    ],
)
def test_foreign_words_are_found(line: str) -> None:
    assert foreign_words(line)


@pytest.mark.parametrize(
    "line",
    [
        '@pytest.fixture(scope="session")',
        "tmp_path / 'x.json'",
        "share the/work/evenly",
        "https://example.org/home/page",
        "a shared table; test/limits are data",
        "agents of the simulation",
        "shared memory, DESIGN",
    ],
)
def test_ordinary_words_pass(line: str) -> None:
    assert foreign_words(line) == []
