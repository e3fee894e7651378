"""This module reads the syntax tree of a Python function, with the positions that its nodes have in the file.

An indented function is parsed under an added line `if True:` and never dedented, so that columns stay correct and
strings over several lines keep their text.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from tokenize import TokenError
from types import CellType, CodeType, FunctionType
from typing import Any

from ..errors import KernelSyntaxError, Span
from .source_check import imported_names, is_text_of

MISSING = object()

FUNCTIONS = 4096
"""Number of functions whose sources are kept: a large program inlines some of them thousands of times."""

_POSITION = ("lineno", "col_offset", "end_lineno", "end_col_offset")


@dataclass(frozen=True)
class FunctionSource:
    """A `FunctionSource` is the source text and the syntax tree of one function, with file and line.

    Attributes:
        file: name of the file.
        first_line: number of the first line of the function in the file.
        lines: lines of the function.
        tree: the tree; line numbers are those of the file, and columns are counted in UTF-8 bytes.
        spans: source locations that were asked for before, by position. The nodes themselves are not kept, because a
            trace makes some of them anew.
    """

    file: str
    first_line: int
    lines: tuple[str, ...]
    tree: ast.FunctionDef
    spans: dict[tuple[Any, ...], Span] = field(default_factory=dict, compare=False, repr=False)

    def span(self, node: ast.AST) -> Span:
        """Return the source location of a syntax node; if the node spans several lines, only the first is marked."""
        place = tuple([getattr(node, name, None) for name in _POSITION])
        found = self.spans.get(place)
        if found is None:
            found = self.spans[place] = self._span(node)
        return found

    def _span(self, node: ast.AST) -> Span:
        """Return the source location of a syntax node at a position that was not asked for before."""
        line = getattr(node, "lineno", self.first_line)
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0) or 0
        index = line - self.first_line
        text = self.lines[index].rstrip("\n") if 0 <= index < len(self.lines) else ""
        if getattr(node, "end_lineno", line) != line:
            end = len(text.encode())
        return Span(self.file, line, _characters(text, start), _characters(text, end), text)

    def text(self, node: ast.AST) -> str:
        """Return the source text of a syntax node in the canonical style of `ast.unparse`."""
        return ast.unparse(node)


def _characters(text: str, offset: int) -> int:
    """Return the number of characters in the first `offset` bytes of the UTF-8 text."""
    return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))


def read_source(function: Any) -> FunctionSource:
    """Return the source text and the syntax tree of a plain Python function, with its file and line.

    Raises:
        KernelSyntaxError: there is no source that can be parsed.
    """
    if not isinstance(function, FunctionType):
        raise KernelSyntaxError(
            f"a kernel is made of a Python function, not of {type(function).__name__!r}",
            "decorate a function written with `def`",
        )
    code = function.__code__
    if function.__name__ == "<lambda>":
        raise KernelSyntaxError("a lambda cannot be a kernel or a function of one", "write it with `def`", _place(code))
    return _read(code, code.co_filename, function.__name__, _is_rewritten(function), text_of(code))


def _is_rewritten(function: FunctionType) -> bool:
    """Return True if an import hook other than pytest's may have changed the code of a function."""
    kind = type(function.__globals__.get("__loader__"))
    known = kind.__module__.startswith(("importlib", "_frozen_importlib", "zipimport", "builtins"))
    return not known and kind.__name__ != "AssertionRewritingHook"


def _place(code: CodeType) -> Span:
    text = linecache.getline(code.co_filename, code.co_firstlineno).rstrip("\n")
    return Span(code.co_filename, code.co_firstlineno, len(text) - len(text.lstrip()), len(text), text)


@dataclass(frozen=True, eq=False)
class _Compiled:
    """A `_Compiled` is the key of a cache by code object; unlike code objects, keys are compared by identity.

    Two code objects of different text may be equal, because Python compares no annotations of locals.
    """

    code: CodeType

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Compiled) and other.code is self.code

    def __hash__(self) -> int:
        return id(self.code)


def text_of(code: CodeType) -> tuple[str, ...]:
    """Return the lines from which a code object was compiled, as far as they were known when they were first asked for.

    The text is needed beside the code: if a module is loaded anew, its code objects may be equal although the text
    differs, because the annotations of locals are not part of the code.
    """
    return _text_of(_Compiled(code))


@lru_cache(maxsize=FUNCTIONS)
def _text_of(key: _Compiled) -> tuple[str, ...]:
    code = key.code
    if _first_of(code, code.co_filename) is not code:  # The file was compiled again, and may have changed before.
        linecache.checkcache(code.co_filename)
    last = max((line or 0 for _, _, line in code.co_lines()), default=0)
    return tuple(linecache.getlines(code.co_filename)[code.co_firstlineno - 1 : last])


