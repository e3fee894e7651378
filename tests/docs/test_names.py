"""Test that everything that pages name exists: paths, modules, targets of make, commands and options of stackgrad."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

import project_tree as tree
import pytest
from stackgrad.cli import build_parser

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import doc_pages  # noqa: E402
from table_rows import each_row  # noqa: E402

FILES = {tree.relative(path) for path in tree.project_files()}
FOLDERS = {parent.as_posix() for name in FILES for parent in Path(name).parents} - {"."}
TOP = sorted(name for name in FOLDERS if "/" not in name)
PATH = re.compile(rf"(?<![\w./$~-])((?:{'|'.join(map(re.escape, TOP))})/[\w.*/-]*\w\*?)(?::(\w+))?")
FILE_NAME = re.compile(r"[\w-]+\.(?:py|md|toml|sh)")
MODULE = re.compile(r"stackgrad(?:\.[a-z_]\w*)+")

MADE = {"asv_bench/.asv", "asv_bench/.asv/html", "asv_bench/results"}
"""What a command makes: no file of the checkout, or none until results are kept."""


def exists(path: str) -> bool:
    """Whether a path, in which a word in capitals or a star stands for any name, is one of the checkout."""
    if path in FILES or path in FOLDERS:
        return True
    pattern = "/".join(re.sub(r"\b[A-Z_]{2,}\b", "*", part) for part in path.split("/"))
    return "*" in pattern and any(fnmatchcase(name, pattern) for name in FILES | FOLDERS)


def spans(text: str) -> Iterator[str]:
    """What stands between backticks, outside of blocks."""
    yield from re.findall(r"(?<!`)`([^`\n]+)`(?!`)", doc_pages.without_blocks(text))


def defines(path: str, name: str) -> bool:
    """Whether a name is defined anywhere in a Python file."""
    return any(
        name in (getattr(node, "name", None), getattr(node, "id", None))
        for node in ast.walk(tree.syntax(tree.ROOT / path))
    )


def module_exists(name: str) -> bool:
    """Whether a dotted name is a module of the package, or is defined in one."""
    module = tree.nearest(name, tree.modules())
    rest = name.removeprefix(module).lstrip(".").split(".")[0]
    path = tree.modules().get(module)
    if path is None:
        return False
    return not rest or defines(tree.relative(path), rest) or rest in path.read_text(encoding="utf-8").split()


def wrong_paths(page: str, text: str) -> list[str]:
    """Paths that a text names and that are not there; bare file names count if a file has them."""
    names = {PurePosixPath(name).name for name in FILES}
    wrong = []
    for path, inside in PATH.findall(text):
        if path not in MADE and not exists(path):
            wrong.append(f"{page}: {path}")
        elif inside and path.endswith(".py") and not inside.isdigit() and not defines(path, inside):
            wrong.append(f"{page}: {path}:{inside}")
    bare = {span for span in spans(text) if FILE_NAME.fullmatch(span) and not re.match(r"[A-Z]+-[A-Z]+\.", span)}
    wrong += [f"{page}: {span}" for span in sorted(bare - names)]
    wrong += [f"{page}: {span}" for span in spans(text) if MODULE.fullmatch(span) and not module_exists(span)]
    return wrong


def targets() -> set[str]:
    """What `make` can be asked for."""
    return set(re.findall(r"^([a-z]+):", doc_pages.text_of("Makefile"), re.MULTILINE))


def settings() -> set[str]:
    """Variables that the Makefile reads."""
    return set(re.findall(r"\$\(([A-Z_]+)\)", doc_pages.text_of("Makefile")))


def variables(command: str) -> set[str]:
    """Variables that a command of make sets."""
    return {word.partition("=")[0] for word in shlex.split(command) if re.match(r"[A-Z_]+=", word)}


def wrong_commands(page: str, text: str) -> list[str]:
    """Return the targets, commands and options, between backticks and in shell blocks, that do not exist."""
    wrong = []
    for shown in (*spans(text), *doc_pages.commands(text)):
        words = shown.split()
        if words[:1] == ["make"] and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
            wrong += [f"{page}: {shown}"] * (words[1] not in targets() or not variables(shown) <= settings())
        if words[:1] == ["stackgrad"] and len(words) > 1:
            wrong += [f"{page}: {shown}: {what}" for what in unknown_to_stackgrad(words[1:])]
    return wrong


def unknown_to_stackgrad(words: list[str]) -> list[str]:
    """Command and options that the command line does not know."""
    parser = build_parser()
    commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices
    if words[0].startswith("-"):
        return [word for word in words if word.startswith("--") and word not in parser._option_string_actions]
    if words[0] not in commands:
        return [words[0]] if words[0].isalpha() and words[0].islower() else []
    options = commands[words[0]]._option_string_actions
    return [word for word in words[1:] if word.startswith("--") and word.split("=")[0] not in options]


@each_row("page", doc_pages.pages())
def test_what_a_page_names_exists(page: str) -> None:
    text = doc_pages.text_of(page)
    wrong = wrong_paths(page, text) + wrong_commands(page, text)
    assert not wrong, "\n".join(wrong)


def test_pages_that_comments_name_exist() -> None:
    named = re.compile(r"(?<![\w./-])(docs/[\w/-]+\.md)")
    wrong = [
        f"{tree.relative(path)}: {page}"
        for path in tree.python_files()
        if not tree.relative(path).startswith("tests/docs/") and tree.relative(path) != "tests/meta/test_nightly.py"
        for page in named.findall(path.read_text(encoding="utf-8"))
        if page not in FILES
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("`compiler/driver.py`", 0),
        ("`compiler/no_such.py`", 1),
        ("see compiler/no_such.py.", 1),
        ("`backends/base.py:Backend`", 0),
        ("`backends/base.py:Frontend`", 1),
        ("`tests/ops/NAME.kir`", 0),
        ("`tests/operations/NAME.kir`", 1),
        ("`tests/ad_api/test_second_order*.py`", 0),
        ("`driver.py`, `no_such.py`", 1),
        ("`stackgrad.harness.tools.bench`", 0),
        ("`stackgrad.harness.no_such`", 1),
        ("`make test`, `make tset`", 1),
        ("`make test PYTHON=python3.12`, `make test PYTHONS=3`", 1),
        ("`make it differentiable`", 1),
        ("`stackgrad check FILE`, `stackgrad chekc FILE`", 1),
        ("`stackgrad ir F --stage all`, `stackgrad ir F --stages all`", 1),
        ("```sh\nmake tset\n```", 1),
    ],
)
def test_what_does_not_exist_is_noticed(text: str, count: int) -> None:
    assert len(wrong_paths("page", text) + wrong_commands("page", text)) == count
