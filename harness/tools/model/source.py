"""Render a program as Python text: the functions and the kernel alone, or a file that runs by itself.

The module fills the tables of `writer` for scalars, domains and statements; `text_vectors` does it for vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import nodes as m
from . import text_vectors  # noqa: F401  (it fills the tables)
from .dialects import DIALECTS
from .text_structs import struct_types
from .writer import DOMAIN_TEXT, LINES, TEXT, Writer

# ---- expressions ------------------------------------------------------------------------------------------------


@TEXT.row(m.Number)
def _number(w: Writer, e: m.Number) -> str:
    return repr(e.value)


@TEXT.row(m.Name)
def _name(w: Writer, e: m.Name) -> str:
    return e.name


@TEXT.row(m.Element)
def _element(w: Writer, e: m.Element) -> str:
    return f"{e.field}[{w.list(e.indices) or None}]"


@TEXT.row(m.Extent)
def _extent(w: Writer, e: m.Extent) -> str:
    return f"{e.field}.shape[{e.axis}]"


@TEXT.row(m.Unary)
def _unary(w: Writer, e: m.Unary) -> str:
    return ("not " if e.op == "not" else e.op) + w.operand(e.arg)


@TEXT.row(m.Binary)
def _binary(w: Writer, e: m.Binary) -> str:
    return f"{w.operand(e.left)} {e.op} {w.operand(e.right)}"


@TEXT.row(m.Compare)
def _compare(w: Writer, e: m.Compare) -> str:
    text = w.operand(e.operands[0])
    for op, operand in zip(e.ops, e.operands[1:]):
        text += f" {op} {w.operand(operand)}"
    return text


@TEXT.row(m.Logic)
def _logic(w: Writer, e: m.Logic) -> str:
    return f" {e.op} ".join(map(w.operand, e.operands))


@TEXT.row(m.Choice)
def _choice(w: Writer, e: m.Choice) -> str:
    return f"{w.operand(e.then)} if {w.operand(e.condition)} else {w.operand(e.orelse)}"


_BUILTINS = ("abs", "min", "max", "round")
"""Functions that Python has too, written as Python's so that both spellings occur (`abs(x)`, `sg.sin(x)`)."""


@TEXT.row(m.Call)
def _call(w: Writer, e: m.Call) -> str:
    args = [w.expr(a) for a in e.args] + ([w.dtype(e.dtype)] if e.dtype else [])
    if e.function in w.dialect.written:
        return w.dialect.written[e.function].format(args[0])
    python = e.function in _BUILTINS and (e.function != "round" or w.dialect.calls_types)
    if python and not e.dtype and len(e.args) % 2:
        return f"{e.function}({', '.join(args)})"
    return w.function(e.function, *args)


@TEXT.row(m.Cast)
def _cast(w: Writer, e: m.Cast) -> str:
    if e.spelling == "cast" or e.spelling == "type" and not w.dialect.calls_types:
        return w.function("cast", w.expr(e.arg), w.dtype(e.dtype))
    return f"{w.dtype(e.dtype) if e.spelling == 'type' else e.spelling}({w.expr(e.arg)})"


@TEXT.row(m.BitCast)
def _bit_cast(w: Writer, e: m.BitCast) -> str:
    return w.function("bit_cast", w.expr(e.arg), w.dtype(e.dtype))


@TEXT.row(m.Random)
def _random(w: Writer, e: m.Random) -> str:
    return w.function(e.function, *([w.dtype(e.dtype)] if e.dtype else []))


@TEXT.row(m.AtomicCall)
def _atomic(w: Writer, e: m.AtomicCall) -> str:
    w.dialect.need(f"atomic_{e.op}")
    return w.function(f"atomic_{e.op}", *map(w.expr, (e.target, *([e.expected] if e.expected else []), e.value)))


@TEXT.row(m.Invoke)
def _invoke(w: Writer, e: m.Invoke) -> str:
    return f"{e.function}({w.list(e.args)})"


