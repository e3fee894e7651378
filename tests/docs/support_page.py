"""Write docs/support.md by compiling kernels for each backend:  python tests/docs/support_page.py

The page is never edited by hand: a test fails if it differs from what this module generates. For each cell, the module
asks a backend whether it supports an operation or a statement of the text tests, in each of its types.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
if str(_TESTS) not in sys.path:
    sys.path.append(str(_TESTS))

from spirv_support import kernel_texts  # noqa: E402
from stackgrad.backends import limits, registry  # noqa: E402
from stackgrad.backends.base import Options  # noqa: E402
from stackgrad.backends.codegen.ops import LLVM  # noqa: E402
from stackgrad.backends.llvm.branching.control import BRANCHING  # noqa: E402
from stackgrad.backends.llvm.branching.statements import LOWER as LLVM_LOWER  # noqa: E402
from stackgrad.backends.spirv.ops import SPIRV  # noqa: E402
from stackgrad.backends.spirv.shaders import generate  # noqa: E402
from stackgrad.backends.spirv.statements import LOWER as SPIRV_LOWER  # noqa: E402
from stackgrad.backends.vulkan.backend import CAPABILITIES  # noqa: E402
from stackgrad.compiler.ir.kernels import Kernel, Task  # noqa: E402
from stackgrad.compiler.ir.nodes import STATEMENTS  # noqa: E402
from stackgrad.compiler.ir.nodes import Op as OpStatement  # noqa: E402
from stackgrad.compiler.ir.ops import OPS, OpInfo  # noqa: E402
from stackgrad.compiler.ir.parser import parse_kernel  # noqa: E402
from stackgrad.compiler.ir.roles import BLOCKS  # noqa: E402
from stackgrad.compiler.ir.statement import Stmt  # noqa: E402
from stackgrad.compiler.ir.types import SCALARS, Scalar, u1  # noqa: E402
from stackgrad.compiler.ir.walk import map_blocks, results, walk_kernel  # noqa: E402
from stackgrad.reference.launch import run  # noqa: E402
from stackgrad.reference.machine import RUN  # noqa: E402
from stackgrad.reference.scalar import NUMPY  # noqa: E402

PAGE = _TESTS.parent / "docs" / "support.md"
assert run, "what it imports fills the table of the reference"

FOLDERS = ("statements", "ad")

HEAD = """\
# What each backend supports

One row for each operation and each statement. The page is generated: every operation in each of its types, and every
statement of the kernels under `tests/statements/` and `tests/ad/`, was given to each backend. After a change of a
generator or of a limit, run `python tests/docs/support_page.py`; a test fails while the page says something else.

*yes*: in every type. *not T*: refused in type T, before anything runs, with the statement and its line. *partly T*:
some of them are. *no*: refused. The reasons stand below; what to write instead is in the message.
"""

NEEDS = """\
A Vulkan device may lack what these types need. There a kernel with them is refused with the statement that needs it:

| types | feature |
|---|---|
{rows}
"""
ABSENT = {"amdgpu": "There is no generator for GPUs of AMD in this version; Vulkan runs there."}
"""Columns that people look for."""


@dataclass(frozen=True)
class Column:
    """One backend: its name in `LIMITS`, and a function that says if it lacks an entry for a key."""

    name: str
    limit: str
    lacks: Callable[[object], bool]


def _in_llvm(key: object) -> bool:
    """Return True if LLVM has code for a key, or if a pass turns such statements into others before."""
    return key in LLVM or key in LLVM_LOWER or key in BRANCHING or key in BLOCKS


def _in_spirv(key: object) -> bool:
    """Return True if SPIR-V has code for a key, or if a pass removes such statements before."""
    removed = SPIRV_LOWER.holes.get(key, "").startswith("lower_exits")  # type: ignore[call-overload]
    return key in SPIRV or key in SPIRV_LOWER or removed or key in BLOCKS


LACKS: dict[str, Callable[[object], bool]] = {
    "reference": lambda key: key not in NUMPY and key not in RUN,
    "llvm": lambda key: not _in_llvm(key),
    "spirv": lambda key: not _in_spirv(key),
}
"""By the tables that a backend's code is made of: whether they have no row for a key."""
COLUMNS = tuple(Column(name, found.limits, LACKS[found.code]) for name, found in registry.BACKENDS.items())

# ---- cells --------------------------------------------------------------------------------------------------------

Instances = Mapping[str, Sequence[Stmt]]
"""Statements by type, "" if they have none."""


@dataclass(frozen=True)
class Cell:
    """The support of a key by one backend: reasons by type for refusing it, wholly or partly, and all types."""

    refused: Mapping[str, str]
    partly: Mapping[str, str]
    types: int
    lacks: bool = False

    @property
    def reasons(self) -> list[str]:
        return [*self.refused.values(), *self.partly.values()]

    def __str__(self) -> str:
        if self.lacks or (self.types and len(self.refused) == self.types):
            return "no"
        parts = [f"{word} {', '.join(of)}" for word, of in (("not", self.refused), ("partly", self.partly)) if of]
        return "; ".join(parts) or "yes"


