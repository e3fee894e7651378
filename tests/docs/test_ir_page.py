"""docs/ir_reference.md is what the tables of the IR say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from stackgrad.compiler.ir.nodes import STATEMENTS
from stackgrad.compiler.ir.ops import OPS, OpInfo
from stackgrad.compiler.ir.stages import STAGES

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import ir_page  # noqa: E402


def test_the_page_is_current() -> None:
    found = ir_page.PAGE.read_text(encoding="utf-8")
    assert found == ir_page.text(), "docs/ir_reference.md is stale: run python tests/docs/ir_page.py"


def test_every_row_of_the_tables_is_there() -> None:
    page = ir_page.text()
    rows = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert {*OPS, *STATEMENTS, *STAGES} <= rows


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("sin", ("reals", "the same")),
        ("add", ("numbers", "the same")),
        ("cmp_lt", ("any", "`u1`")),
        ("popcnt", ("integers", "`i32`")),
        ("select", ("`u1`, then any", "the same")),
        ("logic_not", ("`u1`", "the same")),
    ],
)
def test_types_are_found_by_asking(name: str, wanted: tuple[str, str]) -> None:
    assert ir_page.signature(OPS[name]) == wanted


def test_an_operation_without_types_is_noticed() -> None:
    with pytest.raises(ValueError, match="odd takes no operands"):
        ir_page.signature(OpInfo("odd", 2, lambda types: None, "opaque", "None."))


def test_bars_in_cells_are_escaped() -> None:
    assert ir_page.table(("a", "b"), [("|x|", "y")]) == "| a | b |\n| --- | --- |\n| \\|x\\| | y |\n"
