"""docs/blocks.md says what each function of `sg.simt` does, and its program runs."""

from __future__ import annotations

import sys
from pathlib import Path

import stackgrad as sg
from stackgrad.compiler.frontend import simt
from stackgrad.compiler.frontend.simt_names import SIMT_FUNCTIONS

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import blocks_page  # noqa: E402


def test_the_table_is_that_of_the_functions() -> None:
    assert blocks_page.PAGE.read_text(encoding="utf-8") == blocks_page.text(), "run: python tests/docs/blocks_page.py"


def test_every_function_is_lowered() -> None:
    assert set(simt.SIMT) == set(SIMT_FUNCTIONS)


def test_help() -> None:
    assert sg.simt.block.sync.__doc__ == "Wait until all iterations of the block have come to the call."
    assert str(sg.simt.subgroup.shuffle.__signature__) == "(value, index)"
    assert repr(sg.simt.block) == "<stackgrad namespace simt.block>" and repr(sg.simt) == "<stackgrad namespace simt>"
    assert repr(sg.simt.warp.sync) == "<stackgrad function simt.warp.sync>"
