"""Render structs as Python text: expressions on them, and the definitions of their types."""

from __future__ import annotations

from collections.abc import Iterator

from . import nodes as m
from .writer import TEXT, Writer


@TEXT.row(m.Make)
def _make(w: Writer, e: m.Make) -> str:
    members = w.program.struct(e.struct).members
    texts = [w.expr(v) for v in e.values]
    if e.named:
        texts = [f"{p.name}={text}" for p, text in zip(members, texts)]
    return f"{e.struct}({', '.join(texts)})"


@TEXT.row(m.Member)
def _member(w: Writer, e: m.Member) -> str:
    return f"{w.operand(e.base)}.{e.name}"


def struct_types(w: Writer) -> Iterator[str]:
    """Yield the lines that define the struct types of the program."""
    for kind in w.program.structs:
        members = [(p.name, p.struct or w.type(p.dtype, p.shape)) for p in kind.members]
        if kind.decorated:
            yield f"@{w.dialect.alias}.dataclass"
            yield f"class {kind.name}:"
            yield from (f"    {name}: {text}" for name, text in members)
        else:
            made = ", ".join(f"{name}={text}" for name, text in members)
            yield f"{kind.name} = {w.dialect.alias}.types.struct({made})"
        yield ""
