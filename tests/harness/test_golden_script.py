"""Test `ci/golden.sh` in a clone: it reports a pass that computes something else, and no pass that only moves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import project_tree as tree
import pytest

ONLY = ("--", "--jobs", "1", "--only", "ops/select.kir:01-f32")


def git(clone: Path, *arguments: str) -> None:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=clone, check=True, capture_output=True)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository of one commit with the files of this checkout."""
    folder = tmp_path_factory.mktemp("clone")
    for path in tree.project_files():
        copy = folder / tree.relative(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
        copy.chmod(path.stat().st_mode)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")
    return folder


def edit(path: Path, pattern: str, replacement: str) -> None:
    """Change every match in a file that has one."""
    text, count = re.subn(pattern, replacement, path.read_text())
    assert count, pattern
    path.write_text(text)


def golden(clone: Path, *arguments: str) -> tuple[int, str]:
    """Run the script, and return its exit status and output."""
    environment = os.environ | {"BIN": str(Path(sys.executable).parent)}
    command = ["bash", str(clone / "ci/golden.sh"), *arguments]
    done = subprocess.run(command, cwd=clone.parent, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode != 2 or not arguments, done.stdout + done.stderr
    return done.returncode, done.stdout


@pytest.mark.expensive
def test_a_move_is_no_change_and_a_change_is_shown(clone: Path) -> None:
    driver = clone / "compiler/driver.py"
    (clone / "compiler/passes/number_loops.py").rename(clone / "compiler/ad/numbered.py")
    edit(driver, r"from \.passes\.number_loops import number_loops", "from .ad.numbered import number_loops as moved")
    edit(driver, r'\("number_loops", number_loops\)', '("numbered", moved)')
    status, said = golden(clone, "HEAD", *ONLY)
    assert status == 0 and "identical: 1 kernels" in said

    edit(driver, r'\("simplify", simplify\)', '("simplify", lambda k: replace(k, name=k.name + "x"))')
    status, said = golden(clone, "HEAD", *ONLY)
    assert status == 1 and "different: 1 of 1 kernels" in said
    assert re.search(r"ops/select\.kir:01-f32 differs first at 1\.forward\.\d\d \(simplify\)", said)
    assert "\n--- base\n+++ head\n" in said
    assert not list((clone / ".git/worktrees").glob("*"))


@pytest.mark.expensive
def test_a_base_whose_net_writes_another_form_gets_ours(clone: Path) -> None:
    git(clone, "checkout", "--quiet", "--", ".")
    git(clone, "clean", "--quiet", "--force", "-d")
    edit(clone / "harness/tools/golden/record.py", r"(?m)^MAGIC = .*$", 'MAGIC = "# stackgrad golden 99"')
    edit(clone / "harness/tools/golden/record.py", r"text\.text\.encode\(\)", 'text.text.encode() + b"another form"')
    status, said = golden(clone, "HEAD", *ONLY)
    assert status == 0 and "identical: 1 kernels" in said


def test_a_commit_must_be_named(clone: Path) -> None:
    assert golden(clone)[0] == 2
