"""This module contains generic walks, maps and renamings over statements, driven by the roles of attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from operator import is_
from typing import Any, TypeVar

from .kernels import Kernel, Task
from .nodes import ROLES
from .statement import Block, Stmt, Value

T = TypeVar("T")
S = TypeVar("S", bound=Stmt)


def _getter(cls: type[Stmt], role: str) -> Any:
    """Return a function from a statement to all values, or all blocks, in its attributes with the given role.

    Walks take most of the time of a compilation. The expression is therefore written out once for each class
    (`(s.result,)`, `s.args`, `(*s.indices, s.value,)`) instead of looking at the kinds of fields for each statement.
    """
    kinds = {f.name: str(f.type) for f in fields(cls)}
    names = [name for name, kind in ROLES[cls] if kind == role]
    if len(names) == 1 and kinds[names[0]].startswith("tuple"):
        return eval(f"lambda s: s.{names[0]}")
    parts = "".join(_part(name, "Value" if role == "block" else kinds[name]) for name in names)
    return eval(f"lambda s: ({parts})")


def _part(name: str, kind: str) -> str:
    """Return Python source text that adds the values or blocks of one attribute to a tuple expression."""
    if kind.startswith("tuple"):
        return f"*s.{name}, "
    return f"*(() if s.{name} is None else (s.{name},)), " if kind.endswith("None") else f"s.{name}, "


def _getters(role: str) -> dict[type[Stmt], Callable[[Any], tuple[Any, ...]]]:
    return {cls: _getter(cls, role) for cls in ROLES}


RESULTS, OPERANDS, _BLOCKS = _getters("result"), _getters("operand"), _getters("block")
"""These tables hold the getters behind `results`, `operands` and `blocks` by class, for walks over every statement."""


def _names(role: str) -> dict[type[Stmt], tuple[str, ...]]:
    return {cls: tuple(name for name, kind in roles if kind == role) for cls, roles in ROLES.items()}


_BLOCK_NAMES, _OPERAND_NAMES = _names("block"), _names("operand")
NESTED = frozenset(cls for cls, names in _BLOCK_NAMES.items() if names)
"""These classes of statements have blocks."""


def results(stmt: Stmt) -> tuple[Value, ...]:
    """Return the values that the statement defines, loop indices and trip counts included."""
    return RESULTS[type(stmt)](stmt)


def operands(stmt: Stmt) -> tuple[Value, ...]:
    """Return the values that the statement itself reads, not those read inside its blocks."""
    return OPERANDS[type(stmt)](stmt)


def blocks(stmt: Stmt) -> tuple[Block, ...]:
    """Return the nested blocks of the statement in order."""
    return _BLOCKS[type(stmt)](stmt)


def walk(block: Block) -> Iterator[Stmt]:
    """Return an iterator over every statement of a block, outer before inner, in order of text."""
    return iter(_listed(block, []))


def _listed(block: Block, found: list[Stmt]) -> list[Stmt]:
    """Append all statements of the block, nested ones included, to the list and return the list.

    This takes a third of the time of nested generators. The function does not recurse, so a walk needs no room on
    Python's stack, however deep the kernel nests.
    """
    pending: list[Iterable[Stmt]] = [block]
    while pending:
        rest = pending.pop()
        if type(rest) in _WHOLE:
            # Most blocks contain no nested block and are copied as a whole.
            if NESTED.isdisjoint(map(type, rest)):
                found += rest
                continue
            rest = iter(rest)
        for stmt in rest:
            found.append(stmt)
            if type(stmt) in NESTED:
                # The walk continues after the nested blocks, which are pushed in reverse order.
                pending.append(rest)
                pending += _BLOCKS[type(stmt)](stmt)[::-1]
                break
    return found


_WHOLE = (tuple, list)
"""A pending item of one of these types is a block with nothing listed yet; other items are started iterators."""


def walk_task(task: Task) -> Iterator[Stmt]:
    """Return an iterator over every statement of a task, those of the bounds first."""
    return iter(_listed(task.body, _listed(task.bounds, [])))


def walk_kernel(kernel: Kernel) -> Iterator[Stmt]:
    """Return an iterator over every statement of a kernel."""
    found: list[Stmt] = []
    for task in kernel.tasks:
        _listed(task.body, _listed(task.bounds, found))
    return iter(found)


def replace_fields(node: T, **new: Any) -> T:
    """Return a copy of a node with some attributes replaced, like `dataclasses.replace` without the constructor.

    The constructor of a node checks nothing, and would take most of the time.
    """
    made = object.__new__(type(node))
    made.__dict__.update(node.__dict__, **new)
    return made


def kept_block(block: Block, made: Sequence[Stmt]) -> Block:
    """Return the new statements as a block, or the old block object if it consists of the same statement objects."""
    return block if len(made) == len(block) and all(map(is_, made, block)) else tuple(made)


def map_blocks(stmt: Stmt, change: Callable[[Block], Block]) -> Stmt:
    """Return the statement with each nested block changed, or the same object if no block changed."""
    if type(stmt) not in NESTED:
        return stmt
    new = {}
    for name in _BLOCK_NAMES[type(stmt)]:
        old = getattr(stmt, name)
        made = change(old)
        if made is not old:
            new[name] = made
    return replace_fields(stmt, **new) if new else stmt


def rename(stmt: Stmt, mapping: Mapping[Value, Value]) -> Stmt:
    """Return the statement with operands replaced, also inside its blocks; the ids of its results stay the same."""
    stmt = rename_operands(stmt, mapping)
    return map_blocks(stmt, lambda inner: rename_block(inner, mapping)) if type(stmt) in NESTED else stmt


def rename_operands(stmt: S, mapping: Mapping[Value, Value]) -> S:
    """Return the statement with its own operands replaced, or the same object if none is in the mapping.

    Operands of statements inside its blocks stay.
    """
    if mapping.keys().isdisjoint(OPERANDS[type(stmt)](stmt)):
        return stmt
    new: dict[str, Any] = {}
    for name in _OPERAND_NAMES[type(stmt)]:
        old = getattr(stmt, name)
        new[name] = tuple([mapping.get(v, v) for v in old]) if isinstance(old, tuple) else mapping.get(old, old)
    return replace_fields(stmt, **new)


def rename_block(block: Block, mapping: Mapping[Value, Value]) -> Block:
    """Return the block with operands of all its statements replaced, or the same object if nothing changed."""
    return kept_block(block, [rename(s, mapping) for s in block])


def rename_locals(block: Block, names: Mapping[str, str]) -> Block:
    """Return the block with locals renamed wherever they are declared, read, written or tested."""

    def change(stmt: Stmt) -> Stmt:
        stmt = map_blocks(stmt, lambda inner: rename_locals(inner, names))
        new: dict[str, Any] = {}
        for k in ("var", "stop"):
            old = getattr(stmt, k, None)
            if old is not None and old in names:
                new[k] = names[old]
        return replace(stmt, **new) if new else stmt

    return kept_block(block, [change(s) for s in block])


def next_id(kernel: Kernel) -> int:
    """Return an id greater than that of every value of the kernel."""
    ids = [value.id for task in kernel.tasks for value in task.indices]
    ids += [value.id for stmt in walk_kernel(kernel) for value in RESULTS[type(stmt)](stmt)]
    return max(ids, default=-1) + 1


def used_values(statements: Iterable[Stmt]) -> set[Value]:
    """Return all values that these statements read; nested statements count only if the iterable contains them."""
    return {v for stmt in statements for v in OPERANDS[type(stmt)](stmt)}


# Pairs (name, role) of the fields in the order of the form: `test` of a While is defined in its first block.
_IN_TEXT = {cls: sorted(roles, key=lambda nr: cls.FORM.find("{" + nr[0] + "}")) for cls, roles in ROLES.items()}


def renumber(kernel: Kernel) -> Kernel:
    """Return the kernel with value ids numbered from 0 in order of text, so that equal programs get equal texts."""
    names: dict[Value, Value] = {}

    def fresh(value: Value) -> Value:
        # The first occurrence of a value in the text gives it the next number.
        found = names.get(value)
        if found is None:
            found = names[value] = Value(len(names), value.type)
        return found

    def all_fresh(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple([fresh(v) for v in values])

    def visit(block: Block) -> Block:
        return tuple([_renumber_stmt(s, fresh, visit) for s in block])

    tasks = []
    for task in kernel.tasks:
        bounds, indices = visit(task.bounds), all_fresh(task.indices)
        begin, end = all_fresh(task.begin), all_fresh(task.end)
        tasks.append(replace_fields(task, bounds=bounds, indices=indices, begin=begin, end=end, body=visit(task.body)))
    return replace(kernel, tasks=tuple(tasks))


def _renumber_stmt(stmt: Stmt, fresh: Callable[[Value], Value], visit: Callable[[Block], Block]) -> Stmt:
    new: dict[str, Any] = {}
    for name, kind in _IN_TEXT[type(stmt)]:
        old = getattr(stmt, name)
        if kind == "block":
            new[name] = visit(old)
        elif isinstance(old, tuple):
            new[name] = tuple([fresh(v) for v in old])
        elif old is not None:
            new[name] = fresh(old)
    return replace_fields(stmt, **new) if new else stmt
