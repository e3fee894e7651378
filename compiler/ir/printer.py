"""This module turns IR into text, so that `parse(print_kernel(k)) == k` for every kernel.

`print_kernel(renumber(k))` is the canonical text, which cache keys and goldens use.
"""

from __future__ import annotations

import json

from . import form
from .depth import with_stack_room
from .kernels import Kernel, Task
from .nodes import Const, Within
from .statement import Block, Stmt, Value


@with_stack_room
def print_kernel(kernel: Kernel, with_locations: bool = False) -> str:
    """Return the IR text of a kernel, which the parser can read.

    Args:
        kernel: the kernel.
        with_locations: True to append `!N`, the location index, to each statement.
    """
    params = ", ".join(f"{p.name}: {p.type}" for p in kernel.params)
    lines = [f"kernel {kernel.name}({params}) {{"]
    lines += [f"  temp {t.name}: {t.dtype}" for t in kernel.temps]
    for task in kernel.tasks:
        lines += _task(task, with_locations)
    return "\n".join([*lines, "}", ""])


@with_stack_room
def print_statement(stmt: Stmt) -> str:
    """Return the IR text of one statement, nested blocks included."""
    return "\n".join(_statement(stmt, "", False))


def _task(task: Task, locs: bool) -> list[str]:
    if not task.is_parallel:
        return ["  serial {", *_block(task.body, "    ", locs), "  }"]
    names = ", ".join(_definition(v) for v in task.indices)
    ends = ", ".join(f"{_use(b)} .. {_use(e)}" for b, e in zip(task.begin, task.end))
    return [
        "  bounds {",
        *_block(task.bounds, "    ", locs),
        f"  }} parallel {names} in {ends} {f'block {task.block} ' if task.block else ''}{{",
        *_block(task.body, "    ", locs),
        "  }",
    ]


def _block(block: Block, indent: str, locs: bool) -> list[str]:
    return [line for stmt in block for line in _statement(stmt, indent, locs)]


def _statement(stmt: Stmt, indent: str, locs: bool) -> list[str]:
    """Return the IR text of a statement, nested blocks included, as a list of lines.

    A block opens on the line of the statement; the rest of the form continues after the closing brace.
    """
    lines, text = [], indent
    for token in _visible(stmt):
        if isinstance(token, form.FieldToken) and token.role == "block":
            lines.append(text.rstrip() + " {")
            lines += _block(getattr(stmt, token.field), indent + "  ", locs)
            text = indent + "} "
        else:
            text = _append(text, _token(stmt, token))
    lines.append(text.rstrip() + (f" !{stmt.loc}" if locs and stmt.loc else ""))
    return lines


def _append(text: str, piece: str) -> str:
    """Return a text with a token appended: no space goes before `,`, `:`, `]` and `[`, and none after `[`."""
    if not piece:
        return text
    if piece in (",", ":", "]", "["):
        return text.rstrip() + piece + ("" if piece == "[" else " ")
    return text + piece + " "


def _visible(stmt: Stmt) -> list[form.LiteralToken | form.FieldToken]:
    """Return the tokens of a statement's text; optional groups with default values are left out."""
    out: list[form.LiteralToken | form.FieldToken] = []
    for token in form.tokens(type(stmt)):
        if not isinstance(token, form.OptionalGroup):
            out.append(token)
        elif getattr(stmt, token.hole.field) != token.default:
            out.extend(token.tokens)
    return out


def _token(stmt: Stmt, token: form.LiteralToken | form.FieldToken) -> str:
    if isinstance(token, form.LiteralToken):
        return token.text
    content = getattr(stmt, token.field)
    if token.role == "result":
        return _definition(content)
    if token.role == "operand":
        return ", ".join(_use(v) for v in content) if token.many else _use(content)
    if token.field in form.QUOTED:
        return json.dumps(content)
    if isinstance(content, bool):
        return ("true" if content else "false") if isinstance(stmt, Const) else ""
    return repr(content) if isinstance(content, (int, float)) else str(content)


def _definition(value: Value) -> str:
    return f"%{value.id}: {value.type}"


def _use(value: Value) -> str:
    return f"%{value.id}"


def headline(stmt: Stmt) -> str:
    """Return the first line of a statement as error messages show it; a `within` is shown without its message."""
    text = print_statement(stmt).splitlines()[0]
    return text.partition(', "')[0] if isinstance(stmt, Within) else text
