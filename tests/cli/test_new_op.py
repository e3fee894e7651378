"""Test that `stackgrad new-op` writes all needed entries, in a copy of the checkout where they are then completed."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import project_tree as tree
import pytest
from stackgrad.cli import main
from stackgrad.compiler.ir.ops import OPS
from stackgrad.harness.tools.recipes import scaffold
from stackgrad.harness.tools.recipes.insertion import NoPlace, operation_row, row_of_table
from stackgrad.harness.tools.recipes.tables import of_kind, root

LEFT_OUT = ("docs/campaign/", "docs/findings/", "examples/", "asv_bench/")
NAME = "square"
ROWS = {
    # The unwritten row, and the row of x*x in its place.
    f'VJP.unwritten("{NAME}"),) * 1': 'lambda b, g, a, r: b.op("mul", g, b.op("add", a[0], a[0])),)',
    f'INTERVALS.unwritten("{NAME}")': "lambda t, a: product(absolute(a), absolute(a))",
    f'ScalarMeaning(NUMPY.unwritten("{NAME}"))': "ScalarMeaning(_in_f32(np.square))",
    f'LLVM.unwritten("{NAME}")': "lambda e, t, x: e.b.fmul(x, x)",
    f'BOUNDS.unwritten("{NAME}"), "rounded"': (
        'lambda x, e, r, u: (2 * np.abs(x[0]) + e[0]) * e[0], "rounded", underflows=True'
    ),
    f'DUAL.unwritten("{NAME}"), (DUAL.unwritten("{NAME}"),) * 1': "lambda t, x: x * x, (lambda x, r: 2 * x,)",
    f'JAX.unwritten("{NAME}"), JAX.unwritten("{NAME}")': "np.square, lax.square",
    '"UNWRITTEN: say in one sentence what happens in edge cases.", 0.5, (_POSITIVE,)': '"x*x.", 0.5, (_ANY,)',
    "SECONDS: dict[str, tuple[Function, Function]] = {": (
        f'SECONDS: dict[str, tuple[Function, Function]] = {{\n    "{NAME}": (lambda x: x * x, lambda x: 2 + 0 * x),'
    ),
    "// run: x=[1.0] -> y=[nan]": "// run: x=[0.0, -0.0, -3.0, inf, nan] -> y=[0.0, 0.0, 9.0, inf, nan]",
    "x=[1.0], seed y=[1.0] -> x.grad=[nan]": "x=[0.0, 1.5, -3.0], seed y=[1.0, 2.0, -0.5] -> x.grad=[0.0, 6.0, 3.0]",
}
JUDGES = (
    "tests/test_run_kir.py",
    "tests/bounds/test_rules.py",
    "tests/oracles/test_ops.py",
    "tests/oracles/test_singular.py",
    "tests/ad_api/test_second_order_ops.py",
    "tests/reference/test_scalar.py",
    "tests/reference/test_integers.py",
    "tests/passes/test_fold_constants.py",
    "tests/passes/test_real_ranges.py",
    "tests/backends/test_ops.py",
    "tests/docs/test_support.py",
    "tests/meta/test_tables.py",
)
"""Files with tests of every operation."""
COMPLETE = f"{NAME} or left_out or has_its_file or cover_all or page_is_current or edge_cases"
"""The tests of the operation, and those that compare a list with all operations."""


class Copy:
    """Represent a copy of the checkout, in which commands run on the copy's own package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path in tree.project_files():
            name = tree.relative(path)
            if not name.startswith(LEFT_OUT):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, folder / name)
        for command in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", *command], cwd=folder, check=True)
        self.python("ci/link_tree.py")

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a script or a module of the copy."""
        environment = os.environ | {"PYTHONPATH": str(self.folder / ".links")}
        command = [sys.executable, "-P", *arguments]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)

    def tests(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run tests of the copy on the reference and the CPU."""
        backends = ("--backend", "reference", "--backend", "cpu")
        return self.python(
            "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", "-p", "no:xdist", *backends, *arguments
        )

    def replace(self, files: list[str], old: str, new: str) -> None:
        """Replace a text that exactly one of the files has, once."""
        texts = {name: (self.folder / name).read_text(encoding="utf-8") for name in files}
        (where,) = [name for name, text in texts.items() if old in text]
        assert texts[where].count(old) == 1
        (self.folder / where).write_text(texts[where].replace(old, new), encoding="utf-8")


