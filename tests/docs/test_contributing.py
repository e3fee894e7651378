"""Test CONTRIBUTING.md: its commands exist, cheap commands run, and its table has tests for each part of the code."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import project_tree as tree
import pytest
from stackgrad.cli import build_parser

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import doc_pages  # noqa: E402

TEXT = doc_pages.text_of("CONTRIBUTING.md")
SHELL = {"git": ("clone",), "cd": ("stackgrad",), ".": (".venv/bin/activate",)}
"""Commands of a shell that the page may use, with what may follow."""

RUN = ("stackgrad doctor", "python docs/teaching/reverse_mode.py")
"""Commands that take seconds: they are run here."""


def rows() -> Iterator[tuple[list[str], str]]:
    """Yield (paths of changed files, command that tests them) for each line of the table."""
    for changed, command in re.findall(r"^\| (.*?) \| `(pytest .*?)` \|$", TEXT, re.MULTILINE):
        yield re.findall(r"`(.*?)`", changed), command


def commands() -> list[str]:
    """All commands of the page, in blocks and in the table."""
    return [*doc_pages.commands(TEXT), *(command for _, command in rows())]


def problem(command: str) -> str:
    """Return the reason why a command cannot be run, or "" if it can."""
    program, *arguments = shlex.split(command)
    if program in SHELL:
        return "" if arguments[0] in SHELL[program] else "not a command that the page may use"
    if program == "make":
        return _make(arguments)
    if program == "stackgrad":
        return _stackgrad(arguments)
    if program in ("pytest", "python"):
        return _paths([a for a in arguments if "/" in a])
    return "no known program"


def _make(arguments: list[str]) -> str:
    makefile = doc_pages.text_of("Makefile")
    targets = [a for a in arguments if "=" not in a]
    unknown = [t for t in targets if not re.search(rf"^{t}:", makefile, re.MULTILINE)]
    unknown += [a for a in arguments if "=" in a and a.split("=")[0] not in makefile]
    return f"unknown to the Makefile: {unknown}" if unknown else ""


def _stackgrad(arguments: list[str]) -> str:
    try:
        build_parser().parse_args(arguments)
    except SystemExit:
        return "the command line does not take it"
    return _paths([a for a in arguments if "/" in a])


def _paths(paths: list[str]) -> str:
    missing = [path for path in paths if not (tree.ROOT / path).exists()]
    return f"no such file: {missing}" if missing else ""


@pytest.mark.parametrize("command", commands())
def test_a_command_can_be_followed(command: str) -> None:
    assert problem(command) == ""


@pytest.mark.rotating
@pytest.mark.parametrize("command", RUN)
def test_a_cheap_command_runs(command: str) -> None:
    assert command in commands()
    words = command.split()
    words[:1] = [sys.executable] if words[0] == "python" else [sys.executable, "-m", words[0]]
    done = subprocess.run(words, cwd=tree.ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_has_a_row() -> None:
    parts = [path.rstrip("/") for paths, _ in rows() for path in paths]
    files = [tree.relative(path) for path in tree.modules().values()]
    lost = [f for f in files if f.count("/") > 1 and not any(f == part or f.startswith(part + "/") for part in parts)]
    assert not lost, f"CONTRIBUTING.md says of no row: {lost}"


def test_no_folder_of_tests_is_forgotten() -> None:
    """Folders that no row names are run by everybody, or judge what lies outside of the code."""
    named = {word for _, command in rows() for word in command.split() if word.startswith("tests/")}
    folders = {
        tree.relative(p).split("/")[1] for p in tree.python_files() if re.match(r"tests/.*/test_", tree.relative(p))
    }
    wide = {"cache", "campaign", "conformance", "findings", "model", "peers", "plugin"}
    assert {f"tests/{folder}" for folder in folders - wide} <= named | {"tests/meta"}


@pytest.mark.parametrize(
    "command",
    [
        "make tset",
        "make test NO_SUCH=1",
        "stackgrad fuzz --no-such",
        "pytest tests/no_such",
        "git push --force",
        "sudo x",
    ],
)
def test_a_bad_command_is_noticed(command: str) -> None:
    assert problem(command)
