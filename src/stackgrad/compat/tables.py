"""This module lists the places of those names of the peers that have another name in stackgrad.

Each place is written "MODULE:NAME" with a module relative to `stackgrad`.
"""

from __future__ import annotations

HOMES: dict[str, tuple[str, ...]] = {
    "": (".compat.toplevel", ""),
    "_lib.core": (".compat.core",),
    "_kernels": (".compat.copies", ".compat.toplevel", ""),
    "_logging": (".compat.logs", ""),
    "ad": (".ad",),
    "algorithms": (".compat.algorithms",),
    "experimental": (),
    "graph": (),
    "interop": (),
    "lang": (".compat.toplevel", ""),
    "lang.exception": (),
    "lang.graph": (".compat.graphs",),
    "lang.impl": (".compat.impl", ".compat.toplevel", ""),
    "lang.simt": (),
    "lang.simt.block": (".compat.simt.block",),
    "lang.simt.grid": (".compat.simt.grid",),
    "lang.simt.subgroup": (".compat.simt.subgroup",),
    "lang.simt.warp": (".compat.simt.warp",),
    "lang.snode": (".data.snodes", ".compat.toplevel", ""),
    "lang.util": (".compat.util", ".compat.toplevel", ""),
    "linalg": (".linalg",),
    "math": (".math", ".compat.bits"),
    "profiler": (".compat.profiler",),
    "sparse": (),
    "tools": (".compat.tools",),
    "types": (".types", ".data.primitive_types", ".compat.annotations"),
    "types.enums": (".compat.toplevel", ""),
    "ui": (),
    "aot": (),
}
"""The modules that are searched for the names of a module of a peer, in this order; "" is `stackgrad` itself.

A module without a row is searched as the one around it.
"""

RENAMED: dict[str, str] = {
    "SNode": ".data.snodes:SNode",
    "SNodeTree": ".data.snodes:SNodeTree",
    "Tape": ".ad:Tape",
    "global_thread_idx": ".compat.simt.block:global_thread_idx",
    "clear_all_gradients": ".ad:clear_all_gradients",
    "complex_kernel": ".ad:grad_replaced",
    "complex_kernel_grad": ".ad:grad_for",
    "no_grad": ".ad:no_grad",
    "any_arr": ".types:ndarray",
    "ext_arr": ".types:ndarray",
    "NdarrayType": ".types:NdarrayMaker",
    "BufferViewType": ".data.views:BufferView",
    "MatrixType": ".types:MatrixSpec",
    "VectorType": ".types:MatrixSpec",
    "StructType": ".types:StructSpec",
    "SNodeGradType": ".ad:SNodeGradType",
    "cfg": ".compat.impl:configuration_or_none",
    "get_runtime": ".compat.impl:get_runtime",
    "set_gdb_trigger": ".compat.logs:set_gdb_trigger",
    "lang.impl.root": ".data.snodes:root",
}
"""Names whose value has another name or another home in stackgrad, by full path, or by name for every module."""

ERRORS: dict[str, str] = {
    "AssertionError": ".compiler.errors:CheckError",
    "CompilationError": ".compiler.errors:LocatedError",
    "IndexError": ".compiler.errors:KernelIndexError",
    "NameError": ".compiler.errors:KernelNameError",
    "RuntimeError": ".compiler.errors:ExecutionError",
    "RuntimeTypeError": ".compiler.errors:CallError",
    "SyntaxError": ".compiler.errors:KernelSyntaxError",
    "TypeError": ".compiler.errors:KernelTypeError",
}
"""The exceptions, by the name that follows `Quadrants` or `Taichi`: the class that stackgrad raises in such cases."""

PASSING: dict[str, tuple[str, ...]] = {"cfg": ("", "lang")}
"""Names whose value may differ at each look-up, with the modules that have them; the value is a function."""
