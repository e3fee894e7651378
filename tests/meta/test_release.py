"""What is released: one place has the version, the list of changes has its section, and the check notices mistakes.

`python ci/run_matrix.py --row release` builds, installs and tests the files themselves.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import check_release as release
import project_tree as tree
import pytest
import quick_bench
import stackgrad
from check_release import ReleaseError

CHANGES = (tree.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def sections(text: str) -> list[str]:
    """The versions that a list of changes has sections for, newest first."""
    return re.findall(r"^## (\S+?),? ", text, re.MULTILINE)


def test_one_place_has_the_version() -> None:
    settings = tomllib.loads((tree.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in settings["project"] and settings["project"]["dynamic"] == ["version"]
    assert settings["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "stackgrad.__version__"}
    holders = [
        tree.relative(path)
        for path in tree.modules().values()
        if re.search(r"^__version__ = ", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert holders == ["src/stackgrad/__init__.py"]


def test_setuptools_reads_the_version_that_programs_see() -> None:
    code = "import sys, setuptools; sys.argv = ['setup.py', '--version']; setuptools.setup()"
    command = [sys.executable, "-W", "ignore", "-c", code]
    read = subprocess.run(command, cwd=tree.ROOT, check=True, capture_output=True, text=True, timeout=120).stdout
    assert read.split()[-1] == stackgrad.__version__


def test_the_version_at_hand_has_its_section() -> None:
    assert sections(CHANGES)[0] == stackgrad.__version__
    newest = CHANGES.split("\n## ")[1]
    assert newest.count("\n* ") > 10, "changes are listed"


def test_sections_are_read() -> None:
    assert sections("# Changes\n\n## 0.2.0, not yet released\n\n## 0.1.0 (2026-11-30)\n") == ["0.2.0", "0.1.0"]


def test_what_runs_against_the_wheel_is_there() -> None:
    assert all((tree.ROOT / path).exists() for path in release.TESTS)
    assert "sines.grad()" in release.program((tree.ROOT / "README.md").read_text(encoding="utf-8"))
    with pytest.raises(ReleaseError, match="no program"):
        release.program("# Nothing\n")


def test_a_package_of_another_place_or_version_is_noticed(tmp_path: Path) -> None:
    wheel, inside = tmp_path / "stackgrad-0.1.0-py3-none-any.whl", tmp_path / "lib/stackgrad/__init__.py"
    release.check_place(f"0.1.0 {inside}\n", wheel, tmp_path)
    with pytest.raises(ReleaseError, match="comes from /elsewhere/stackgrad, not from the wheel"):
        release.check_place("0.1.0 /elsewhere/stackgrad\n", wheel, tmp_path)
    with pytest.raises(ReleaseError, match="holds version 0.2.0"):
        release.check_place(f"0.2.0 {inside}\n", wheel, tmp_path)


def test_a_command_that_fails_stops_the_check(capfd: pytest.CaptureFixture[str]) -> None:
    assert release.run(sys.executable, "-c", "print(1)") == "1\n"
    with pytest.raises(ReleaseError, match="status 3"):
        release.run(sys.executable, "-c", "raise SystemExit(3)")


def test_numbers_and_pages_of_benchmarks_are_kept(tmp_path: Path) -> None:
    for folder in ("results/box", ".asv/html"):
        (tmp_path / "asv" / folder).mkdir(parents=True)
        (tmp_path / "asv" / folder / "1.json").write_text("{}")
    quick_bench.keep(tmp_path / "asv", tmp_path / "kept")
    kept = {path.relative_to(tmp_path / "kept").as_posix() for path in (tmp_path / "kept").rglob("*.json")}
    assert kept == {"results/box/1.json", "html/1.json"}
    measure, publish = quick_bench.commands("box", [])
    assert "--quick" in measure and measure[-1] == "HEAD^!" and publish[-2:] == ["publish", "HEAD"]
    assert measure[measure.index("--machine") + 1] == "box"
    assert "--quick" not in quick_bench.commands("box", ["--bench", "Launch"])[0]