@TEXT.row(m.Walrus)
def _walrus(w: Writer, e: m.Walrus) -> str:
    return f"({e.name} := {w.expr(e.value)})"


# ---- domains ----------------------------------------------------------------------------------------------------


@DOMAIN_TEXT.row(m.Range)
def _range(w: Writer, d: m.Range) -> str:
    step = d.stride or ("" if d.step == 1 else str(d.step))
    parts = [] if d.begin is None and not step else [w.expr(d.begin or m.Number(0))]
    text = f"range({', '.join([*parts, w.expr(d.end), *([step] if step else [])])})"
    if step:
        w.dialect.need("range with a step")
    if d.reverse:
        w.dialect.need("reversed")
    return f"reversed({text})" if d.reverse else text


@DOMAIN_TEXT.row(m.Box)
def _box(w: Writer, d: m.Box) -> str:
    return w.function("ndrange", *(w.axis(b, e) for b, e in d.axes), *w.order(d))


@DOMAIN_TEXT.row(m.Over)
def _over(w: Writer, d: m.Over) -> str:
    return d.field


@DOMAIN_TEXT.row(m.Grouped)
def _grouped(w: Writer, d: m.Grouped) -> str:
    return w.function(w.grouped(d), DOMAIN_TEXT[type(d.domain)](w, d.domain))


@DOMAIN_TEXT.row(m.Unrolled)
def _unrolled(w: Writer, d: m.Unrolled) -> str:
    return w.function("static", f"range({d.begin}, {d.end}, {d.step})")


# ---- statements -------------------------------------------------------------------------------------------------


@LINES.row(m.Assign)
def _assign(w: Writer, s: m.Assign) -> Iterator[str]:
    yield f"{w.list(s.targets)} = {w.list(s.values)}"


@LINES.row(m.Declare)
def _declare(w: Writer, s: m.Declare) -> Iterator[str]:
    yield f"{s.name}: {w.dtype(s.dtype)} = {w.expr(s.value)}"


@LINES.row(m.Augment)
def _augment(w: Writer, s: m.Augment) -> Iterator[str]:
    yield f"{w.expr(s.target)} {s.op}= {w.expr(s.value)}"


@LINES.row(m.If)
def _if(w: Writer, s: m.If) -> Iterator[str]:
    return _branches(w, s, "if")


def _branches(w: Writer, s: m.If, word: str) -> Iterator[str]:
    yield f"{word} {w.expr(s.condition)}:"
    yield from w.block(s.then)
    if len(s.orelse) == 1 and isinstance(s.orelse[0], m.If):
        yield from _branches(w, s.orelse[0], "elif")
    elif s.orelse:
        yield "else:"
        yield from w.block(s.orelse)


@LINES.row(m.For)
def _for(w: Writer, s: m.For) -> Iterator[str]:
    if s.serialize:
        yield w.function("loop_config", "serialize=True")
    yield f"for {', '.join(s.indices)} in {DOMAIN_TEXT[type(s.domain)](w, s.domain)}:"
    yield from w.block(s.body)


@LINES.row(m.While)
def _while(w: Writer, s: m.While) -> Iterator[str]:
    yield f"while {w.expr(s.condition)}:"
    yield from w.block(s.body)


@LINES.row(m.Break, m.Continue, m.Pass)
def _word(w: Writer, s: m.Stmt) -> Iterator[str]:
    yield type(s).__name__.lower()


@LINES.row(m.Return)
def _return(w: Writer, s: m.Return) -> Iterator[str]:
    yield f"return {w.list(s.values)}".rstrip()


@LINES.row(m.Assert)
def _assert(w: Writer, s: m.Assert) -> Iterator[str]:
    yield f"assert {w.expr(s.condition)}, {s.message!r}"


@LINES.row(m.Evaluate)
def _evaluate(w: Writer, s: m.Evaluate) -> Iterator[str]:
    yield w.expr(s.value)


# ---- files ------------------------------------------------------------------------------------------------------


