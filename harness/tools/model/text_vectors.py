"""Render expressions on vectors and matrices as Python text."""

from __future__ import annotations

from . import nodes as m
from .writer import TEXT, Writer


@TEXT.row(m.Vector)
def _vector(w: Writer, e: m.Vector) -> str:
    dtype = [w.dtype(e.dtype)] if e.dtype else []
    return w.function("Vector", f"[{w.list(e.items)}]", *dtype)


@TEXT.row(m.Matrix)
def _matrix(w: Writer, e: m.Matrix) -> str:
    rows = ", ".join(f"[{w.list(row)}]" for row in e.rows)
    return w.function("Matrix", f"[{rows}]")


@TEXT.row(m.Comprehension)
def _comprehension(w: Writer, e: m.Comprehension) -> str:
    inner = f"{w.expr(e.item)} for {e.name} in range({e.count})"
    if e.form == "sum":
        w.dialect.need("generator expressions")
        return f"sum({inner})"
    return w.function("Vector", f"[{inner}]")


@TEXT.row(m.Filled)
def _filled(w: Writer, e: m.Filled) -> str:
    owner = "Vector" if len(e.shape) == 1 else "Matrix"
    extents = e.shape[:1] if e.function == "identity" else e.shape
    return w.function(f"{owner}.{e.function}", w.dtype(e.dtype), *map(str, extents))


@TEXT.row(m.Part)
def _part(w: Writer, e: m.Part) -> str:
    return f"{w.operand(e.base)}[{w.list(e.indices)}]"


@TEXT.row(m.Swizzle)
def _swizzle(w: Writer, e: m.Swizzle) -> str:
    return f"{w.operand(e.base)}.{e.letters}"


@TEXT.row(m.Slice)
def _slice(w: Writer, e: m.Slice) -> str:
    begin, end = ("" if n is None else str(n) for n in (e.begin, e.end))
    if e.step is not None and e.step < 0:
        w.dialect.need("slices backward")
    return f"{w.operand(e.base)}[{begin}:{end}{'' if e.step is None else f':{e.step}'}]"


@TEXT.row(m.Method)
def _method(w: Writer, e: m.Method) -> str:
    return f"{w.operand(e.base)}.{e.name}({w.list(e.args)})"


@TEXT.row(m.Convert)
def _convert(w: Writer, e: m.Convert) -> str:
    return f"{w.operand(e.base)}.cast({w.dtype(e.dtype)})"
