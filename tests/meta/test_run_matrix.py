"""The runner of the matrix: what it reads, decides and reports. No environment is made here."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import link_tree
import pytest
import run_matrix as matrix
from run_matrix import FAILED, PASSED, SKIPPED, UNASKED, MatrixError, Presence, Result, Row

ROW = Row("one", "3.11", ("dev",), ("reference", "cpu"), ("cuda",))
HEAD = '[[row]]\nname = "a"\npython = "3.12"\nextras = []\n'
HERE, GONE = Presence(True, version="1"), Presence(False, "no driver")


def test_the_matrix_is_sound() -> None:
    """Its extras exist, a row runs everywhere, and the oldest interpreter that is promised has one that must run."""
    rows = matrix.parse_matrix((matrix.ROOT / "ci/matrix.toml").read_text())
    project = tomllib.loads((matrix.ROOT / "pyproject.toml").read_text())["project"]
    assert {extra for row in rows for extra in row.extras} <= set(project["optional-dependencies"])
    oldest = project["requires-python"].removeprefix(">=")
    assert any(row.python == oldest and not row.may_skip and not row.needs for row in rows)


def test_rows_are_read() -> None:
    text = '[[row]]\nname = "a"\npython = "3.12"\nextras = []\nrequired = ["cpu"]\nmay_skip = true\n'
    assert matrix.parse_matrix(text) == [Row("a", "3.12", (), ("cpu",), may_skip=True)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "row a: missing fields: required"),
        (HEAD + "required = []\nskip = 1", "row a: unknown fields: skip"),
        (HEAD + 'required = []\ntests = ["a"]\ncommand = ["b"]', "row a: both tests and a command"),
        (HEAD + 'required = ["x"]\noptional = ["x"]', "both required and optional: x"),
        ((HEAD + "required = []\n") * 2, "two rows named a"),
    ],
)
def test_bad_rows_are_refused(text: str, message: str) -> None:
    with pytest.raises(MatrixError, match=message):
        matrix.parse_matrix(text)


def test_all_rows_but_those_of_special_machines_run() -> None:
    special = Row("gpu", "3.11", (), ("cuda",), needs="a GPU")
    chosen, left = matrix.select([ROW, special], [])
    assert chosen == [ROW]
    assert [(r.row, r.outcome) for r in left] == [("gpu", UNASKED)]
    assert matrix.select([ROW, special], ["gpu"]) == ([special], [])


def test_unknown_rows_are_refused() -> None:
    with pytest.raises(MatrixError, match="no row named two; rows: one"):
        matrix.select([ROW], ["two"])


@pytest.mark.parametrize(("may_skip", "outcome"), [(True, SKIPPED), (False, FAILED)])
def test_a_missing_interpreter(may_skip: bool, outcome: str) -> None:
    result = matrix.without_python(Row("one", "3.99", (), ("cpu",), may_skip=may_skip))
    assert (result.outcome, result.reason) == (outcome, "python3.99 is not installed")


def test_an_absent_interpreter_is_not_found() -> None:
    assert matrix.find_python("3.99") is None


@pytest.mark.parametrize(("status", "output", "works"), [(0, "{v}\n", True), (0, "2.7\n", False), (127, "", False)])
def test_an_interpreter_must_answer(status: int, output: str, works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix.shutil, "which", lambda name: f"/programs/{name}")

    def answer(command: list[str], **_: object) -> SimpleNamespace:
        return SimpleNamespace(returncode=status, stdout=output.format(v="3.11"))

    assert matrix.find_python("3.11", answer) == ("/programs/python3.11" if works else None)


@pytest.mark.parametrize(
    ("probes", "missing"),
    [
        ({"reference": HERE, "cpu": HERE, "cuda": HERE}, ""),
        ({"reference": HERE, "cpu": HERE, "cuda": GONE}, ""),
        ({"reference": HERE, "cpu": GONE}, "required backends are absent: cpu (no driver)"),
        ({"cpu": HERE}, "required backends are absent: reference (not in the registry)"),
        ({"reference": HERE, "cpu": Presence(False)}, "required backends are absent: cpu (no reason given)"),
    ],
)
def test_required_backends(probes: dict[str, Presence], missing: str) -> None:
    assert matrix.absent(ROW, probes) == missing


def test_probes_are_the_last_line() -> None:
    output = 'a warning\n{"cpu": {"available": true, "version": "22", "reason": "", "cure": ""}}\n'
    assert matrix.read_probes(output) == {"cpu": Presence(True, "", "22")}
    with pytest.raises(ValueError):
        matrix.read_probes("a warning\n")


def test_the_question_is_one_that_the_registry_answers() -> None:
    asked = subprocess.run([sys.executable, "-c", matrix.ASK], capture_output=True, text=True, timeout=120)
    assert asked.returncode == 0, asked.stderr
    assert matrix.read_probes(asked.stdout)["reference"].available


def test_what_is_installed() -> None:
    assert matrix.requirement(Row("a", "3.11", (), ())) == "."
    assert matrix.requirement(Row("a", "3.11", ("dev", "cuda"), ())) == ".[dev,cuda]"


def test_tests_are_told_the_required_backends() -> None:
    variables = matrix.environment_of_tests(ROW, {"HOME": "h"})
    assert variables == {"HOME": "h", "STACKGRAD_REQUIRED_BACKENDS": "reference,cpu", "STACKGRAD_TESTS": "all"}
    assert matrix.environment_of_tests(ROW, {"STACKGRAD_TESTS": "2"})["STACKGRAD_TESTS"] == "2"


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [([PASSED], 0), ([PASSED, SKIPPED, UNASKED], 0), ([PASSED, FAILED], 1), ([SKIPPED], 1), ([], 1)],
)
def test_exit_status(outcomes: list[str], status: int) -> None:
    assert matrix.exit_status([Result("r", outcome) for outcome in outcomes]) == status


def test_table() -> None:
    results = [
        Result("one", PASSED, "", 61.4, (("cpu", HERE), ("cuda", GONE))),
        Result("other", SKIPPED, "python3.12 is not installed"),
    ]
    assert matrix.render(results).splitlines() == [
        "row    result     seconds  backends",
        "one    passed          61  cpu 1",
        "       cuda is absent: no driver",
        "other  skipped          0  -",
        "       python3.12 is not installed",
    ]


def test_a_row_with_a_command_runs_it_with_a_folder_for_what_it_leaves(tmp_path: Path) -> None:
    row, kept = Row("night", "3.11", (), ("cpu",), command=("ci/night.py", "--seed", "1")), tmp_path / "kept"
    (kept / "old").mkdir(parents=True)
    command = matrix.command_of(row, Path("python"), kept)
    assert command == ["python", "ci/night.py", str(kept), "--seed", "1"]
    assert kept.is_dir() and not list(kept.iterdir())
    assert matrix.command_of(ROW, Path("python"), None)[1:3] == ["-m", "pytest"]
    assert matrix.render([Result("night", PASSED, artifacts="kept")]).splitlines()[-1].strip() == "artifacts: kept"


@pytest.mark.parametrize(("program", "outcome"), [("pass", PASSED), ("raise SystemExit(1)", FAILED)])
def test_a_command_decides_its_row(program: str, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "night.py"
    script.write_text(f"import sys, pathlib\npathlib.Path(sys.argv[1], 'page').touch()\n{program}\n")
    monkeypatch.setattr(matrix, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(matrix, "ARTIFACTS", tmp_path / "artifacts")
    row = Row("night", "3.11", (), ("reference",), command=(str(script),))
    result = matrix.run_installed(row, Path(sys.executable))
    assert result.outcome == outcome
    assert [p.name for p in Path(result.artifacts).iterdir()] == ["page"]


def test_an_error_in_one_row_is_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(row: Row, python: str) -> Path:
        raise subprocess.CalledProcessError(1, ["pip"])

    monkeypatch.setattr(matrix, "find_python", lambda version: "python")
    monkeypatch.setattr(matrix, "install", fail)
    result = matrix.run_row(ROW)
    assert result.outcome == FAILED
    assert "pip" in result.reason


def test_requests_that_make_no_sense(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix.main(["--row", "nowhere"]) == 2
    assert "no row named nowhere" in capsys.readouterr().err


def test_rows_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix.main(["--list"]) == 0
    assert "oldest: Python 3.11, extras dev, requires reference, cpu\n" in capsys.readouterr().out


def test_link_tree_follows_the_map_and_drops_what_is_stale(tmp_path: Path) -> None:
    (tmp_path / "src/pkg").mkdir(parents=True)
    (tmp_path / "src/pkg/api.py").write_text("x = 1\n")
    (tmp_path / "core").mkdir()
    stale = tmp_path / ".links/pkg/gone.py"
    stale.parent.mkdir(parents=True)
    stale.symlink_to("nowhere")
    (stale.parent / "__pycache__").mkdir()
    (stale.parent / "__pycache__/api.pyc").write_bytes(b"")
    links = link_tree.wanted_links(tmp_path, {"pkg": "src/pkg", "pkg.core": "core"})
    for _ in range(2):
        link_tree.make_links(tmp_path / ".links", links)
        assert sorted(p.name for p in stale.parent.iterdir()) == ["api.py", "core"]
        assert (stale.parent / "api.py").read_text() == "x = 1\n"
        assert (stale.parent / "core").resolve() == tmp_path / "core"
