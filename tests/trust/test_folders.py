"""Folders of strangers: what the commands read of them, what they refuse, and that they run and overwrite nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stackgrad.cli import main
from stackgrad.compiler.ir.types import f64
from stackgrad.harness.testing.executors import backend_by_name
from stackgrad.harness.tools import isolated_python, peers
from stackgrad.harness.tools.campaign import unit
from stackgrad.harness.tools.campaign.page import page
from stackgrad.harness.tools.campaign.plain_results import from_plain, to_plain
from stackgrad.harness.tools.campaign.report import report
from stackgrad.harness.tools.campaign.reproducers import reproducer
from stackgrad.harness.tools.campaign.spec import CampaignSpec
from stackgrad.harness.tools.campaign.store import CampaignStore
from stackgrad.harness.tools.findings.store import confirm
from stackgrad.harness.tools.fuzz import corpus
from stackgrad.harness.tools.fuzz.plan import FuzzPlan
from stackgrad.harness.tools.fuzz.result import JudgedComparison
from stackgrad.harness.tools.fuzz.statistics import Finding, Statistics
from stackgrad.harness.tools.model import Program, from_json, to_json
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.plain_data import MalformedDataError

I = m.Name("i")
SINE = m.Assign((m.Element("y", (I,)),), (m.Call("sin", (m.Element("x", (I,)),)),))
PROGRAM = Program(
    m.Kernel("k", (m.For(("i",), m.Over("x"), (SINE,)),)),
    (m.Field("x", f64, (2,), True), m.Field("y", f64, (2,), True)),
    (),
    m.Inputs((("x", (0.5, 1.0)), ("y", (0.0, 0.0))), (), (("x", (0.0, 0.0)), ("y", (1.0, 1.0)))),
    f64,
)
JUDGED = (JudgedComparison("reverse", "dual", "lean", "disagree", "it did"),)
COMMANDS = ("replay", "reduce", "bisect")


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    return corpus.write(tmp_path / "corpus", Finding(PROGRAM, FuzzPlan(("cpu",)), JUDGED))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says that ends with status 2, in one line, without a trace of Python."""
    capsys.readouterr()
    assert main([*arguments]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err and said.err.count("\n") == 1 and said.err[:-1].isprintable()
    return said.err


# ---- entries ------------------------------------------------------------------------------------------------------


def with_name(name: str) -> Callable[[Path], None]:
    def change(entry: Path) -> None:
        data = json.loads((entry / "program.json").read_text())
        data["kernel"]["name"] = name
        (entry / "program.json").write_text(json.dumps(data))

    return change


def in_plan(**values: Any) -> Callable[[Path], None]:
    def change(entry: Path) -> None:
        data = json.loads((entry / "plan.json").read_text())
        data["plan"] |= values
        (entry / "plan.json").write_text(json.dumps(data))

    return change


def instead_of(name: str, put: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(entry: Path) -> None:
        (entry / name).unlink()
        put(entry / name)

    return change


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


CANARY = "open('canary', 'w')"
ATTACKS: dict[str, tuple[Callable[[Path], None], str]] = {
    "code in a name": (
        with_name(f"k(): ...; import os; {CANARY}"),
        "program.json is no part of a corpus: $.kernel.name",
    ),
    "a builtin as a name": (with_name("exec"), "$.kernel.name: 'exec' is not a name"),
    "code in a plan": (in_plan(policy=CANARY), "plan.json is no part of a corpus: $.plan.policy"),
    "a plan that never ends": (in_plan(launches=10**9), "$.plan.launches: 1000000000 is not from 1 to 8"),
    "a backend of a path": (in_plan(backends=["../../x"]), "$.plan.backends[0]"),
    "an unknown key": (in_plan(command="x"), "'command' is no field of FuzzPlan"),
    "escapes of terminals": (in_plan(relate_on="\x1b[2J"), "$.plan.relate_on: '\\x1b[2J'"),
    "nested lists": (lambda e: (e / "plan.json").write_text("[" * 100_000), "nested too deeply"),
    "other bytes": (lambda e: (e / "plan.json").write_bytes(b"\xff\xfe"), "no text in UTF-8"),
    "a link": (instead_of("program.json", lambda p: p.symlink_to("/etc/passwd")), "it is a link, not a file"),
    "a link to a device": (instead_of("plan.json", lambda p: p.symlink_to("/dev/zero")), "it is a link, not a file"),
    "a pipe": (instead_of("program.json", os.mkfifo), "it is a pipe, not a file"),
    "a folder": (instead_of("plan.json", Path.mkdir), "it is a folder, not a file"),
    "an endless file": (instead_of("program.json", sparse), "it is longer than"),
    "no plan": (lambda e: (e / "plan.json").unlink(), "plan.json is no part of a corpus: No such file"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_command_refuses_the_entry(
    entry: Path, attack: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    change, reason = ATTACKS[attack]
    change(entry)
    for root in (entry, entry.parent):
        with pytest.raises(ValueError) as caught:
            list(corpus.entries([root]))
        assert reason in str(caught.value) and "; cure: " in str(caught.value)
    assert reason in refused(capsys, "replay", str(entry.parent), "--backends", "cpu")
    assert not (tmp_path / "canary").exists()


def test_reduce_bisect_and_fuzz_refuse_it_too(
    entry: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """fuzz reads the folder `fuzz-corpus` where it is started."""
    monkeypatch.chdir(tmp_path)
    change, reason = ATTACKS["code in a name"]
    change(entry)
    entry.parent.rename("fuzz-corpus")
    for command in (
        ("reduce", f"fuzz-corpus/{entry.name}"),
        ("bisect", f"fuzz-corpus/{entry.name}"),
        ("fuzz", "--cases", "1", "--seed", "3"),
    ):
        assert reason in refused(capsys, *command, "--backends", "cpu")
    assert not (tmp_path / "canary").exists()


@pytest.mark.expensive
def test_files_for_people_are_not_run(entry: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither case.py, nor modules that lie about where the command is started."""
    monkeypatch.chdir(entry)
    liars(entry)
    for name in ("case.py", "sitecustomize.py", "conftest.py"):
        (entry / name).write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\n")
    (entry / "kernel.ir").write_text("import os")
    assert main(["replay", ".", "--backends", "cpu"]) == 0
    assert main(["bisect", ".", "--backends", "cpu"]) == 0
    assert not (tmp_path / "canary").exists()


def test_links_to_entries_are_not_followed_but_the_user_may_name_one(entry: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "link").symlink_to(entry)
    with pytest.raises(ValueError, match="link is no part of a corpus: it is a link, not a folder"):
        list(corpus.entries([tmp_path / "other"]))
    assert [e.program for e in corpus.entries([tmp_path / "other" / "link"])] == [PROGRAM]


@pytest.mark.expensive
def test_a_program_that_is_none_ends_with_a_word(
    entry: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Data of the model that no compiler takes: a finding to replay, and a word of the others."""
    bad = replace(PROGRAM, kernel=m.Kernel("k", (m.Evaluate(m.Invoke("absent", ())),)))
    (entry / "program.json").write_text(to_json(bad))
    assert main(["replay", str(entry), "--backends", "cpu"]) == 1
    for command in ("reduce", "bisect"):
        capsys.readouterr()
        assert main([command, str(entry), "--backends", "cpu"]) in (1, 2)
        assert "Traceback" not in capsys.readouterr().err


# ---- what is written ----------------------------------------------------------------------------------------------


def test_links_are_replaced_and_not_written_through(entry: Path, tmp_path: Path) -> None:
    """The name of an entry can be guessed: it hangs on the program alone."""
    mine = tmp_path / "mine"
    mine.write_text("of the user")
    for name in ("program.json", "plan.json", "case.py", "kernel.ir", "verdict.txt"):
        (entry / name).unlink()
        (entry / name).symlink_to(mine)
    again = corpus.write(entry.parent, Finding(PROGRAM, FuzzPlan(("cpu",)), JUDGED))
    assert again == entry and corpus.read(entry).program == PROGRAM
    assert mine.read_text() == "of the user" and not any(p.is_symlink() for p in entry.iterdir())
    assert not list(entry.glob("*.part"))


def test_a_link_in_place_of_an_entry_is_refused(
    entry: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real = entry.rename(tmp_path / "real")
    before = {p.name: p.stat().st_mtime_ns for p in real.iterdir()}
    entry.symlink_to(real)
    with pytest.raises(OSError, match="it is a link"):
        corpus.write(entry.parent, Finding(PROGRAM, FuzzPlan(("cpu",)), JUDGED))
    assert {p.name: p.stat().st_mtime_ns for p in real.iterdir()} == before


# ---- campaigns ----------------------------------------------------------------------------------------------------


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """One unit with one finding."""
    store = CampaignStore(tmp_path / "campaign", CampaignSpec(7, 3, ("cpu",)))
    statistics = Statistics(7, cases=1, elapsed=1.0, findings=[Finding(PROGRAM, FuzzPlan(("cpu",)), JUDGED, seed=7)])
    statistics.outcomes["disagreement"] = 1
    statistics.comparisons["reverse", "dual", "disagree"] = 1
    statistics.features["statement For", "reverse", "dual", "disagree"] = 1
    store.put({"unit": 0, "ended": 1.0, **to_plain(statistics)})
    return store.folder


def strings(data: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Places of all words, keys of objects aside."""
    if isinstance(data, str):
        return [place]
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [found for step, value in parts for found in strings(value, (*place, step))]


def numbers(data: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(data, int | float):
        return [place]
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [found for step, value in parts for found in numbers(value, (*place, step))]


def put(data: Any, place: tuple[Any, ...], value: Any) -> Any:
    made = json.loads(json.dumps(data))
    inside = made
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value
    return made


MARKUP = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[2J"


def test_pages_escape_what_campaigns_say(campaign: Path) -> None:
    """Each word of a unit is replaced by markup: it is refused, or stands in the page as text."""
    path = campaign / "units" / "0000000.json"
    data, shown = json.loads(path.read_text()), 0
    for place in strings(data):
        path.write_text(json.dumps(put(data, place, MARKUP)))
        try:
            html = page(report(CampaignStore(campaign)))
        except ValueError as error:
            assert "0000000.json is no part of a corpus: $" in str(error) and str(error).isprintable()
            continue
        shown += 1
        assert "<script" not in html and "<img" not in html and "&lt;script&gt;" in html and "\x1b" not in html
    assert shown >= 1


def test_numbers_of_campaigns_are_numbers(campaign: Path) -> None:
    path = campaign / "units" / "0000000.json"
    data = json.loads(path.read_text())
    for place in numbers(data):
        for value in (MARKUP, None, [], {}, 10**400):
            path.write_text(json.dumps(put(data, place, value)))
            try:
                assert "<script" not in page(report(CampaignStore(campaign)))
            except ValueError as error:
                assert "0000000.json is no part of a corpus: $" in str(error)


def test_commands_of_campaigns_refuse_other_data(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = campaign / "units" / "0000000.json"
    data = json.loads(path.read_text())
    program = data["findings"][0]["program"].replace('"name": "k"', f'"name": "k(): ...; {CANARY}"')
    path.write_text(json.dumps(put(data, ("findings", 0, "program"), program)))
    assert "0000000.json is no part of a corpus: $.kernel.name" in refused(capsys, "report", str(campaign))
    assert "0000000.json" in refused(capsys, "campaign", str(campaign), "--cases", "1")
    path.unlink()
    os.mkfifo(path)
    assert "it is a pipe" in refused(capsys, "report", str(campaign))
    path.unlink()
    for text, reason in (
        ('{"seed": 1, "mutant": "os.system"}', "$.mutant"),
        ('{"seed": 1, "backends": ["cpu; x"]}', "$.backends[0]"),
        ('{"seed": 1, "size": 0}', "$.size"),
        ('{"seed": 1, "backends": ["absent"]}', "no backend 'absent'"),
    ):
        (campaign / "campaign.json").write_text(text)
        assert reason in refused(capsys, "report", str(campaign))


def test_a_report_replaces_links(campaign: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("of the user")
    for name in ("report.html", "report.json"):
        (campaign / name).symlink_to(mine)
    assert main(["report", str(campaign)]) == 0
    assert mine.read_text() == "of the user" and "<h1>" in (campaign / "report.html").read_text()


@pytest.mark.expensive
def test_units_import_nothing_from_where_they_are_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    liars(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert unit.run_apart(CampaignSpec(9000, 1, ("cpu",)).to_json(), 0)["cases"] == 1
    assert not (tmp_path / "canary").exists()


@pytest.mark.expensive
def test_a_command_started_in_the_folder_of_a_stranger(entry: Path, tmp_path: Path) -> None:
    """The command and the processes that it starts."""
    liars(entry.parent)
    command = Path(sys.executable).with_name("stackgrad")
    replay = [command, "replay", ".", "--backends", "cpu"]
    ended = subprocess.run(replay, capture_output=True, text=True, cwd=entry.parent)
    assert ended.returncode == 0 and "replayed 1 entries, 0 failed" in ended.stdout, ended.stderr
    assert not (entry.parent / "canary").exists()


def test_asking_for_the_version_of_a_peer_imports_nothing_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    liars(tmp_path)
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    assert peers.installed("absent-package", str(other)) is None
    assert not (tmp_path / "canary").exists()


def liars(folder: Path) -> None:
    """Modules that have the names of those that a process imports first."""
    names = "json numpy subprocess runpy stackgrad random multiprocessing csv email re ast"
    for name in names.split():
        (folder / f"{name}.py").write_text("open('canary', 'w')\nraise SystemExit(9)\n")


def test_scripts_of_findings_import_nothing_that_lies_beside_them(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("open('canary', 'w')\n")
    script = tmp_path / "found.py"
    script.write_text("import sys\nimport numpy\nprint(numpy.__version__, sys.argv)\nsys.exit(3)\n")
    status, said = confirm(script)
    assert status == 3 and said.endswith(f"['{script}']\n") and said[0].isdigit()
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, cwd=tmp_path)
    assert plain.returncode == 1 and (tmp_path / "canary").exists(), "run as a plain script it does import it"
    assert isolated_python.script_command("python3", "x")[0] == "python3"


def test_native_code_of_a_report_runs_only_what_the_reference_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index outside would write somewhere into this process."""
    cpu = backend_by_name("cpu")
    outside = m.Assign((m.Element("y", (m.Number(1 << 20),)),), (m.Number(1.0),))
    bad = replace(PROGRAM, kernel=m.Kernel("k", (outside,)))
    finding = Finding(bad, FuzzPlan(("cpu",)), (JudgedComparison("forward", "cpu", "plain", "disagree", "it did"),))
    monkeypatch.setattr(type(cpu), "compile", lambda *args: pytest.fail("compiled"))
    found = reproducer(finding, {"cpu": cpu})["results"]
    assert "OutOfBounds" in found["reference"][""] and "not run" in found["cpu"][""]


def test_a_result_of_a_worker_stays_in_the_corpus(campaign: Path) -> None:
    """The name of the folder of a finding is made of what was compared."""
    data = json.loads((campaign / "units" / "0000000.json").read_text())
    for place in (("findings", 0, "judged", 0, "executor"), ("findings", 0, "judged", 0, "direction")):
        with pytest.raises(MalformedDataError):
            from_plain(put(data, place, "../../../outside"))
    assert from_json(data["findings"][0]["program"]) == PROGRAM