@lru_cache(maxsize=FUNCTIONS)
def _first_of(code: CodeType, file: str) -> CodeType:
    """Return the code object with which this cached function was first called, among equal ones of a file.

    If the result is another object than `code`, the file was compiled again and may have changed.
    """
    return code


@lru_cache(maxsize=FUNCTIONS)
def _read(code: CodeType, file: str, name: str, is_rewritten: bool, text: tuple[str, ...]) -> FunctionSource:
    """Return the source of a function, read from `linecache` and, if that text is outdated, from the file again.

    The text in `linecache` may be older than the file, and then belongs to the code. The result is cached; `text` is an
    argument so that equal code objects of different texts have different results.
    """
    known = linecache.cache.get(file)
    try:
        return _found(code, name, is_rewritten)
    except KernelSyntaxError:
        # A second attempt makes sense only if the file gives another text than the cached one.
        linecache.checkcache(file)
        if linecache.cache.get(file) is known or known is None:
            raise
    return _found(code, name, is_rewritten)


def _found(code: CodeType, name: str, is_rewritten: bool) -> FunctionSource:
    """Return the definition from which the code was compiled, at its line or elsewhere in the file if it moved."""
    try:
        source = _at_its_line(code, name)
        if is_text_of(source.tree, code, is_rewritten, partial(_imports, code.co_filename)):
            return source
        problem = _changed(code, name)
    except KernelSyntaxError as error:
        problem = error
    moved = _elsewhere(code, is_rewritten)
    if moved is None:
        raise problem
    return moved


_CHANGED = "the file changed after it was imported: run the program again, or reload the module"


def _changed(code: CodeType, name: str) -> KernelSyntaxError:
    return KernelSyntaxError(
        f"the text at line {code.co_firstlineno} of {code.co_filename} is not what `{name}` was compiled from",
        _CHANGED,
        _place(code),
    )


def _module(file: str) -> ast.Module:
    """Return the tree of a whole file, or an empty one if the file cannot be parsed."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _imports(file: str) -> set[str]:
    return imported_names(_module(file))


def _elsewhere(code: CodeType, is_rewritten: bool) -> FunctionSource | None:
    """Return the definition that compiles to the code, wherever it is in the file now, or None if there is none."""
    module, lines = _module(code.co_filename), linecache.getlines(code.co_filename)
    names = imported_names(module)
    for node in ast.walk(module):
        if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
            continue
        if is_text_of(node, code, is_rewritten, lambda: names):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return FunctionSource(code.co_filename, first, tuple(lines[first - 1 : node.end_lineno]), node)
    return None


def _at_its_line(code: CodeType, name: str) -> FunctionSource:
    """Return the definition that is now at the line from which the code was compiled."""
    try:
        found, first_line = _source_lines(code)
    except (OSError, TypeError, IndexError) as error:
        raise KernelSyntaxError(*_no_source(code, name), _place(code)) from error
    # The lines from there on end in the middle of a statement.
    except (SyntaxError, TokenError) as error:
        raise _changed(code, name) from error
    lines = tuple(found)
    # Empty lines make the parser count lines as in the file.
    above = "\n" * (first_line - 1)
    if lines[0][:1] in " \t":
        above = above[:-1] + "if True:\n"
    try:
        module = ast.parse(above + "".join(lines))
    except SyntaxError as error:
        raise KernelSyntaxError(
            f"the source found for `{name}` does not parse on its own: {error.msg}",
            "write the function as a statement of its own lines",
            _place(code),
        ) from error
    return FunctionSource(code.co_filename, first_line, lines, _definition(module, code, name))


def _source_lines(code: CodeType) -> tuple[list[str], int]:
    """Return the lines of a function and the number of the first line.

    If `linecache` has the file, no module is searched for.
    """
    below = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    if not below:
        return inspect.getsourcelines(code)
    return inspect.getblock(below), code.co_firstlineno


def _no_source(code: CodeType, name: str) -> tuple[str, str]:
    reason = f"the source of `{name}` is not available: kernels are compiled from their Python text"
    if code.co_filename.startswith("<stdin"):
        return reason, "put it into a file, use a notebook or IPython, or Python 3.13, whose prompt keeps the text"
    if code.co_filename.startswith("<"):
        return reason, "put it into a file, or register the text given to exec() in `linecache.cache`"
    return reason, f"make {code.co_filename} readable where the kernel is first called"


def _definition(module: ast.Module, code: CodeType, name: str) -> ast.FunctionDef:
    """Return the definition in a module that begins, decorators included, at the first line of the code."""
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            if isinstance(node, ast.AsyncFunctionDef):
                raise KernelSyntaxError("a kernel cannot be asynchronous", "write `def` alone", _place(code))
            return node
    raise KernelSyntaxError(
        f"the text at line {code.co_firstlineno} of {code.co_filename} does not define `{name}`", _CHANGED, _place(code)
    )


def outer_name(function: FunctionType, name: str) -> Any:
    """Return the object that a free name denotes now, in closure, module or builtins, or MISSING if there is none."""
    if name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
        return cell_content(cell)
    if name in function.__globals__:
        return function.__globals__[name]
    return getattr(builtins, name, MISSING)


def outer_names(function: FunctionType) -> list[str]:
    """Return all names defined in closure, module and builtins of a function, for suggestions in messages."""
    return [*function.__code__.co_freevars, *function.__globals__, *dir(builtins)]


def annotation_of(function: FunctionType, name: str) -> Any:
    """Return the annotation of a parameter, or of 'return'; None if it has no annotation.

    An annotation that cannot be evaluated is returned as text.
    """
    found: Any = function.__annotations__.get(name)
    # A quoted annotation in a module that keeps annotations as text must be evaluated twice.
    for _ in range(2):
        if isinstance(found, str):
            names = dict(zip(function.__code__.co_freevars, (cell_content(c) for c in function.__closure__ or ())))
            try:
                found = eval(found, function.__globals__, names)
            except Exception:
                return found.strip("'\"")
    return found


def cell_content(cell: CellType) -> Any:
    """Return the object in a cell of a closure, or MISSING if the cell is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


