# ruff: noqa: SIM905 - names are read more easily in lines
"""Test the page on the dialect: every test it names exists, and every message is one of the compiler's."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import stackgrad as sg
from stackgrad.compiler.frontend.refused_names import RefusedName, refusal_of
from stackgrad.compiler.frontend.simt_names import SIMT_FUNCTIONS
from table_rows import each_row
from test_refused import PROGRAMS  # filled by the modules that it imports

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "dialect.md"
GUIDE = ROOT / "docs" / "migrating.md"

SIMULATOR = """
    static types.ndarray func Tensor template ndrange types.vector kernel Vector.zero i32 Vector loop_config
    abs max min simt.block.sync Matrix.zero sqrt field math.inf types.struct cast data_oriented atomic_add u32
    Layout.SOA simt.block.SharedArray grouped f32 floor math.clamp int32 math.vec3 Matrix.identity atan2 u64
    Matrix.cols Vector.field Field Ndarray cos exp random math.pi sin Matrix log math.isnan outer
    simt.subgroup.invocation_id types.matrix simt.grid.mem_fence select math.popcnt sync simt.subgroup.shuffle
    svd pow Matrix.rows lang.impl.get_runtime math.vec4 math.ffs simt.subgroup.broadcast math.clz Backend.FIELD
    Struct acos atomic_or simt.Tile32x32 simt.Tile16x16 raw_mod math.isinf simt.subgroup.sync u1 ERROR WARN
    reset tensor Layout.AOS math.sqrt rsqrt math.floor ceil simt float32 math.sign f64 INFO init
    lang._template_mapper.__builtins__ static_assert perf_dispatch atomic_min atomic_max graph.do_while
    math.radians atomic_exchange math.nan simt.TileNxN simt.warp.sync Matrix.field root.dense ij math.cross
    lang.impl.get_max_shared_memory_bytes Backend.NDARRAY Vector.tensor Matrix.tensor VectorTensor MatrixTensor
    types.primitive_types.real_types i64 ndarray simt.subgroup.reduce_all_add_tiled
    simt.subgroup.inclusive_add_tiled simt.subgroup.reduce_all_min_tiled simt.subgroup.reduce_all_max_tiled
    simt.subgroup.ballot simt.subgroup.all_true_tiled simt.subgroup.any_true_tiled simt.subgroup.shuffle_up
    simt.subgroup.shuffle_down simt.subgroup.segmented_reduce_add_tiled
    simt.subgroup.segmented_reduce_min_tiled
""".split()


def rows() -> list[tuple[int, list[str]]]:
    """The cells of each row of each table, with the row's line."""
    found = []
    for number, line in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("| ") and not line.startswith("| In the dialect"):
            found.append((number, [cell.strip() for cell in line.strip("|").split(" | ")]))
    return found


ROWS = rows()
MESSAGES = {param.values[2] for param in PROGRAMS}


@cache
def functions_of(file: str) -> frozenset[str]:
    """The test functions of a file."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_"))


@each_row(("line", "cells"), ROWS, ids=[str(line) for line, _ in ROWS])
def test_row(line: int, cells: list[str]) -> None:
    assert len(cells) == 3, f"line {line} has {len(cells)} cells"
    _, status, evidence = cells
    if status.startswith("works"):
        file, _, name = evidence.strip("`").partition("::")
        assert name in functions_of(file), f"line {line}: there is no test {name} in {file}"
    else:
        assert status == "refused", f"line {line}: neither works nor is refused: {status}"
        assert evidence.startswith("`` ") and evidence.endswith(" ``")
        message = evidence[3:-3]
        assert message in MESSAGES or message == reason_of(message), f"line {line}: nobody says: {message}"


def reason_of(message: str) -> str:
    """Return the compiler's reason for refusing the name with which a message begins."""
    name = re.match(r"`sg\.([\w.]+)`", message)
    assert name is not None and refusal_of(name[1]) is not None, f"{message} is the message of no program and no name"
    return RefusedName(name[1]).reason


def test_every_name_of_the_simulator_has_a_row() -> None:
    named = {match for _, cells in ROWS for match in re.findall(r"`([\w.]+)`", cells[0])}
    assert [name for name in SIMULATOR if name not in named] == []


@each_row("name", SIMULATOR)
def test_every_name_of_the_simulator_is_there(name: str) -> None:
    """A refused name is there too, as an object that refuses its use."""
    value: object = sg
    for part in name.split("."):
        value = getattr(value, part)
    is_there = name == "simt" or name.removeprefix("simt.") in SIMT_FUNCTIONS
    assert isinstance(value, RefusedName) == (refusal_of(name) is not None and not is_there)


def test_there_are_tables_for_all_parts() -> None:
    assert len(ROWS) > 250
    assert sum(cells[1].startswith("works") for _, cells in ROWS) > 180


@pytest.mark.parametrize("page", [PAGE, GUIDE], ids=["dialect", "migrating"])
def test_pages_have_no_long_lines_outside_tables(page: Path) -> None:
    for line in page.read_text(encoding="utf-8").splitlines():
        assert line.startswith("|") or len(line) <= 120, line