def cell(column: Column, key: object, instances: Instances) -> Cell:
    """Return the cell of a key, from its statements of each type; a type that cannot be loaded is refused."""
    refused, partly = {}, {}
    for name, some in instances.items():
        if without := name and refusal(column.limit, load_of(name)):
            refused[name] = without
            continue
        reasons = [reason for reason in (refusal(column.limit, stmt) for stmt in some) if reason]
        if reasons:
            (refused if len(reasons) == len(some) else partly)[name] = reasons[0]
    return Cell(refused, partly, len(instances), column.lacks(key))


def refusal(limit: str, stmt: Stmt) -> str:
    """Return why a backend refuses a statement without its nested blocks, or "" if it does not."""
    alone = Task((map_blocks(stmt, lambda block: ()),))
    return next((row.reason for row in limits.LIMITS if row.backend == limit and row.find(alone) is not None), "")


@cache
def load_of(t: str) -> Stmt:
    """Return a statement that loads a value of a type."""
    kernel = parse_kernel(f"kernel k(x: {t}[1]) {{ serial {{ %0: i32 = const 0 %1: {t} = load x[%0] }} }}")
    return kernel.tasks[0].body[-1]


def operand_types(op: OpInfo, t: Scalar) -> tuple[Scalar, ...] | None:
    """Return types of operands that the operation accepts, made of one type, or None if there are none."""
    for types in ((t,) * op.arity, (u1, *(t,) * (op.arity - 1))):
        if op.types(types) is not None and (op.arity == 3) == (types[0] == u1 != t or op.arity == 3 and t == u1):
            return types
    return None


def kernel_of(name: str, types: Sequence[Scalar]) -> Kernel:
    """Return a kernel of one operation on operands of these types."""
    op = OPS[name]
    params = ", ".join(f"x{k}: {t}[1]" for k, t in enumerate(types))
    loads = " ".join(f"%{k}: {t} = load x{k}[%9]" for k, t in enumerate(types))
    result, operands = op.types(tuple(types)), ", ".join(f"%{k}" for k in range(op.arity))
    return parse_kernel(
        f"kernel k({params}, y: {result}[1]) {{ serial {{ %9: i32 = const 0 {loads} "
        f"%8: {result} = {name} {operands} store y[%9], %8 }} }}"
    )


def instances_of_operation(name: str) -> Instances:
    """Return the statements of an operation for every type that it accepts."""
    found = {t.name: types for t in SCALARS.values() if (types := operand_types(OPS[name], t))}
    return {
        t: [s for s in walk_kernel(kernel_of(name, types)) if isinstance(s, OpStatement)] for t, types in found.items()
    }


@cache
def text_kernels() -> list[Kernel]:
    """Return the kernels of all text tests of statements."""
    return [parse_kernel(text) for folder in FOLDERS for _, text in kernel_texts(folder)]


def type_of(stmt: Stmt) -> str:
    """Return the type that a statement defines, holds or reads."""
    made = [value.type for value in results(stmt)]
    taken = getattr(stmt, "dtype", None) or getattr(getattr(stmt, "value", None), "type", None)
    return str(made[0] if made else taken or "")


def instances_of_statement(cls: type[Stmt]) -> Instances:
    """Return the statements of a class in the text tests, by type."""
    found: dict[str, list[Stmt]] = {}
    for kernel in text_kernels():
        for stmt in walk_kernel(kernel):
            if type(stmt) is cls:
                found.setdefault(type_of(stmt), []).append(stmt)
    return {t: found[t] for t in [*SCALARS, ""] if t in found}


# ---- the page -----------------------------------------------------------------------------------------------------


def rows() -> Iterator[tuple[str, str, dict[str, Cell]]]:
    """Yield (kind, key, cells by column) for each row of the page."""
    for name in OPS:
        kernels = instances_of_operation(name)
        yield "operation", name, {c.name: cell(c, name, kernels) for c in COLUMNS}
    for name, cls in STATEMENTS.items():
        of_statement = instances_of_statement(cls)
        yield "statement", name, {c.name: cell(c, cls, of_statement) for c in COLUMNS}


def capabilities() -> dict[str, list[str]]:
    """Return the scalar types by the Vulkan device feature that arrays of them need."""
    found: dict[str, list[str]] = {}
    for t in SCALARS.values():
        text = f"kernel k(x: {t}[1]) {{ serial {{ %0: i32 = const 0 %1: {t} = load x[%0] store x[%0], %1 }} }}"
        for capability in generate(parse_kernel(text), Options()).capabilities:
            if capability in CAPABILITIES:
                types = found.setdefault(CAPABILITIES[capability], [])
                types += [t.name] * (t.name not in types)
    return found


def text() -> str:
    """Return the text of the whole page."""
    columns = [*(c.name for c in COLUMNS), *ABSENT]
    made, reasons = list(rows()), {}
    parts = [HEAD]
    for kind, title in (("operation", "Operations"), ("statement", "Statements")):
        parts += [f"## {title}\n", f"| {kind} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        for of_kind, key, cells in made:
            if of_kind == kind:
                parts.append(f"| `{key}` | {' | '.join([*map(str, cells.values()), *('no' for _ in ABSENT)])} |")
                reasons |= {(c, why): None for c, found in cells.items() for why in found.reasons}
        parts.append("")
    parts.append("## Why\n")
    parts += [f"* {column}: {why}" for column, why in [*sorted(reasons), *ABSENT.items()]]
    parts += ["", NEEDS.format(rows="\n".join(f"| {', '.join(ts)} | `{f}` |" for f, ts in capabilities().items()))]
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
