"""Write docs/ir_reference.md from the tables of the IR:  python tests/docs/ir_page.py

The page is never edited by hand: a test fails if it is not what this module makes.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import stackgrad
from stackgrad.compiler import driver
from stackgrad.compiler.ir.nodes import STATEMENTS
from stackgrad.compiler.ir.ops import OPS, OpInfo
from stackgrad.compiler.ir.stages import STAGES
from stackgrad.compiler.ir.types import INTEGERS, REALS, SCALARS, Scalar, u1

PAGE = Path(__file__).resolve().parents[2] / "docs/ir_reference.md"
HEAD = """\
# IR reference

Every type, operation, statement, stage and pass of the IR, from the tables that define them. The page is made by
`python tests/docs/ir_page.py`; a test fails while it says something else. What a kernel means is told in
[ir.md](ir.md), how one is differentiated in [reverse_mode.md](reverse_mode.md), and how to add a row in
[recipes.md](recipes.md).
"""
SETS = {"reals": REALS, "integers": INTEGERS, "numbers": (*REALS, *INTEGERS), "bits": (*INTEGERS, u1)}
"""Names of sets of types; all of them together are `any`."""
KINDS = {
    "smooth": "differentiable wherever it is safe to compute",
    "kinked": "differentiable except at isolated points",
    "flat": "its derivative is zero wherever it exists",
    "opaque": "no derivative: integers, booleans, bits",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown. Bars within cells are escaped."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def set_name(types: Iterable[Scalar]) -> str:
    """Return the name of a set of types."""
    members = set(types)
    if members == set(SCALARS.values()):
        return "any"
    named = [name for name, known in SETS.items() if set(known) == members]
    return named[0] if named else ", ".join(f"`{kind.name}`" for kind in SCALARS.values() if kind in members)


def signature(op: OpInfo) -> tuple[str, str]:
    """Return what an operation takes and what it gives, found by asking its rule for all types.

    Raises:
        ValueError: the operation takes neither operands of one type, nor a condition followed by such operands.
    """
    found = []
    forms: list[tuple[str, Scalar | None]] = [("{}", None), *([("`u1`, then {}", u1)] if op.arity > 1 else [])]
    for mark, first in forms:
        asked = ((kind, op.types((first or kind, *[kind] * (op.arity - 1)))) for kind in SCALARS.values())
        found.append((mark, [(taken, given) for taken, given in asked if given is not None]))
    mark, pairs = max(found, key=lambda entry: len(entry[1]))  # the first one if both take as many
    if not pairs:
        raise ValueError(f"{op.name} takes no operands that this page tries")
    given = "the same" if all(given == taken for taken, given in pairs) else set_name(given for _, given in pairs)
    return mark.format(set_name(taken for taken, _ in pairs)), given


def operations() -> str:
    """Return the section about operations."""
    rows = []
    for op in OPS.values():
        takes, gives = signature(op)
        accuracy = "exact" if op.ulps == 0 else "rounded" if op.ulps == 0.5 else f"{op.ulps:g} ulps"
        edges = f"{op.edges} May trap." if op.traps else op.edges
        rows.append((f"`{op.name}`", str(op.arity), takes, gives, op.kind, accuracy, edges))
    head = ("name", "operands", "types", "result", "kind", "accuracy", "edge cases")
    kinds = "".join(f"* *{kind}*: {text}.\n" for kind, text in KINDS.items())
    return (
        "## Operations\n\nOperands of one operation have one type. What an operation computes is its row in\n"
        "`reference/scalar.py`, its derivative the row in `compiler/ad/rules.py`. Kinds of operations:\n\n"
        f"{kinds}\n*Accuracy* is what results may differ by, in f32 and f64, where they need not be precise.\n\n"
        f"{table(head, rows)}"
    )


def statements() -> str:
    """Return the section about statements."""
    rows = []
    for name, cls in STATEMENTS.items():
        stages = [stage.name for stage in STAGES.values() if cls in stage.statements]
        where = "all" if len(stages) == len(STAGES) else ", ".join(f"`{stage}`" for stage in stages)
        rows.append((f"`{name}`", f"`{cls.FORM}`", where, first_paragraph(cls)))
    note = "Parts between `<` and `>` may be left out; `{}` in a form stands for a part that differs.\n\n"
    return f"## Statements\n\n{note}{table(('class', 'form', 'stages', 'meaning'), rows)}"


def first_paragraph(value: object) -> str:
    """Return the first paragraph of a docstring on one line, with names of code as they are."""
    paragraph = (inspect.getdoc(value) or "").split("\n\n")[0]
    return re.sub(r"\s+", " ", paragraph)


def stages() -> str:
    """Return the section about stages."""
    rows = []
    for stage in STAGES.values():
        missing = [name for name, cls in STATEMENTS.items() if cls not in stage.statements]
        without = ", ".join(f"`{name}`" for name in missing) or "nothing"
        rows.append((f"`{stage.name}`", without, "yes" if stage.crossing else "no", "yes" if stage.gradients else "no"))
    head = ("stage", "has no", "values cross tasks", "`x.grad` names adjoints")
    return f"## Stages\n\nThe verifier holds a kernel to its stage before and after each pass.\n\n{table(head, rows)}"


def passes() -> Iterator[str]:
    """Yield the sections about pipelines."""
    pipelines = {
        "Passes of a forward kernel": driver.FORWARD,
        "Passes before a kernel is differentiated": driver.BEFORE_REVERSE,
        "Passes that tidy": driver.TIDY,
    }
    for title, pipeline in pipelines.items():
        rows = [(f"`{name}`", first_paragraph(function)) for name, function in pipeline]
        yield f"## {title}\n\nIn this order.\n\n{table(('pass', 'what it does'), rows)}"


def types() -> str:
    """Return the section about types."""
    rows = [
        (f"`{kind.name}`", "real" if kind.is_real else "truth value" if kind.is_bool else "integer", str(kind.bits))
        for kind in SCALARS.values()
    ]
    return f"## Types\n\n{table(('name', 'kind', 'bits'), rows)}"


def text() -> str:
    """Return the page."""
    return "\n".join([HEAD, types(), operations(), statements(), stages(), *passes()])


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    print(f"{PAGE} written, of stackgrad {stackgrad.__version__}", file=sys.stderr)
