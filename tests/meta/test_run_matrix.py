"""The runner of the matrix: what it reads, decides and reports. No environment is made here."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import link_tree
import nox
import pytest
import run_matrix as matrix
from nox.command import CommandFailed
from run_matrix import FAILED, PASSED, SKIPPED, UNASKED, MatrixError, Note, Presence, Result, Row

ROW = Row("one", "3.11", ("dev",), ("reference", "cpu"), ("cuda",), ("npm",))
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
    row = Row("one", "3.99", (), ("cpu",), may_skip=may_skip)
    result = matrix.result_of(row, {"name": "one", "result": "skipped"}, Note())
    assert (result.outcome, result.reason) == (outcome, "python3.99 is not installed")


@pytest.mark.parametrize(
    ("session", "note", "wanted"),
    [
        ({"result": "success", "duration": 2.0}, Note(backends=(("cpu", HERE),)), (PASSED, "", 2.0)),
        ({"result": "failed", "duration": 2.0}, Note("pytest: 1"), (FAILED, "pytest: 1", 2.0)),
        ({"result": "aborted", "reason": "no report"}, Note(), (FAILED, "no report", 0.0)),
        ({"result": "failed", "reason": None}, Note(), (FAILED, matrix.PREPARING_FAILED, 0.0)),
        (None, Note(), (FAILED, "nox reports no session of this row", 0.0)),
    ],
)
def test_what_nox_reports_is_the_result(
    session: dict[str, Any] | None, note: Note, wanted: tuple[str, str, float]
) -> None:
    found = matrix.result_of(ROW, session, note)
    assert (found.outcome, found.reason, found.seconds) == wanted
    assert found.backends == note.backends


def test_notes_come_back_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "NOTES", tmp_path / "notes")
    assert matrix.read_note(ROW) == Note()
    note = Note("why", (("cpu", HERE), ("cuda", GONE)), "folder")
    matrix.write_note(ROW, note)
    assert matrix.read_note(ROW) == note


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
    assert variables == {
        "HOME": "h",
        "STACKGRAD_REQUIRED_BACKENDS": "reference,cpu",
        "STACKGRAD_REQUIRED_PROGRAMS": "npm",
        "STACKGRAD_TESTS": "all",
    }
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


def test_a_row_has_a_folder_for_what_it_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "ARTIFACTS", tmp_path)
    row, kept = Row("night", "3.11", (), ("cpu",), command=("ci/night.py", "--seed", "1")), tmp_path / "night"
    (kept / "old").mkdir(parents=True)
    assert matrix.empty_artifacts(row) == kept
    assert kept.is_dir() and not list(kept.iterdir())
    assert matrix.command_of(row, kept) == ["python", "ci/night.py", str(kept), "--seed", "1"]
    tests = matrix.command_of(ROW, kept)
    assert tests[1:3] == ["-m", "pytest"] and tests[tests.index("--junitxml") + 1] == str(kept / "tests.xml")
    matrix.keep_table([Result("night", PASSED, artifacts=str(kept)), Result("other", UNASKED)])
    assert (kept / "table.txt").read_text().splitlines()[1].split()[:2] == ["night", "passed"]
    assert matrix.render([Result("night", PASSED, artifacts="kept")]).splitlines()[-1].strip() == "artifacts: kept"


# ---- sessions -----------------------------------------------------------------------------------------------


class Here:
    """A session of nox whose environment is that of this test."""

    def __init__(self) -> None:
        self.installed: list[tuple[str, ...]] = []

    def install(self, *arguments: str) -> None:
        self.installed.append(arguments)

    @contextmanager
    def chdir(self, folder: Path) -> Iterator[None]:
        yield

    def error(self, reason: str) -> None:
        raise RuntimeError(reason)

    def run(self, program: str, *arguments: str, silent: bool = False, env: Any = None, **_: object) -> str:
        assert program == "python"
        done = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, env=env, timeout=120)
        if done.returncode:
            raise CommandFailed(return_code=done.returncode)
        return done.stdout


@pytest.fixture
def noxfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The sessions, with a folder of their own for what they leave."""
    monkeypatch.setattr(matrix, "ARTIFACTS", tmp_path / "artifacts")
    monkeypatch.setattr(matrix, "NOTES", tmp_path / "notes")
    monkeypatch.setattr(nox, "session", lambda **options: lambda function: function)
    spec = importlib.util.spec_from_file_location("noxfile", matrix.ROOT / "noxfile.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("program", "reason"), [("pass", ""), ("raise SystemExit(3)", "night.py ended with status 3")])
def test_a_command_decides_its_row(program: str, reason: str, tmp_path: Path, noxfile: ModuleType) -> None:
    script = tmp_path / "night.py"
    script.write_text(
        "import os, pathlib, sys\n"
        f"pathlib.Path(sys.argv[1], os.environ['STACKGRAD_REQUIRED_BACKENDS']).touch()\n{program}\n"
    )
    row, session = Row("night", "3.11", ("dev",), ("reference",), command=(str(script),)), Here()
    if reason:
        with pytest.raises(CommandFailed):
            noxfile.run_row(session, row)
    else:
        noxfile.run_row(session, row)
    note = matrix.read_note(row)
    assert session.installed == [("--quiet", "--editable", ".[dev]")]
    assert note.reason.endswith(reason) and bool(note.reason) == bool(reason)
    assert dict(note.backends)["reference"].available
    assert [p.name for p in Path(note.artifacts).iterdir()] == ["reference"]


def test_a_row_whose_backend_is_absent_runs_nothing(tmp_path: Path, noxfile: ModuleType) -> None:
    row = Row("odd", "3.11", (), ("reference", "abacus"), command=(str(tmp_path / "is_not_there.py"),))
    with pytest.raises(RuntimeError, match="absent: abacus"):
        noxfile.run_row(Here(), row)
    assert matrix.read_note(row).reason == "required backends are absent: abacus (not in the registry)"


def test_every_row_is_a_session() -> None:
    command = [sys.executable, "-m", "nox", "--noxfile", str(matrix.ROOT / "noxfile.py"), "--list"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    rows = matrix.parse_matrix(matrix.MATRIX.read_text(encoding="utf-8"))
    wanted = [f"{'-' if row.needs else '*'} {matrix.list_rows([row]).replace(': ', ' -> ', 1)}" for row in rows]
    assert [line for line in listed.splitlines() if " -> " in line] == wanted


def test_nox_runs_what_was_asked_and_its_report_is_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row of an interpreter that nobody has needs no environment, so all of nox can be run on it."""
    monkeypatch.setattr(matrix, "ROOT", tmp_path)
    monkeypatch.setattr(matrix, "MATRIX", tmp_path / "matrix.toml")
    monkeypatch.setattr(matrix, "REPORT", tmp_path / "report.json")
    matrix.MATRIX.write_text('[[row]]\nname = "odd"\npython = "3.99"\nextras = []\nrequired = ["cpu"]\n')
    (tmp_path / "noxfile.py").write_text(
        "import nox\nnox.options.error_on_missing_interpreters = False\nnox.options.download_python = 'never'\n"
        "@nox.session(name='odd', python='3.99')\ndef odd(session): pass\n"
    )
    assert matrix.main(["--row", "odd"]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "odd  FAILED           0  -",
        "     python3.99 is not installed",
    ]


def test_without_nox_the_cure_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(matrix, "find_spec", lambda name: None)
    assert matrix.main(["--row", "cpu-3.11"]) == 2
    assert "cure: pip install 'stackgrad[dev]'" in capsys.readouterr().err


def test_requests_that_make_no_sense(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix.main(["--row", "nowhere"]) == 2
    assert "no row named nowhere" in capsys.readouterr().err


def test_rows_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix.main(["--list"]) == 0
    assert "cpu-3.11: Python 3.11, extras dev, requires reference, cpu\n" in capsys.readouterr().out


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
