"""Read the tables of docs/ad.md and make a kernel of each line, so that tests run what the page claims."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from pathlib import Path
from types import ModuleType

import pytest
import stackgrad as sg
from stackgrad.compiler import driver
from stackgrad.compiler.ad.policies import LOWERINGS, POLICIES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ad.md"
EXECUTORS = [(arch, name, fp) for arch in ("reference", "cpu") for name in LOWERINGS for fp in ("f64", "f32")]
GUARDED = [
    *(("reference", name, "f64") for name in POLICIES),
    ("reference", "lean", "f32"),
    ("cpu", "lean", "f32"),
    ("cpu", "classic", "f64"),
]
"""Of guards every storage policy is asked, but not each in both precisions on both machines."""


def table(head: str) -> list[list[str]]:
    """Return the lines of the table under a heading as lists of cell texts, without backquotes."""
    part = PAGE.read_text().split(f"\n## {head}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def numbers(text: str) -> list[object]:
    """Return the numbers, or lists of numbers, that a cell names; `or` separates alternatives."""
    return [ast.literal_eval(part) if "[" in part else float(part) for part in text.split(" or ")]


def start(monkeypatch: pytest.MonkeyPatch, executor: tuple[str, str, str]) -> object:
    """Start the runtime on an executor with one policy, and return its default real type."""
    arch, policy, fp = executor
    sg.init(arch=getattr(sg, arch), default_fp=getattr(sg, fp))
    whole = functools.partial(PREPARE, lowering=policy)
    monkeypatch.setattr(driver, "prepare_reverse", whole)
    return getattr(sg, fp)


PREPARE = driver.prepare_reverse
_COUNT = itertools.count()


def module(folder: Path, text: str) -> ModuleType:
    """Write a Python text to a file and return it as a module, because kernels are read from their files."""
    name = f"rows_{next(_COUNT)}"
    path = folder / f"{name}.py"
    path.write_text(re.sub(r"^\n+", "", text))
    found = ModuleType(name)
    found.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), found.__dict__)
    return found
