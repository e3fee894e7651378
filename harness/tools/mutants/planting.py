"""This module plants a mutant: it replaces a part of the compiler in this process and restores it exactly.

Invariant: after a plant, even if an exception ended it, the compiler is the same object as before. Kernels compiled
meanwhile stay wrong, so callers that keep compiled kernels must compile new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from ....backends import disk_cache
from ....compiler.ad import rule_reads as rule_needs
from ....compiler.ad.reverse import TaskReverser
from ....compiler.ad.rules import VJP, DerivativeRule
from ....compiler.ad.statements import REVERSE, Handler
from ....compiler.ir.kernels import Task
from ....compiler.ir.statement import Stmt
from ....compiler.ir.table import Table

Plant = AbstractContextManager[Any]


@dataclass(frozen=True)
class Mutant:
    """Represent a mutant: a known mistake of the compiler that a test can plant, and remove again.

    Attributes:
        name: the unique name.
        description: what the wrong compiler does.
        rule: the rule that the mutant breaks.
        plant: returns the context in which the compiler is wrong.
        shows: what is wrong on a kernel that the mutant changes: "gradient", "values", "tangent" (of forward mode),
            "overflow" (an AdstackOverflow, never wrong numbers), "relaunch" (a gradient launched again on other
            content) or "outside" (an index that leads outside raises nothing).
        on: the backend that the mutant is in, the CPU for mutants of the runtime; if empty, the mutant is in the
            compiler and the CPU backend.
    """

    name: str
    description: str
    rule: str
    plant: Callable[[], Plant]
    shows: str = "gradient"
    on: str = ""

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Plant the mistake in the compiler during the `with` block, with the disk cache off.

        Executors and kernels made before may still be right.
        """
        with self.plant(), patched(disk_cache, "active_cache", lambda: None):
            yield


@contextmanager
def patched(owner: object, name: str, replacement: object) -> Iterator[None]:
    """Replace an attribute of a module or class during the `with` block.

    Raises:
        KeyError: the owner has no such attribute of its own.
    """
    # `vars` finds only attributes of the owner itself, so that an inherited one is never copied into it.
    old = vars(owner)[name]
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, old)


@contextmanager
def patched_row(table: Table[Any, Any], key: object, row: object) -> Iterator[None]:
    """Replace the entry `key` of a table by `row` inside the `with` block, and restore the old entry after it.

    Raises:
        KeyError: the table has no entry for the key.
    """
    old = table[key]
    table._rows[key] = row
    try:
        yield
    finally:
        table._rows[key] = old


def patched_handler(kind: type[Stmt], change: Callable[[Handler], Handler]) -> Plant:
    """Return a mutant that changes the function that reverses a statement class."""
    return patched_row(REVERSE, kind, change(REVERSE[kind]))


@contextmanager
def patched_rule(op: str, position: int, rule: DerivativeRule) -> Iterator[None]:
    """Replace an operation's derivative rule for one operand during the `with` block.

    The operands that rules read are cached, so the cache is cleared at both ends.
    """
    row = VJP[op]
    with patched_row(VJP, op, (*row[:position], rule, *row[position + 1 :])):
        rule_needs.needs.cache_clear()
        try:
            yield
        finally:
            rule_needs.needs.cache_clear()


def rewritten_tasks(change: Callable[[TaskReverser, Task], Task]) -> Plant:
    """Return a mutant that changes each grad task right after it is built, before any pass runs."""
    build = TaskReverser.build
    return patched(TaskReverser, "build", lambda self: change(self, build(self)))


def last_statement(reverser: TaskReverser, change: Callable[[Any], Stmt | None]) -> None:
    """Replace the last emitted statement by the result of `change`, or remove it if the result is None."""
    block = reverser.b._open[-1]
    made = change(block.pop())
    if made is not None:
        block.append(made)