def definitions(program: m.Program, dialect: str = "stackgrad") -> str:
    """Return the Python text of the types, functions and kernel of a program, without its fields and imports."""
    w = Writer(program, DIALECTS[dialect])
    return "\n".join((*struct_types(w), *_definitions(w)))


def _definitions(w: Writer) -> Iterator[str]:
    for function in w.program.kernel.functions:
        result = f" -> {w.type(function.result, function.shape)}" if function.result else ""
        yield from w.decorator(function)
        yield f"def {function.name}({', '.join(_parameters(w, function.params))}){result}:"
        yield from w.block(function.body)
        yield ""
    yield f"@{w.dialect.alias}.kernel"
    result = f" -> {w.dtype(w.program.kernel.result)}" if w.program.kernel.result else ""
    given = [*_parameters(w, w.program.arguments), *_arrays(w)]
    yield f"def {w.program.kernel.name}({', '.join(given)}){result}:"
    yield from w.block(w.program.kernel.body)
    yield ""


def arrays_given(program: m.Program) -> tuple[m.Field, ...]:
    """Return the arrays that are arguments of the kernel, in the order of the parameters."""
    return tuple(f for f in program.fields if f.argument and not f.views)


def viewed_arrays(program: m.Program) -> Iterator[tuple[m.Field, m.View]]:
    """Yield each view that is an argument of the kernel, with the array that it is a view of."""
    return ((f, v) for f in program.fields for v in f.views)


def _arrays(w: Writer) -> Iterator[str]:
    a = w.dialect.alias
    for field in arrays_given(w.program):
        dtype = w.type(field.dtype, field.element)
        yield f"{field.name}: {a}.types.ndarray(dtype={dtype}, ndim={len(field.shape)})"
    for field, view in viewed_arrays(w.program):
        w.dialect.need("BufferView")
        yield f"{view.name}: {a}.BufferView[{w.type(field.dtype, field.element)}]"


def _parameters(w: Writer, params: tuple[m.Param, ...]) -> list[str]:
    return [f"{p.name}: {p.struct or w.type(p.dtype, p.shape)}" if p.dtype or p.struct else p.name for p in params]


def render_source(program: m.Program, dialect: str = "stackgrad", start: bool = True, forward: bool = True) -> str:
    """Return a file that runs the kernel forward, then its gradient, and prints the results as JSON.

    The file's argument names the arch (default cpu). The printed line holds `forward` (final contents by field) and
    `gradient` (adjoints of the initial contents), or `error`. Reals are hexadecimal.

    Args:
        program: The program to render.
        dialect: A key of DIALECTS.
        start: False if the package is already started, as `start_line` says.
        forward: False to run only the gradient, at the initial contents.

    Raises:
        NotInDialect: The dialect lacks a construct of the program.
    """
    w = Writer(program, DIALECTS[dialect])
    return "\n".join([*_head(w, start), "", *_definitions(w), *_foot(w, forward)])


def start_line(program: m.Program, dialect: str = "stackgrad") -> str:
    """Return the line of a rendered script that initializes the package.

    Files with the same line may share a process that ran this line once, even if they differ in everything else.
    """
    d = DIALECTS[dialect]
    return f"{d.alias}.init(arch=getattr({d.alias}, arch), default_fp={d.alias}.{program.default_fp}{d.options})"


_HEAD = """\
import json
import sys

import numpy as np
import {package} as {alias}

arch = sys.argv[1] if len(sys.argv) > 1 else "cpu"
{start}

def is_array(field):
    return type(field).__name__.endswith("Ndarray")  # peers reach its elements without compiling a kernel


def fill(field, values, dtype, shape):
    content = np.array(values, dtype).reshape(shape)
    if not is_array(field):
        return field.from_numpy(content)
    for at in np.ndindex(field.shape):
        if content[at].ndim == 0:
            field[at] = content[at].item()
        for entry in np.ndindex(content[at].shape) if content[at].ndim else ():
            field[at][entry if len(entry) > 1 else entry[0]] = content[at][entry].item()


def numbers(field):
    if is_array(field):
        elements = [field[at] for at in np.ndindex(field.shape)]
        found = [e for v in elements for e in np.ravel(v.to_list() if hasattr(v, "to_list") else v).tolist()]
    else:
        found = field.to_numpy().ravel().tolist()
    return [v.hex() if isinstance(v, float) else v for v in found]

"""


