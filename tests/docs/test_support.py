"""docs/support.md is current, covers every backend and every key, and what it says is what generators do."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import support_page as page  # noqa: E402
from stackgrad.backends import limits  # noqa: E402
from stackgrad.backends.base import Options  # noqa: E402
from stackgrad.backends.spirv.shaders import generate  # noqa: E402
from stackgrad.compiler.driver import prepare_forward  # noqa: E402
from stackgrad.compiler.errors import Unsupported  # noqa: E402
from stackgrad.compiler.ir import nodes as n  # noqa: E402
from stackgrad.compiler.ir.kernels import Kernel  # noqa: E402
from stackgrad.compiler.ir.nodes import STATEMENTS  # noqa: E402
from stackgrad.compiler.ir.ops import OPS  # noqa: E402
from stackgrad.compiler.ir.statement import Stmt  # noqa: E402
from stackgrad.compiler.passes.lower_blocks import has_blocks  # noqa: E402


def test_the_page_is_current() -> None:
    found = page.PAGE.read_text(encoding="utf-8")
    assert found == page.text(), "docs/support.md is stale: run python tests/docs/support_page.py"


def test_every_backend_has_a_column_and_every_key_a_row() -> None:
    assert [column.name for column in page.COLUMNS] == list(page.registry.BACKENDS)
    rows = list(page.rows())
    assert [key for kind, key, _ in rows if kind == "operation"] == list(OPS)
    assert [key for kind, key, _ in rows if kind == "statement"] == list(STATEMENTS)
    assert all(page.instances_of_operation(name) for name in OPS)
    assert not [cls for cls in STATEMENTS.values() if not page.instances_of_statement(cls)]


def refused(attempt: object) -> bool:
    try:
        attempt()  # type: ignore[operator]
    except Unsupported:
        return True
    return False


@pytest.mark.rotating
@pytest.mark.parametrize("name", OPS)
def test_shaders_of_every_operation(name: str) -> None:
    """The generator takes each type for which the page says so."""
    for types in filter(None, (page.operand_types(OPS[name], t) for t in page.SCALARS.values())):
        generate(page.kernel_of(name, types), Options())


def test_what_is_declared_is_what_is_refused() -> None:
    """A generator that refuses more, or less, than the limits say would make the page wrong."""

    def declared(kernel: Kernel) -> bool:
        return refused(lambda: limits.check(kernel, "vulkan"))

    # Shaders have blocks as a pass has prepared them.
    kernels = [prepare_forward(k, blocks="threads").kernel if has_blocks(k) else k for k in page.text_kernels()]
    assert len(kernels) > 60
    wrong = [k.name for k in kernels if refused(lambda k=k: generate(k, Options())) != declared(k)]  # type: ignore[misc]
    assert not wrong


def test_cells() -> None:
    """A limit of one statement in one type shows there, and nowhere else."""
    metal = next(c for c in page.COLUMNS if c.name == "metal")
    assert str(page.cell(metal, "add", page.instances_of_operation("add"))) == "not f64"
    assert str(page.cell(metal, "cmp_lt", page.instances_of_operation("cmp_lt"))) == "not f64", "none can be made"
    assert str(page.cell(metal, n.Print, page.instances_of_statement(n.Print))) == "no"
    assert str(page.cell(replace(metal, lacks=lambda key: True), "add", {})) == "no"
    loads = page.instances_of_statement(n.Load)
    assert {"f32", "f64", "i32"} <= set(loads) and all(isinstance(s, Stmt) for some in loads.values() for s in some)


def test_a_limit_of_some_statements_is_told_from_one_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    adds = page.instances_of_operation("add")
    (single,) = adds["f32"]
    row = limits.Limit("cpu", "sums", lambda task: single if single in task.body else None, "none", "", "")
    monkeypatch.setattr(limits, "LIMITS", (row,))
    cpu = next(c for c in page.COLUMNS if c.name == "cpu")
    assert str(page.cell(cpu, "add", adds)) == "not f32"
    assert str(page.cell(cpu, "add", {"f32": [*adds["f32"], *adds["f64"]], "f64": adds["f64"]})) == "partly f32"
