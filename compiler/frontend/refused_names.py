"""This module lists names and statements that other compilers of the dialect have and stackgrad refuses, with cures.

Invariant: a refused name is one object that can be passed around; every use of it, in a kernel or on the host, raises
one located error. NAMES is the only list of refused names, STATEMENTS the only one of refused statements; a test
compares the page on the dialect with both.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from ..errors import Span, Unsupported
from ..ir.documented import documented


@dataclass(frozen=True)
class Refusal:
    """A `Refusal` says why a name is refused and what to write instead.

    Attributes:
        reason: cause, with `{name}` for the name as the program writes it.
        cure: what to write instead.
    """

    reason: str
    cure: str

    def message(self, name: str) -> str:
        """Return the reason of the refusal for the given name, without a source location."""
        return self.reason.format(name=name)


_SIMT = Refusal(
    "`{name}` is not there: `sg.simt` has blocks, shared arrays, barriers, and subgroups of 32 lanes",
    "docs/blocks.md lists all functions; write others with `sg.simt.subgroup.shuffle` and shared arrays",
)
_TILE = Refusal(
    "`{name}` multiplies tiles with the matrix units of a GPU, which kernels here do not address",
    "write the product as loops over elements, or use `sg.Matrix` locals",
)
_QUANTIZED = Refusal(
    "`{name}`: quantized types are not supported: every element is a whole scalar",
    "use sg.f16, sg.i8 or another scalar type",
)
_SPARSE = Refusal(
    "`{name}`: sparse fields are not supported: every element of a field exists",
    "use a dense field, with a field of flags or an integer field of indices for the active elements",
)
_MESH = Refusal(
    "`{name}`: meshes are not supported", "keep vertices in fields and the connectivity in integer fields, and loop"
)
_WINDOW = Refusal(
    "`{name}`: windows, textures and drawing are not supported", "copy with `to_numpy()` and draw with another package"
)
_DEPLOY = Refusal("`{name}`: modules compiled ahead of time are not supported", "compile when the program runs")
_LINEAR = Refusal(
    "`{name}`: sparse linear algebra on the host is not supported", "use `scipy.sparse` on `to_numpy()` arrays"
)

NAMES: dict[str, Refusal] = {
    "real_func": Refusal(
        "`{name}`: functions that are not inlined are not supported: they would have no derivative",
        "decorate with `@sg.func`, and write a recursion as a loop",
    ),
    "simt": _SIMT,
    "simt.Tile16x16": _TILE,
    "simt.Tile32x32": _TILE,
    "simt.TileNxN": _TILE,
    "Tile16x16": _TILE,
    "no_activate": _SPARSE,
    **dict.fromkeys(("activate", "deactivate", "is_active", "append", "length", "get_addr", "rescale_index"), _SPARSE),
    **dict.fromkeys(("root.pointer", "root.bitmasked", "root.dynamic", "root.hash"), _SPARSE),
    **dict.fromkeys(("deactivate_all_snodes", "sparse_grid"), _SPARSE),
    "types.quant": _QUANTIZED,
    "quant": _QUANTIZED,
    **dict.fromkeys(("root.quant_array", "root.bit_struct", "BitpackedFields"), _QUANTIZED),
    **dict.fromkeys(("Mesh", "MeshInstance", "TetMesh", "TriMesh", "mesh_local", "mesh_patch_idx"), _MESH),
    **dict.fromkeys(("GUI", "ui", "Texture", "tools.video", "tools.image"), _WINDOW),
    "aot": _DEPLOY,
    **dict.fromkeys(("linalg.SparseMatrix", "linalg.SparseMatrixBuilder", "linalg.SparseSolver"), _LINEAR),
    "lang": Refusal(
        "`{name}` reaches into another compiler", "remove it: what programs ask of it there is not needed here"
    ),
}
"""These names, as written after `sg.`, are refused; a row also covers every name below it without a row of its own."""

STATEMENTS: dict[str, tuple[str, str]] = {
    "FunctionDef": ("a function cannot be defined inside a kernel", "define it outside with `@sg.func`"),
    "AsyncFunctionDef": ("a function cannot be defined inside a kernel", "define it outside with `@sg.func`"),
    "ClassDef": ("a class cannot be defined inside a kernel", "define it outside"),
    "Delete": ("a kernel cannot delete names", "leave the name alone: it ends with its block"),
    "AsyncFor": ("a kernel cannot wait", "write a plain `for`"),
    "With": ("`with` is not part of the kernel language", "open the context around the call of the kernel"),
    "AsyncWith": ("`with` is not part of the kernel language", "open the context around the call of the kernel"),
    "Match": ("`match` is not part of the kernel language", "write `if`, `elif`, `else`"),
    "Raise": ("a kernel cannot raise", "write `assert condition, 'message'`"),
    "Try": ("a kernel cannot catch exceptions", "test the condition with `if` before it goes wrong"),
    "TryStar": ("a kernel cannot catch exceptions", "test the condition with `if` before it goes wrong"),
    "Import": ("a kernel cannot import", "import at the top of the file"),
    "ImportFrom": ("a kernel cannot import", "import at the top of the file"),
    "Global": ("a kernel cannot rebind globals", "store to a 0-d field"),
    "Nonlocal": ("a kernel cannot rebind names outside it", "store to a 0-d field"),
    "TypeAlias": ("a kernel cannot define types", "define the alias outside"),
}
"""These statements are refused; each class of the syntax tree has a reason and a cure."""


def refusal_of(name: str) -> Refusal | None:
    """Return the refusal of a name or of its longest refused prefix; None if nothing of the name is refused."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        found = NAMES.get(".".join(parts[:length]))
        if found is not None:
            return found
    return None