@pytest.mark.expensive
def test_the_recipe_is_complete(tmp_path: Path) -> None:
    """After the scaffold the tests name each row; when the rows are written, all tests of the operation pass."""
    copy = Copy(tmp_path)
    made = scaffold.plan(NAME)
    written = copy.python("-m", "stackgrad", "new-op", NAME)
    assert written.returncode == 0, written.stderr
    assert all(f"{change.path}:{change.line}: {change.title}" in written.stdout for change in made.changes)
    _fails_by_name(copy, made)
    files = [*(change.path for change in made.changes), "tests/ad_api/test_second_order_ops.py"]
    assert set(files) <= {*(c.path for c in made.changes), *(s.path() for s in made.steps)}, "the report names all"
    for old, new in ROWS.items():
        copy.replace(files, old, new)
    assert copy.python("tests/docs/support_page.py").returncode == 0
    assert copy.tests(f"tests/ops/{NAME}.kir").returncode == 0
    judged = copy.tests(*JUDGES, "-k", COMPLETE)
    assert judged.returncode == 0, judged.stdout[-4000:]


def _fails_by_name(copy: Copy, made: scaffold.Plan) -> None:
    """Assert that each table entry that is not completed fails a test that names its table and its place."""
    found = copy.tests(f"tests/ops/{NAME}.kir", "tests/meta/test_tables.py", "-k", f"{NAME} or edge_cases")
    assert found.returncode == 1
    for change in made.changes:
        if change.title.startswith("table "):
            assert f"{change.title} has no row for {NAME}" in found.stdout
            assert f"{change.path}:{change.line}: {change.about}" in found.stdout
    assert f"test_edge_cases_are_described[{NAME}]" in found.stdout
    assert f"the row of '{NAME}' is not written yet" in found.stdout


@pytest.mark.parametrize("like", ["sin", "popcnt", "cmp_lt", "floordiv", "logic_not", "bit_shl", "frexp_exponent"])
def test_rows_are_python(like: str) -> None:
    """A row in each table of which some row must be written, whatever the operation is like."""
    made = scaffold.plan("new", like=like)
    for change in made.changes:
        assert change.text.count("\n") > change.line - 1
        if change.path.endswith(".py"):
            ast.parse(change.text)
            assert '"new"' in change.text.splitlines()[change.line - 1]
    tables = {table.name for table in of_kind("operation") if not table.optional}
    assert {c.title.removeprefix("table ") for c in made.changes} | made.derived.keys() == tables | {"OPS", "test file"}


def test_a_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-op", "new", "--arity", "2", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "nothing was written" in printed and "tests/ops/new.kir:1" in printed
    assert not (root() / "tests/ops/new.kir").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sin"], "there is an operation sin already"),
        (["Sin"], "is no name of an operation"),
        (["new", "--like", "select"], "select takes 3 operands"),
        (["new", "--like", "sin", "--arity", "2"], "sin takes 1 operands"),
        (["new", "--like", "sine"], "there is no operation 'sine'"),
    ],
)
def test_refusals(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-op", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_rows_go_beside_similar_rows() -> None:
    text = 'T.update(\n    {\n        "a": 1,\n        "b": 2,\n    }\n)\nU["a"] = 1\nU["b"] = 2\n'
    assert row_of_table(text, "T", "a", "new", "3").apply(text).splitlines()[3] == '        "new": 3,'
    assert row_of_table(text, "T", "other", "new", "3").apply(text).splitlines()[4] == '        "new": 3,'
    assert row_of_table(text, "U", "a", "new", "3").apply(text).splitlines()[7] == 'U["new"] = 3'
    with pytest.raises(NoPlace):
        row_of_table(text, "V", "a", "new", "3")
    with pytest.raises(NoPlace):
        operation_row(text, "a", "new", "none")


def test_every_operation_is_a_model_or_refused() -> None:
    assert [op.name for op in OPS.values() if op.arity not in scaffold.DEFAULT_LIKE] == ["select"]