@lru_cache(maxsize=FUNCTIONS)
def condition_nodes(tree: ast.AST) -> frozenset[ast.AST]:
    """Return the expressions whose truth alone matters: tests, and operands of `not`, `and`, `or` within tests."""
    found: set[ast.AST] = set()
    for node in _nodes(tree):
        if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            found.add(node.test)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            found.add(node.operand)
        elif isinstance(node, ast.BoolOp) and node in found:
            found.update(node.values)
    return frozenset(found)


@lru_cache(maxsize=64)
def _nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return every node of a syntax tree, parents before children."""
    return tuple(ast.walk(tree))


@lru_cache(maxsize=FUNCTIONS)
def local_names(code: CodeType, tree: ast.FunctionDef) -> Mapping[str, int]:
    """Return the names that Python itself treats as local to a function, each with the line that first assigns it.

    Indices of comprehensions are not among them, although some versions of Python list them too.
    """
    inside = {p for c in _nodes(tree) if isinstance(c, ast.comprehension) for p in ast.walk(c.target)}
    stores = [p for p in _nodes(tree) if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)]
    lines: dict[str, int] = {}
    for node in stores:
        if node not in inside:
            lines[node.id] = min(node.lineno, lines.get(node.id, node.lineno))
    taken = lines.keys() | {p.arg for p in ast.walk(tree.args) if isinstance(p, ast.arg)}
    indices = {node.id for node in stores} - taken
    return {name: lines.get(name, tree.lineno) for name in {*code.co_varnames, *code.co_cellvars} - indices}


@lru_cache(maxsize=FUNCTIONS)
def read_names(tree: ast.AST) -> frozenset[str]:
    """Return the names that a function reads anywhere in its body."""
    return frozenset(p.id for p in _nodes(tree) if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Load))


@lru_cache(maxsize=FUNCTIONS)
def has_return(tree: ast.AST) -> bool:
    """Return True if there is a `return` in a function, or in one defined inside it."""
    return any(isinstance(node, ast.Return) for node in _nodes(tree))


@lru_cache(maxsize=FUNCTIONS)
def indexed_names(tree: ast.AST) -> frozenset[str]:
    """Return the variables that a function subscripts with an index that is not fixed by the program text."""
    stored = {p.id for p in _nodes(tree) if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)}
    bound = stored | {p.arg for p in _nodes(tree) if isinstance(p, ast.arg)}
    open_names = bound - _unrolled_names(tree)
    found = set()
    for node in _nodes(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            parts = [p for p in ast.walk(node.slice) if isinstance(p, (ast.Name, ast.Call, ast.Subscript))]
            if any(not isinstance(p, ast.Name) or p.id in open_names for p in parts):
                found.add(node.value.id)
    return frozenset(found)


def _unrolled_names(tree: ast.AST) -> set[str]:
    """Return the target names of loops over `static(...)` and of comprehensions.

    These are numbers while a kernel is traced. Names that are also bound elsewhere are left out.
    """
    unrolled: list[ast.Name] = []
    for node in _nodes(tree):
        static = isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and _is_static(node.iter.func)
        if static or isinstance(node, ast.comprehension):
            unrolled += (p for p in ast.walk(node.target) if isinstance(p, ast.Name))  # type: ignore[attr-defined]
    stored = [p for p in _nodes(tree) if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)]
    other = {p.id for p in stored if not any(p is q for q in unrolled)}
    return {p.id for p in unrolled} - other


def _is_static(function: ast.expr) -> bool:
    return getattr(function, "attr", getattr(function, "id", "")) == "static"