def _head(w: Writer, start: bool) -> Iterator[str]:
    d = w.dialect
    started = f"{start_line(w.program, d.package)}\n" if start else ""
    yield _HEAD.format(package=d.package, alias=d.alias, start=started)
    yield from struct_types(w)
    for owner, field in {f.owner: f for f in reversed(w.program.fields)}.items():
        yield f"{owner} = {_made(w, field)}"
    for name, content in w.program.inputs.arrays:
        yield _fill(w.program, name, content)


def _fill(program: m.Program, name: str, content: m.Content, of: str = "") -> str:
    field = program.field(name)
    return f"fill({name}{of}, {_content(content)}, '{field.dtype.dtype}', {field.storage})"


def _made(w: Writer, field: m.Field) -> str:
    """Return the Python expression that allocates a field or array in the rendered script."""
    a, dtype = w.dialect.alias, w.dtype(field.dtype)
    form = "ndarray" if field.argument else "field"
    offset = f", offset={field.offset}" if field.offset else ""
    end = f"shape={field.shape}{', needs_grad=True' if _has_gradient(w, field) else ''}{offset})"
    if field.struct:
        return f"{field.struct}.field({end}"
    # Only this form gives arrays of vectors a gradient in all packages.
    if not field.element or field.argument:
        return f"{a}.{form}({w.type(field.dtype, field.element)}, {end}"
    extents = ", ".join(map(str, field.element))
    return f"{a}.{'Vector' if len(field.element) == 1 else 'Matrix'}.{form}({extents}, {dtype}, {end}"


def _has_gradient(w: Writer, field: m.Field) -> bool:
    """Return True if a field has a gradient, or if it is a field of structs of which any member has one."""
    return any(f.grad for f in w.program.fields if f.owner == field.owner)


def _content(content: m.Content) -> str:
    return f"[{', '.join(map(_exact, content))}]"


def _exact(value: bool | int | float) -> str:
    text = repr(value)
    return f'float("{text}")' if text.lstrip("-") in ("inf", "nan") else text


def _argument(w: Writer, param: m.Param) -> str:
    known = w.program.scalars()
    if not param.shape:
        return _exact(known[param.name])
    entries = ", ".join(_exact(known[name]) for name in param.entries)
    return f"{w.dialect.alias}.Vector([{entries}], {w.dtype(param.dtype)})"


def _foot(w: Writer, forward: bool) -> Iterator[str]:
    program = w.program
    parts = (f"{w.dialect.alias}.BufferView({f.name}, {v.first}, {v.size})" for f, v in viewed_arrays(program))
    args = ", ".join([*(_argument(w, p) for p in program.arguments), *(f.name for f in arrays_given(program)), *parts])
    everything = ", ".join(f'"{f.name}": {f.name}' for f in program.fields)
    with_grad = ", ".join(f'"{f.name}": {f.name}' for f in program.fields if f.grad)
    yield "result = {}"
    yield "try:"
    if forward:
        yield f"    {program.kernel.name}({args})"
        yield f"    result['forward'] = {{name: numbers(f) for name, f in {{{everything}}}.items()}}"
    for name, content in program.inputs.seeds:
        yield f"    {_fill(program, name, content, '.grad')}"
    yield f"    {program.kernel.name}.grad({args})"
    yield f"    result['gradient'] = {{name: numbers(f.grad) for name, f in {{{with_grad}}}.items()}}"
    yield "except Exception as error:"
    yield "    result['error'] = f'{type(error).__name__}: {error}'"
    yield "print(json.dumps(result))"
    yield ""
