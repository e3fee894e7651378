"""How a mutant is planted: something of the compiler is replaced in this process, and put back exactly.

Invariant: after a plant, also one that an exception ended, the compiler is the object it was; what was compiled
meanwhile stays wrong, so whoever keeps compiled kernels makes new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from ...backends import disk_cache
from ...compiler.ad import needs as rule_needs
from ...compiler.ad.reverse import TaskReverser
from ...compiler.ad.rules import VJP, Rule
from ...compiler.ad.statements import REVERSE, Handler
from ...compiler.ir.nodes import Stmt, Task
from ...compiler.ir.table import Table

Plant = AbstractContextManager[Any]


@dataclass(frozen=True)
class Mutant:
    """A miscompilation that can be switched on.

    rule: what it breaks. shows: where it is seen on a kernel that it changes: "gradient", "values", "tangent" (of
    forward mode), "overflow" (an AdstackOverflow, never wrong numbers), "relaunch" (a gradient launched again on other
    content) or "outside" (an index that leads outside raises nothing). on: the backend that it is in, the CPU for those
    of the runtime; of the compiler and the CPU if empty.
    """

    name: str
    description: str
    rule: str
    plant: Callable[[], Plant]
    shows: str = "gradient"
    on: str = ""

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Inside, the compiler is wrong in this way. Executors and kernels made before may still be right. Nothing is
        taken from the disk, or left there.
        """
        with self.plant(), patched(disk_cache, "active", lambda: None):
            yield


@contextmanager
def patched(owner: object, name: str, replacement: object) -> Iterator[None]:
    """A module or class with another attribute of this name. KeyError if it has none of its own."""
    old = vars(owner)[name]
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, old)


@contextmanager
def patched_row(table: Table[Any, Any], key: object, row: object) -> Iterator[None]:
    """A table with another row. KeyError if it has none for the key."""
    old = table[key]
    table._rows[key] = row
    try:
        yield
    finally:
        table._rows[key] = old


def patched_handler(kind: type[Stmt], change: Callable[[Handler], Handler]) -> Plant:
    """The reverse of a statement class, made from the right one."""
    return patched_row(REVERSE, kind, change(REVERSE[kind]))


@contextmanager
def patched_rule(op: str, position: int, rule: Rule) -> Iterator[None]:
    """Another derivative with respect to one operand. What rules read is remembered, so it is forgotten twice."""
    row = VJP[op]
    with patched_row(VJP, op, (*row[:position], rule, *row[position + 1 :])):
        rule_needs.needs.cache_clear()
        try:
            yield
        finally:
            rule_needs.needs.cache_clear()


def rewritten_tasks(change: Callable[[TaskReverser, Task], Task]) -> Plant:
    """Grad tasks changed after they are built, before any pass sees them."""
    build = TaskReverser.build
    return patched(TaskReverser, "build", lambda self: change(self, build(self)))


def last_statement(reverser: TaskReverser, change: Callable[[Any], Stmt | None]) -> None:
    """Change the statement that was emitted last; None removes it."""
    block = reverser.b._open[-1]
    made = change(block.pop())
    if made is not None:
        block.append(made)
