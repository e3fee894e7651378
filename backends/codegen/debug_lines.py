"""This module adds debug information to LLVM IR, which maps machine code to the lines of the user's program.

Each function of a kernel has a subprogram, and each instruction the place of the statement that it was made for.
Invariant: in a module with lines, every instruction of a function with a subprogram has a place, as LLVM demands of
calls; where the kernel has no span for a statement, the place is the line of the function.
"""

from __future__ import annotations

import os

from ...compiler.errors import Span
from ...compiler.ir.kernels import Kernel
from ...compiler.ir.walk import walk_task
from . import ir

_FIRST = 1
"""Number of the first node; those below belong to the module."""


class DebugLines(ir.Lines):
    """Represent the debug metadata nodes of one LLVM module; nodes with the same text share one number."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._nodes: dict[str, int] = {}
        self._scopes: dict[ir.LLVMFunction, tuple[int, Span]] = {}
        self._places: dict[tuple[ir.LLVMFunction, int], str] = {}
        first = next((span for span in kernel.locations if span), Span("<kernel given as IR text>", 0))
        file = self._file(first)
        unit = (
            f'distinct !DICompileUnit(language: DW_LANG_Python, file: !{file}, producer: "stackgrad", '
            "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)"
        )
        self._first, self._unit = first, self._node(unit)
        self._type = self._node(f"!DISubroutineType(types: !{self._node('!{}')})")

    def enter(self, function: ir.LLVMFunction, task: int | None) -> None:
        """Attach a DISubprogram to the function of a task, or of the whole kernel if `task` is None."""
        span = self._head(task)
        title = self.kernel.name if task is None else f"{self.kernel.name}, task {task}"
        file = self._file(span)
        scope = self._node(
            f'distinct !DISubprogram(name: "{title}", linkageName: {_quoted(function.ref[1:])}, scope: !{file}, '
            f"file: !{file}, line: {span.line}, scopeLine: {span.line}, type: !{self._type}, unit: !{self._unit}, "
            "spFlags: DISPFlagDefinition | DISPFlagOptimized)"
        )
        self._scopes[function] = scope, span
        function.scope = f" !dbg !{scope}"
        self.at(function, 0)

    def at(self, function: ir.LLVMFunction, loc: int) -> None:
        """Set the source location of all instructions appended to the function from now on; 0 means none."""
        if function in self._scopes:
            known = self._places.get((function, loc))
            if known is None:
                known = self._places[function, loc] = self._place(function, self.kernel.span(loc))
            function.mark = known

    def text(self) -> str:
        """Return the debug metadata as text: the named nodes, then the numbered nodes in order."""
        flags = [self._node(f'!{{i32 {merge}, !"{name}", i32 {number}}}') for merge, name, number in _FLAGS]
        lines = [f"!{number} = {text}" for text, number in self._nodes.items()]
        listed = ", ".join(f"!{number}" for number in flags)
        return "\n".join([f"!llvm.dbg.cu = !{{!{self._unit}}}", f"!llvm.module.flags = !{{{listed}}}", *lines, ""])

    def _head(self, task: int | None) -> Span:
        """Return the source span of a function: the loop of its task, or the kernel's first span if `task` is None."""
        if task is None:
            return self._first
        node = self.kernel.tasks[task]
        locs = [node.loc, *(stmt.loc for stmt in walk_task(node))]
        return next((span for span in map(self.kernel.span, locs) if span), self._first)

    def _place(self, function: ir.LLVMFunction, span: Span | None) -> str:
        scope, head = self._scopes[function]
        found = span or head
        # The statement comes from a function of another file, inlined by the compiler.
        if found.file != head.file:
            scope = self._node(f"!DILexicalBlockFile(scope: !{scope}, file: !{self._file(found)}, discriminator: 0)")
        column = found.column + 1 if span else 0
        node = self._node(f"!DILocation(line: {found.line}, column: {column}, scope: !{scope})")
        return f", !dbg !{node}"

    def _file(self, span: Span) -> int:
        whole = os.path.abspath(span.file) if os.path.exists(span.file) else span.file
        return self._node(f'!DIFile(filename: {_quoted(whole)}, directory: "")')

    def _node(self, text: str) -> int:
        return self._nodes.setdefault(text, len(self._nodes) + _FIRST)


_FLAGS = ((2, "Debug Info Version", 3), (7, "Dwarf Version", 4))
"""Flags of the module: (how modules that are linked agree, name, number)."""


def _quoted(text: str) -> str:
    """Return text as a string literal of LLVM IR; bytes that are not printable are written in hexadecimal."""
    plain = text.strip('"')
    return (
        '"'
        + "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in plain.encode())
        + '"'
    )
