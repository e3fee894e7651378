"""Find all refusals of gradients in the sources: reasons of errors in reverse mode, forward mode and tapes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import stackgrad
import stackgrad.compiler.ad

ROOT = Path(stackgrad.__file__).parent
PLACES = (
    Path(stackgrad.compiler.ad.__file__).parent,  # a checkout maps this folder into the package
    ROOT / "autodiff",
    ROOT / "launch/program.py",
    ROOT / "launch/bound.py",
    ROOT / "runtime/streams.py",
)
ERRORS = {"NotDifferentiable", "Unsupported", "TapeError", "Diagnostic", "ValidationError"}

ELSEWHERE = {
    "the loss is a tensor of |, which has no gradient": "tests/ad_api/test_torch.py, where torch is installed",
    "the loss is a torch tensor that does not require a gradient": "the same",
    "the loss: ": "the same",
    ", which is more than can be looked at before the launch: whether iterations meet at elements of | is not known": (
        "tests/ad/test_marks.py, with lower limits"
    ),
    "another thread is taking derivatives of | already": "tests/ad_api/test_threads.py, where there are two",
    " in another thread wrote |, which | uses": "the same",
    "forward mode is left in another thread than the one that entered it": "the same",
    "the tape is left in another thread than the one that entered it": "the same",
    "sg.assume_unique does not hold: iterations | and | of this parallel loop both touch ": (
        "tests/ad/test_marks.py, where claims are looked at"
    ),
    "' is used in a kernel that is differentiated with respect to '|', and is none of its parameters": (
        "tests/ad_api/test_kinds_of_read_gradients.py, with a kernel of text"
    ),
}
"""Reasons that no program of this folder can provoke, and where they are tested."""


@dataclass(frozen=True)
class Refusal:
    """Represent the reason of a refusal: its constant parts in order, and its position in the sources."""

    file: str
    line: int
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        return "|".join(self.parts)

    def is_in(self, message: str) -> bool:
        """Return True if a message contains all constant parts, one after the other."""
        at = 0
        for part in self.parts:
            at = message.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return True


def refusals() -> list[Refusal]:
    """Return all reasons in the sources, each once."""
    files = [f for place in PLACES for f in (sorted(place.glob("*.py")) if place.is_dir() else [place])]
    found = {r.text: r for file in files for r in _of(file)}
    return [r for r in found.values() if r.parts]


def _of(file: Path) -> Iterator[Refusal]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ERRORS and call.args:
                for reason in _reasons(call.args[0], function):
                    yield Refusal(file.name, call.lineno, tuple(_constants(reason)))


def _reasons(argument: ast.expr, function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield the texts that an argument may be: a literal, or what the function assigns to its name."""
    if not isinstance(argument, ast.Name):
        yield argument
        return
    for statement in ast.walk(function):
        if isinstance(statement, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == argument.id for t in statement.targets
        ):
            yield statement.value


def _constants(reason: ast.expr) -> list[str]:
    """Return the constant parts of a text that are long enough, which every message must contain."""
    if isinstance(reason, ast.Constant) and isinstance(reason.value, str):
        return [reason.value]
    if isinstance(reason, ast.JoinedStr):
        parts = [v.value for v in reason.values if isinstance(v, ast.Constant) and isinstance(v.value, str)]
        return [part for part in parts if len(part) > 4]
    return []
