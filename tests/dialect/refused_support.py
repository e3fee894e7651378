"""Register programs that must be refused: each is a Python function, with the error that it must raise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stackgrad.compiler.errors import LocatedError

Program = Callable[[], object]
PROGRAMS: list[pytest.param] = []


def refused(kind: type[LocatedError], reason: str, cure: str) -> Callable[[Program], Program]:
    """Return a decorator that registers a program with the error it raises: class, reason and part of the cure."""

    def register(program: Program) -> Program:
        PROGRAMS.append(pytest.param(program, kind, reason, cure, id=program.__name__))
        return program

    return register
