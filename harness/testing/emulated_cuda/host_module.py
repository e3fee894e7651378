"""This module compiles LLVM code for the CPU and loads it. Deletion of a `HostModule` frees its code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count

import llvmlite.binding as llvm

from ....backends.host.jit import machine
from ....backends.llvm.compiler_lock import LOCK
from ....backends.llvm.optimize import initialize, optimize, parse

_NUMBERS = count()


@cache
def _linker() -> llvm.LLJIT:
    initialize()
    return llvm.create_lljit_compiler(use_jit_link=True)


class HostModule:
    """A `HostModule` is loaded machine code; `addresses` maps the names of its exported functions to addresses."""

    def __init__(self, text: str, exports: Sequence[str], effort: int = 0) -> None:
        """Compile LLVM code, link it, and load it.

        Raises:
            Refused: LLVM does not accept the text.
            RuntimeError: the linker does not find a symbol.
        """
        with LOCK:
            owner = machine(effort)
            module = parse(text, owner.triple, str(owner.target_data))
            optimize(module, owner, effort)
            builder = llvm.JITLibraryBuilder().add_object_img(owner.emit_object(module)).add_current_process()
            for name in exports:
                builder = builder.export_symbol(name)
            self._library = builder.link(_linker(), f"emulated.{next(_NUMBERS)}")
            self.addresses: dict[str, int] = {name: self._library[name] for name in exports}
