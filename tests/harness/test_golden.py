"""Test golden records: they depend on the compiler alone, and a comparison names the first stage that has changed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import llvmlite.binding as llvm
import project_tree as tree
import pytest
from stackgrad.compiler import driver
from stackgrad.compiler.ad.rules import VJP
from stackgrad.compiler.ir.kernels import Kernel
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.harness.tools.golden import adapter, code
from stackgrad.harness.tools.golden.__main__ import main
from stackgrad.harness.tools.golden.difference import Difference, differences, shown, shown_differences, summary
from stackgrad.harness.tools.golden.inputs import GoldenError, KernelSelection, KernelSource, input_files
from stackgrad.harness.tools.golden.record import (
    MAGIC,
    GoldenRecord,
    RecordRow,
    keep_text,
    read_record,
    row_of,
    write_record,
)
from stackgrad.harness.tools.golden.texts import OTHER_FILE, texts_of, without_places
from stackgrad.harness.tools.mutants.planting import patched, patched_rule

SMALL = (
    "ad/nested.kir:01-f32",
    "ops/cmp_lt.kir:01-f32",
    "invalid/scopes.kir:0*",
    "runtime:pool*",
    "examples/wave.py:compare",
)
"""One of every kind: gradients, a template, texts that are refused, what no kernel decides, a kernel that is traced."""

WAVES = """
kernel waves(x: f64[1] grad, y: f64[1] grad) {
  bounds { %0: i32 = const 0  %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f64 = load x[%2]
    %4: f64 = const 1.0
    %5: f64 = mul %3, %4
    %6: f64 = sin %5
    store y[%2], %6
  }
}
"""


def write(place: Path, seed: str, cwd: Path, jobs: str) -> bytes:
    """Return a golden record of the small selection, written by a separate process."""
    command = [
        sys.executable,
        "-m",
        "stackgrad.harness.tools.golden",
        "write",
        str(place),
        "--jobs",
        jobs,
        "--only",
        *SMALL,
    ]
    environment = os.environ | {"PYTHONHASHSEED": seed}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return place.read_bytes()


@pytest.mark.expensive
def test_same_in_every_process(tmp_path: Path) -> None:
    """Whatever hashes are, wherever it is started, however many work at it."""
    first = write(tmp_path / "a", "1", tmp_path, "1")
    assert first == write(tmp_path / "b", "2", Path(__file__).parent, "2")
    kernels = set(read_record(tmp_path / "a").by_kernel())
    assert {"ad/nested.kir:01-f32", "ops/cmp_lt.kir:01-f32", "examples/wave.py:compare"} <= kernels


# ---- planted changes ----------------------------------------------------------------------------------------


def made(texts: Path | None = None) -> GoldenRecord:
    """Return the golden record of one kernel, made by the present compiler."""
    found = list(texts_of(KernelSource("waves", parse_kernel(WAVES))))
    for text in found if texts else ():
        keep_text(texts, text)  # type: ignore[arg-type]
    return GoldenRecord(tuple(map(row_of, found)))


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> tuple[GoldenRecord, Path]:
    """Return the golden record and the texts of the unchanged compiler."""
    folder = tmp_path_factory.mktemp("right")
    return made(folder), folder


@contextmanager
def pass_left_out(name: str) -> Iterator[None]:
    """Make a forward pass do nothing inside the `with` block."""
    passes: list[tuple[str, driver.Pass]] = [(n, (lambda k: k) if n == name else p) for n, p in driver.FORWARD]
    with patched(driver, "FORWARD", passes):
        yield


@contextmanager
def renamed_pass() -> Iterator[None]:
    """Give a pass another name inside the `with` block, by wrapping it in another function."""

    def tidied(kernel: Kernel) -> Kernel:
        return dict(driver.TIDY)["simplify"](kernel)

    passes = [("tidied", tidied) if n == "simplify" else (n, p) for n, p in driver.FORWARD]
    with patched(driver, "FORWARD", passes):
        yield


@contextmanager
def other_emission() -> Iterator[None]:
    """Make the code generator for CPUs leave out index checks inside the `with` block."""
    with patched(code, "PLAIN", replace(code.PLAIN, bounds=False)):
        yield


PLANTED = {
    "pass": (pass_left_out("simplify"), "1.forward.04 (simplify)"),
    "rule": (patched_rule("sin", 0, VJP["cos"][0]), "2.tangent.03 (tangent)"),
    "emitter": (other_emission(), "1.forward.code.kernel.00-cpu-v3"),
}
"""By name: the change, and the stage at which it shows first."""


@pytest.mark.rotating
@pytest.mark.parametrize("name", PLANTED)
def test_planted_change_is_named(name: str, right: tuple[GoldenRecord, Path], tmp_path: Path) -> None:
    change, title = PLANTED[name]
    base, folder = right
    with change:
        head = made(tmp_path)
    (found,) = differences(base, head)
    assert found.title == title and 0 < found.count < found.stages
    lines = list(shown(found, folder, tmp_path))
    assert title in lines[0] and lines[1:3] == ["--- base", "+++ head"]
    assert any(line.startswith("-") for line in lines[3:]) or any(line.startswith("+") for line in lines[3:])
    assert list(summary([found], base, head))[0] == "different: 1 of 1 kernels"


def test_the_host_does_not_matter(right: tuple[GoldenRecord, Path]) -> None:
    """Code is made for machines that the net names, never for the one that it runs on."""

    def asked() -> None:
        raise AssertionError("the host was asked what it is")

    with (
        patched(llvm, "get_host_cpu_name", asked),
        patched(llvm, "get_host_cpu_features", asked),
        patched(llvm, "get_default_triple", asked),
        patched(platform, "machine", lambda: "aarch64"),
    ):
        assert made() == right[0]


def test_another_name_of_a_pass_is_no_change(right: tuple[GoldenRecord, Path]) -> None:
    with renamed_pass():
        head = made()
    assert differences(right[0], head) == [] and head != right[0]
    assert list(summary([], right[0], head)) == [f"identical: 1 kernels, {len(head.rows)} texts"]


# ---- records ------------------------------------------------------------------------------------------------

ROWS = (
    RecordRow("a", "0.source", "11", "source"),
    RecordRow("a", "1.forward.00", "22", "split"),
    RecordRow("b", "0.source", "33"),
)


def record(tmp_path: Path, name: str, *rows: RecordRow, tools: tuple[str, ...] = ("LLVM 1",)) -> Path:
    write_record(tmp_path / name, rows, tools)
    return tmp_path / name


def test_records_are_sorted_and_read(tmp_path: Path) -> None:
    path = record(tmp_path, "x", *reversed(ROWS))
    assert read_record(path) == GoldenRecord(ROWS, ("LLVM 1",))
    assert path.read_text().splitlines()[2:] == [row.line for row in ROWS]


@pytest.mark.parametrize("text", ["", "a 0.source 11\n", f"{MAGIC}\na\n", "# stackgrad golden 1\na b c\n"])
def test_what_is_no_record_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(GoldenError, match="is no record"):
        read_record(tmp_path / "x")


def test_the_command_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = record(tmp_path, "base", *ROWS)
    same = record(tmp_path, "same", ROWS[0], replace(ROWS[1], name="other name"), ROWS[2])
    other = record(tmp_path, "other", ROWS[0], replace(ROWS[1], digest="23"), ROWS[2], tools=("LLVM 2",))
    assert main(["compare", str(base), str(same)]) == 0
    assert capsys.readouterr().out == "identical: 2 kernels, 3 texts\n"
    assert main(["compare", str(base), str(other)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "made by other tools: LLVM 1, LLVM 2",
        "different: 1 of 2 kernels",
        "      1 first at 1.forward.00 (split): a",
    ]
    assert main(["compare", str(base), str(tmp_path / "gone")]) == 2
    assert main(["compare", str(base), str(same), "--names"]) == 0
    assert capsys.readouterr().out == ""


def test_what_one_side_lacks_is_a_difference() -> None:
    found = differences(GoldenRecord(ROWS), GoldenRecord(ROWS[:1]))
    assert [(d.kernel, d.stage, d.head) for d in found] == [("a", "1.forward.00", None), ("b", "0.source", None)]
    assert [d.sides for d in found] == [", which only the base has"] * 2


def test_one_kernel_is_chosen_for_each_stage() -> None:
    found = [
        Difference(kernel, RecordRow(kernel, stage, "1"), None, 1, 1) for kernel, stage in ("ax", "bx", "cy", "dz")
    ]
    assert [d.kernel for d in shown_differences(found, 2)] == ["a", "c"]


# ---- inputs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "every", "names"),
    [
        ((), 1, ["ad/x.kir:01", "ad/x.kir:02-f32", "ad/x.kir:03"]),
        ((), 2, ["ad/x.kir:01", "ad/x.kir:03"]),
        (("ad/*",), 1, ["ad/x.kir:01", "ad/x.kir:02-f32", "ad/x.kir:03"]),
        (("ad/x.kir:*-f32", "*:03"), 1, ["ad/x.kir:02-f32", "ad/x.kir:03"]),
        (("ops/*",), 1, []),
    ],
)
def test_selection(patterns: tuple[str, ...], every: int, names: list[str]) -> None:
    sources = [KernelSource(name, None) for name in ("ad/x.kir:01", "ad/x.kir:02-f32", "ad/x.kir:03")]
    selection = KernelSelection(patterns, every)
    assert [s.name for s in selection.of(sources)] == names
    assert selection.wants_file(Path("ad/x.kir")) is bool(names)


def test_every_kernel_file_and_example_is_an_input() -> None:
    found = {str(path.relative_to(adapter.ROOT)) for path in input_files(adapter.ROOT)}
    tracked = {tree.relative(path) for path in tree.project_files()}
    assert found >= {path for path in tracked if path.endswith(".kir")}
    examples = {path for path in tracked if path.startswith("examples/") and path.endswith(".py")}
    assert found >= examples - {"examples/common.py"}


def test_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a/ops", "b/ops"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.kir").write_text("")
    with pytest.raises(GoldenError, match="two files are called ops/x.kir"):
        input_files(tmp_path)


def test_places_are_taken_out() -> None:
    path = adapter.ROOT / "docs" / "examples" / "x.py"
    text = f"{path}:3 and docs/examples/x.py:3 and {adapter.ROOT}/src/y.py:7"
    assert without_places(text, path, "examples/x.py") == f"examples/x.py:3 and examples/x.py:3 and {OTHER_FILE}:7"


def test_one_module_alone_names_the_rest_of_the_project() -> None:
    """A move of files is to change the adapter, and nothing else of the net."""
    package = "stackgrad.harness.tools.golden"
    wrong = [
        f"{name} imports {found.target}"
        for name, path in tree.modules().items()
        if name.startswith(f"{package}.") and name != f"{package}.adapter"
        for found in tree.internal_imports(name, path)
        if not found.target.startswith(package)
    ]
    assert wrong == []
