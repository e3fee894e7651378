"""This module defines the state of one function being traced: its names, its open loops and its returns so far."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FunctionType

from ..errors import Span
from ..ir.statement import Stmt, Value
from .operands import Operand
from .scope import Scopes
from .source import FunctionSource, condition_nodes, indexed_names, local_names, read_names


@dataclass
class LoopFrame:
    """A `LoopFrame` describes a loop being traced: which IR loop or scope its `break` and its `continue` refer to.

    `break_to` and `continue_to` are frame numbers of the IR, counted from the outermost frame; they are None for a
    parallel loop.
    """

    kind: str
    break_to: int | None = None
    continue_to: int | None = None
    broken: bool = False


@dataclass
class ReturnSite:
    """A `ReturnSite` describes a `return` of an inlined function: the operand and the statements that it emits.

    `values` holds the scalar values of the operand if all of them are numbers, else None; `tail` holds the statements
    that store the result and leave the function.
    """

    operand: Operand
    values: tuple[Value, ...] | None
    tail: list[Stmt]
    node: ast.Return


@dataclass
class ElifChain:
    """An `ElifChain` describes a long chain of `elif` that is being split into several shallow nests of `if`.

    After `left` more nested blocks, the code sets the local `name` to true; the `elif` parts that remain move to
    `rest`, a nest of their own that runs if `name` is true.
    """

    name: str
    left: int
    rest: list[ast.stmt] = field(default_factory=list)


@dataclass
class Activation:
    """An activation is one function being traced: the kernel, or a function inlined into it.

    `locals` holds the names that are local in Python, with the lines that first assign them; `read` the names that the
    text reads; `stopped` the arrays under `stop_grad`; `indexed` the names that are indexed by an expression which is
    no constant.
    """

    function: FunctionType
    source: FunctionSource
    is_kernel: bool
    scopes: Scopes = field(default_factory=Scopes)
    loops: list[LoopFrame] = field(default_factory=list)
    return_frame: int = 0
    result_names: tuple[str, ...] = ()
    returns: list[ReturnSite] = field(default_factory=list)
    call_span: Span | None = None
    locals: Mapping[str, int] = field(default_factory=dict)
    conditions: frozenset[ast.AST] = frozenset()
    stopped: frozenset[str] = frozenset()
    indexed: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.locals = local_names(self.function.__code__, self.source.tree)
        self.indexed = indexed_names(self.source.tree)
        self.read = read_names(self.source.tree)
        self.conditions = condition_nodes(self.source.tree)
