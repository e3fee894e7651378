"""Generic walks, maps and renamings over statements, driven by the roles of their fields."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from .nodes import ROLES, Block, Kernel, Stmt, Task, Value


def _fields(role: str) -> dict[type[Stmt], tuple[str, ...]]:
    """Names of the fields of this role, by class: walks are most of a compilation, so they look them up once."""
    return {cls: tuple(name for name, kind in roles if kind == role) for cls, roles in ROLES.items()}


_RESULTS, _OPERANDS, _BLOCKS = _fields("result"), _fields("operand"), _fields("block")


def _values(stmt: Stmt, names: tuple[str, ...]) -> tuple[Value, ...]:
    found: tuple[Value, ...] = ()
    for name in names:
        content = getattr(stmt, name)
        if content is not None:
            found += content if isinstance(content, tuple) else (content,)
    return found


def results(stmt: Stmt) -> tuple[Value, ...]:
    """Values the statement defines, loop indices and trip counts included."""
    return _values(stmt, _RESULTS[type(stmt)])


def operands(stmt: Stmt) -> tuple[Value, ...]:
    """Values the statement itself reads, not those read inside its blocks."""
    return _values(stmt, _OPERANDS[type(stmt)])


def blocks(stmt: Stmt) -> tuple[Block, ...]:
    """Nested blocks in order."""
    return tuple([getattr(stmt, name) for name in _BLOCKS[type(stmt)]])


def walk(block: Block) -> Iterator[Stmt]:
    """Every statement of a block, outer before inner, in order of text."""
    found: list[Stmt] = []
    _collect(block, found)
    return iter(found)


def _collect(block: Block, found: list[Stmt]) -> None:
    """A list costs a third of nested generators, and walks are most of a compilation."""
    for stmt in block:
        found.append(stmt)
        for name in _BLOCKS[type(stmt)]:
            _collect(getattr(stmt, name), found)


def walk_task(task: Task) -> Iterator[Stmt]:
    """Every statement of a task: bounds first."""
    yield from walk(task.bounds)
    yield from walk(task.body)


def walk_kernel(kernel: Kernel) -> Iterator[Stmt]:
    """Every statement of a kernel."""
    for task in kernel.tasks:
        yield from walk_task(task)


def map_blocks(stmt: Stmt, change: Callable[[Block], Block]) -> Stmt:
    """The statement with each nested block changed; the same object if none did."""
    new = {}
    for name in _BLOCKS[type(stmt)]:
        old = getattr(stmt, name)
        made = change(old)
        if made is not old:
            new[name] = made
    return replace(stmt, **new) if new else stmt  # type: ignore[arg-type]


def rename(stmt: Stmt, mapping: Mapping[Value, Value]) -> Stmt:
    """The statement with operands replaced, also inside its blocks; results stay."""
    new: dict[str, Any] = {}
    for name, kind in ROLES[type(stmt)]:
        old = getattr(stmt, name)
        if kind == "operand":
            made: Any = tuple(mapping.get(v, v) for v in old) if isinstance(old, tuple) else mapping.get(old, old)
        elif kind == "block":
            made = rename_block(old, mapping)
        else:
            continue
        if made != old:
            new[name] = made
    return replace(stmt, **new) if new else stmt


def rename_block(block: Block, mapping: Mapping[Value, Value]) -> Block:
    """`rename` over a block; the same object if nothing changed."""
    made = tuple(rename(s, mapping) for s in block)
    return block if all(a is b for a, b in zip(made, block)) else made


def rename_locals(block: Block, names: Mapping[str, str]) -> Block:
    """The block with locals renamed wherever they are declared, read, written or tested."""

    def change(stmt: Stmt) -> Stmt:
        stmt = map_blocks(stmt, lambda inner: rename_locals(inner, names))
        new: dict[str, Any] = {}
        for k in ("var", "stop"):
            old = getattr(stmt, k, None)
            if old is not None and old in names:
                new[k] = names[old]
        return replace(stmt, **new) if new else stmt

    made = tuple(change(s) for s in block)
    return block if all(a is b for a, b in zip(made, block)) else made


def next_id(kernel: Kernel) -> int:
    """An id greater than every value of the kernel."""
    highest = -1
    for task in kernel.tasks:
        for value in task.indices:
            highest = max(highest, value.id)
        for stmt in walk_task(task):
            for value in results(stmt):
                highest = max(highest, value.id)
    return highest + 1


def used_values(statements: Iterable[Stmt]) -> set[Value]:
    """All values read by these statements (nested ones must be in the iterable)."""
    return {v for stmt in statements for v in operands(stmt)}


def renumber(kernel: Kernel) -> Kernel:
    """Value ids in order of text from 0: equal programs get equal texts."""
    names: dict[Value, Value] = {}

    def fresh(value: Value | None) -> Value | None:
        if value is None:
            return None
        return names.setdefault(value, Value(len(names), value.type))

    def visit(block: Block) -> Block:
        return tuple(_renumber_stmt(s, fresh, visit) for s in block)

    tasks = []
    for task in kernel.tasks:
        bounds = visit(task.bounds)
        indices = tuple(fresh(v) for v in task.indices)
        ends = {k: tuple(fresh(v) for v in getattr(task, k)) for k in ("begin", "end")}
        tasks.append(replace(task, bounds=bounds, indices=indices, body=visit(task.body), **ends))  # type: ignore[arg-type]
    return replace(kernel, tasks=tuple(tasks))


def _renumber_stmt(stmt: Stmt, fresh: Callable[[Value | None], Value | None], visit: Callable[[Block], Block]) -> Stmt:
    """Operands of a While's test are defined in its first block, so fields are visited as the form lists them."""
    new: dict[str, Any] = {}
    order = sorted(ROLES[type(stmt)], key=lambda nr: type(stmt).FORM.find("{" + nr[0] + "}"))
    for name, kind in order:
        old = getattr(stmt, name)
        if kind == "block":
            new[name] = visit(old)
        elif isinstance(old, tuple):
            new[name] = tuple(fresh(v) for v in old)
        else:
            new[name] = fresh(old)
    return replace(stmt, **new)
