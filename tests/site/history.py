"""Write a small history of results in asv's own format: a repository of some commits, and numbers for each of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

MACHINE = {"arch": "x86_64", "cpu": "a CPU", "machine": "cpu-2-cores", "num_cpu": "2", "os": "Linux", "ram": "8 GiB"}
TIMES = {"bench_a.Work.time_forward": "seconds", "bench_b.Work.track_bytes": "bytes"}
"""The benchmarks, with their units."""
COMMITS = 5


def git(folder: Path, *words: str) -> str:
    """Run git in a folder and return what it prints."""
    settings = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def repository(folder: Path) -> list[str]:
    """Make a repository with some commits, and return their hashes, the oldest first."""
    git(folder, "init", "--quiet", "--initial-branch", "main")
    for number in range(COMMITS):
        git(folder, "commit", "--quiet", "--allow-empty", "--message", f"commit {number}")
    return git(folder, "rev-list", "--reverse", "HEAD").split()


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a file of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def benchmark(name: str) -> dict[str, Any]:
    """Return how asv describes a benchmark."""
    kind = "time" if ".time_" in name else "track"
    told = {"code": "pass", "name": name, "type": kind, "unit": TIMES[name], "version": "1", "timeout": 60}
    return {**told, "param_names": [], "params": []}


def result(commit: str, number: int) -> dict[str, Any]:
    """Return the numbers of a commit."""
    return {
        "commit_hash": commit,
        "date": 1_700_000_000_000 + 86_400_000 * number,
        "env_name": "virtualenv-py3.11",
        "env_vars": {},
        "params": {**MACHINE, "python": "3.11"},
        "python": "3.11",
        "requirements": {},
        "durations": {},
        "result_columns": ["result", "params", "version"],
        "results": {name: [[0.5 + number % 3], [], "1"] for name in TIMES},
        "version": 2,
    }


def make(folder: Path) -> Path:
    """Make a repository with benchmarks that have results, and return the configuration of asv."""
    commits = repository(folder)
    for number, commit in enumerate(commits):
        write(folder / f"results/cpu-2-cores/{commit[:8]}-virtualenv-py3.11.json", result(commit, number))
    write(folder / "results/cpu-2-cores/machine.json", {**MACHINE, "version": 1})
    write(folder / "results/benchmarks.json", {**{name: benchmark(name) for name in TIMES}, "version": 2})
    (folder / "benchmarks").mkdir()
    configuration = folder / "asv.conf.json"
    settings = {"version": 1, "project": "small", "repo": ".", "branches": ["HEAD"], "environment_type": "virtualenv"}
    write(configuration, {**settings, "results_dir": "results", "html_dir": "html", "env_dir": "env"})
    return configuration
