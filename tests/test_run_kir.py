"""The .kir collector fails when it must, and the .kir files leave no operation and no statement out."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kir_test_support.directives import Case, Directive, KirFileError, read_cases, read_check
from kir_test_support.numbers import compare, error_in_ulps, read_array, unlike
from run_kir import KirFailure, KirFile, KirItem
from stackgrad.compiler.ir.nodes import STATEMENTS
from stackgrad.compiler.ir.ops import ATOMIC_OPS, OPS
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.ir.types import f16, f32, f64, i8, u1
from stackgrad.compiler.ir.walk import walk_kernel
from table_rows import each_row

HERE = Path(__file__).parent
SQUARE = """
kernel square(x: f64[1] grad, y: f64[1] grad) {
  bounds {
    %0: i32 = const 0
    %1: i32 = shape x, 0
  } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2]
    %4: f64 = mul %3, %3
    store y[%2], %4
  }
}
"""
Collect = Callable[[str], list[KirItem]]


@pytest.fixture
def collect(request: pytest.FixtureRequest, tmp_path: Path) -> Collect:
    """Items that the collector makes of a text, but for those that only verify and print."""

    def items(text: str) -> list[KirItem]:
        path = tmp_path / "some.kir"
        path.write_text(text)
        return [i for i in KirFile.from_parent(request.session, path=path).collect() if not i.name.startswith("text")]

    return items


def cases(folder: str) -> list[tuple[str, Case]]:
    """(name of the file, kernel) for everything in a folder of .kir files."""
    return [(p.stem, c) for p in sorted((HERE / folder).glob("*.kir")) for c in read_cases(p.read_text())]


# ---- what must fail -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "run: x=[3.0, -1.0] -> y=[9.0, 1.0]",
        "run[reference cpu]: x=[3.0] -> y=[9.0], x=[3.0]",
        "run: x=[] -> y=[]",
        "grad: x=[3.0], seed y=[2.0] -> x.grad=[12.0], y.grad=[0.0]",
        'trap: x=[3.0, 4.0], y=[0.0] -> OutOfBounds "index 1"',
    ],
)
def test_what_holds_passes(collect: Collect, line: str) -> None:
    items = collect(f"{SQUARE}// {line}\n")
    assert {i.backend for i in items} >= {"reference", "cpu"}
    for item in items:
        item.runtest()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run: x=[3.0, 2.0] -> y=[9.0, 5.0]", r"y\[1\]: got 4.0 .*, expected 5.0 .*ulps"),
        ("run: x=[0.0] -> y=[-0.0]", r"got 0.0 \(0x0.0p\+0\), expected -0.0"),
        ("run: x=[nan] -> y=[0.0]", "got nan"),
        ("run: x=[3.0] -> y=[9.000000000000002]", "off by 1 ulps of 0"),
        ("run: x=[3.0] -> y=[9.0], x=[9.0]", r"x\[0\]: got 3.0"),
        ('run: x=[3.0], y=[0.0] -> y=[9.0], prints "9"', "printed"),
        ("run: x=[3.0, 4.0], y=[0.0] -> y=[9.0]", "raised OutOfBounds|shape"),
        ("grad: x=[3.0], seed y=[1.0] -> x.grad=[5.0]", r"x.grad\[0\]: got 6.0"),
        ('trap: x=[3.0], y=[0.0] -> OutOfBounds ""', "nothing was raised"),
        ('trap: x=[3.0, 4.0], y=[0.0] -> OutOfBounds "the moon"', "expected OutOfBounds with 'the moon'"),
        ('trap: x=[3.0, 4.0], y=[0.0] -> DivisionByZero ""', "got OutOfBounds"),
    ],
)
def test_what_does_not_hold_fails(collect: Collect, line: str, message: str) -> None:
    item = next(i for i in collect(f"{SQUARE}// {line}\n") if i.backend == "reference")
    with pytest.raises(KirFailure, match=message):
        item.runtest()


def test_a_report_shows_kernel_line_and_difference(collect: Collect) -> None:
    item = collect(f"{SQUARE}// run: x=[3.0] -> y=[8.0]\n")[0]
    with pytest.raises(KirFailure) as caught:
        item.runtest()
    report = item.report(str(caught.value))
    assert "some.kir:12: run1[reference]" in report
    assert "%4: f64 = mul %3, %3" in report
    assert "run: x=[3.0] -> y=[8.0]" in report
    assert "reference, plain build:\ny[0]: got 9.0" in report


def test_a_store_left_out_shows(collect: Collect) -> None:
    text = SQUARE.replace("    store y[%2], %4\n", "")
    for number in ("0.0", "9.0", "-77.5"):
        with pytest.raises(KirFailure):
            collect(f"{text}// run: x=[3.0] -> y=[{number}]\n")[0].runtest()


@pytest.mark.parametrize(
    ("line", "message"),
    [('invalid: "anything"', "accepted at stage tasks"), ('invalid[grad]: "anything"', "accepted at stage grad")],
)
def test_a_kernel_that_is_not_refused_fails(collect: Collect, line: str, message: str) -> None:
    with pytest.raises(KirFailure, match=message):
        collect(f"// {line}\n{SQUARE.strip()}\n")[0].runtest()


def test_refused_with_another_message_fails(collect: Collect) -> None:
    with pytest.raises(KirFailure, match="refused, but 'the moon' is not in the message"):
        collect(f'// invalid: "the moon"\n{SQUARE.strip().replace("mul", "sin")}\n')[0].runtest()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run: x=[0x1.00000000000001p0] -> y=[1.0]", None),
        ("run: x=[1.0], z=[1.0] -> y=[1.0]", "no parameter z"),
        ("run: x=[1.0] -> x=[1.0]", "neither a content before nor one afterwards is given for the array y"),
        ("run: x=[[1.0]] -> y=[1.0]", "nested too deep"),
        ("run: x=1.0 -> y=[1.0]", "nested 1 deep"),
    ],
)
def test_malformed_lines_are_reported(collect: Collect, line: str, message: str | None) -> None:
    item = collect(f"{SQUARE}// {line}\n")[0]
    if message is None:
        item.runtest()
        return
    with pytest.raises(KirFileError, match=message):
        item.runtest()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{SQUARE}// run: x=[1.0] y\n", "line 12"),
        ("// run: -> y=[1.0]\n", "line 1: a run directive stands below its kernel"),
        (f"{SQUARE}// run[f32]: x=[1.0] -> y=[1.0]\n", "line 12: the kernel has no type f32"),
        ("// types: f32\n", "line 1: no kernel follows"),
        ("x\n", "line 1: neither a comment nor a kernel"),
    ],
)
def test_malformed_files_are_reported(text: str, message: str) -> None:
    with pytest.raises(KirFileError, match=message):
        for case in read_cases(text):
            for directive in case.checks:
                read_check(directive)


# ---- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "expected", "dtype", "error"),
    [
        (1.0, 1.0, f32, 0.0),
        (1.0, 1.0 + 2.0**-24, f32, 0.5),
        (1.0 + 2.0**-23, 1.0, f32, 1.0),
        (1.0 + 2.0**-52, 1.0, f64, 1.0),
        (1.0, 1.0 - 2.0**-12, f16, 0.5),
        (2.0**-149, 0.0, f32, 1.0),
        (0.0, -0.0, f32, math.inf),
        (math.nan, math.nan, f32, 0.0),
        (math.nan, 1.0, f32, math.inf),
        (math.inf, 1e39, f32, 0.0),
        (math.inf, -1e39, f32, math.inf),
        (math.inf, 3e38, f32, math.inf),
    ],
)
def test_errors_count_in_units_of_the_type(got: float, expected: float, dtype: object, error: float) -> None:
    assert error_in_ulps(got, expected, dtype) == error  # type: ignore[arg-type]


def test_half_precision_may_round_once_more() -> None:
    third = np.array([1 / 3])
    assert compare("y", np.array([1 / 3], np.float16), third, f16, 0.5) == []
    assert compare("y", np.nextafter(np.array([1 / 3], np.float16), np.float16(1)), third, f16, 0.5) != []


def test_inputs_must_be_representable() -> None:
    with pytest.raises(KirFileError, match="0.1 is not representable in f32"):
        read_array(["0.1"], f32, 1)
    with pytest.raises(KirFileError, match="128 is outside i8"):
        read_array(["128"], i8, 1)


@pytest.mark.parametrize(
    "array", [np.array([0, 85, -1], np.int8), np.array([True, False]), np.array([-77.5, 0.0, math.nan], np.float32)]
)
def test_unlike_differs_everywhere(array: np.ndarray) -> None:
    dtype = {"i": i8, "b": u1, "f": f32}[array.dtype.kind]
    assert (unlike(array, dtype) != array).all()


@pytest.mark.parametrize(
    ("only", "names", "applies"),
    [
        ((), ("f32", "cpu"), True),
        (("f32",), ("f32", "cpu"), True),
        (("f32",), ("f64", "cpu"), False),
        (("f32", "reference"), ("f32", "cpu"), False),
        (("f32", "reference"), ("f32", "reference", "lean"), True),
        (("classic",), ("f32", "reference", "lean"), False),
    ],
)
def test_restrictions(only: tuple[str, ...], names: tuple[str, ...], applies: bool) -> None:
    assert Directive("run", only, "", 1).applies(*names) == applies


# ---- coverage -----------------------------------------------------------------------------------------------


@each_row("op", OPS)
def test_every_operation_has_its_file(op: str) -> None:
    kinds = {d.kind for name, case in cases("ops") if name == op for d in case.checks}
    assert "run" in kinds, f"tests/ops/{op}.kir has no run line"
    assert "grad" in kinds or OPS[op].kind not in ("smooth", "kinked"), f"tests/ops/{op}.kir has no grad line"
    assert {"trap", "release"} <= kinds or not OPS[op].traps, f"tests/ops/{op}.kir has no trap or no release line"


def test_every_statement_is_run() -> None:
    seen, atomics = set(), set()
    for _, case in cases("statements"):
        if any(d.kind == "run" for d in case.checks):
            for stmt in walk_kernel(parse_kernel(case.source(case.types[0]))):
                seen.add(type(stmt).__name__)
                atomics.add(getattr(stmt, "op", ""))
    assert set(STATEMENTS) - seen == set()
    assert set(ATOMIC_OPS) - atomics == set()