@documented(lambda refused: f"Raise `Unsupported` when it is used: {refused.reason}.\n\nInstead, {refused.cure}.")
class RefusedName:
    """A `RefusedName` stands in for a refused function of the package; each of its attributes is refused, too."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.__name__ = f"sg.{name}"

    @property
    def reason(self) -> str:
        """Return the cause of the refusal."""
        return self._row.message(f"sg.{self._name}")

    @property
    def cure(self) -> str:
        """Return a sentence that says what to write instead of the refused name."""
        return self._row.cure

    @property
    def _row(self) -> Refusal:
        found = refusal_of(self._name)
        assert found is not None, self._name
        return found

    def __getattr__(self, attribute: str) -> RefusedName:
        foreign = self._name.partition(".")[0] == "lang" and attribute in ("_template_mapper", "__builtins__")
        if attribute.startswith(("_", "is_stackgrad", "stackgrad_")) and not foreign:
            raise AttributeError(attribute)
        return RefusedName(f"{self._name}.{attribute}")

    # What does not exist is Any: in a program that type checkers read, the error is the name, not what is done with it.
    def __getitem__(self, key: object) -> Any:
        raise Unsupported(self.reason, self.cure, caller_span())

    def __setitem__(self, key: object, value: object) -> None:
        raise Unsupported(self.reason, self.cure, caller_span())

    def __call__(self, *args: object, **keywords: object) -> Any:
        """Raise Unsupported, with the reason, at the line of the program that calls the refused function."""
        raise Unsupported(self.reason, self.cure, caller_span())

    def __instancecheck__(self, value: object) -> bool:
        """Return False: no object is of a class that is refused."""
        return False

    def __repr__(self) -> str:
        return f"<refused sg.{self._name}>"


def refuse(name: str) -> Unsupported:
    """Return the error for a refused name at the line of the user; `name` is what follows `sg.`."""
    made = RefusedName(name)
    return Unsupported(made.reason, made.cure, caller_span())


def caller_span() -> Span | None:
    """Return the source line of the innermost stack frame outside of this package, or None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "stackgrad":
        frame = frame.f_back
    return None if frame is None else _place(frame)


def _place(frame: FrameType) -> Span:
    file, line = frame.f_code.co_filename, frame.f_lineno
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    text = _line(file, line)
    start, end, last, stop = positions[2], positions[3], positions[1], positions[0]
    if start is None or end is None or stop != line:
        return Span(file, line, text=text)
    return Span(file, line, start, end if last == line else len(text), text)


def _line(file: str, line: int) -> str:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    return lines[line - 1] if 0 < line <= len(lines) else ""


def exported_names() -> dict[str, RefusedName]:
    """Return the refused names that are attributes of the package itself."""
    return {
        name: RefusedName(name) for name in sorted({name.partition(".")[0] for name in NAMES}) if name not in _OTHERS
    }


_OTHERS = frozenset(("root", "types", "tools", "linalg", "simt"))
"""These modules and objects exist, and refuse some of their attributes themselves."""
