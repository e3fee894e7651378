"""Kept results of benchmarks name no host, and belong to commits of this history."""

from __future__ import annotations

import json
import platform
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bench_machine
import project_tree as tree
import pytest

FOLDER = tree.ROOT / "asv_bench/results"
FIELDS = {"arch", "cpu", "machine", "num_cpu", "os", "ram"}
SYSTEMS = {"Linux", "Darwin", "Windows"}


def git(*words: str) -> list[str]:
    command = ["git", "-c", "safe.directory=*", *words]
    return subprocess.run(command, cwd=tree.ROOT, check=True, capture_output=True, text=True).stdout.split()


def kept() -> dict[str, dict[str, Any]]:
    """The files of results that git knows, with their contents."""
    paths = [path for path in git("ls-files", "asv_bench/results/*.json") if (tree.ROOT / path).is_file()]
    return {path: json.loads((tree.ROOT / path).read_text(encoding="utf-8")) for path in paths}


def too_much(machine: dict[str, Any]) -> list[str]:
    """What a description of a machine tells beside its kind."""
    told = [key for key in machine if key not in FIELDS | {"version"}]
    return told + [f"{key}: {machine[key]}" for key in ("os",) if machine[key] not in SYSTEMS]


def test_machines_of_kept_results_tell_their_kind_alone() -> None:
    for path, content in kept().items():
        if Path(path).name == "machine.json":
            assert too_much(content) == [], path
        elif "params" in content:
            assert set(content["params"]) >= FIELDS and content["params"]["os"] in SYSTEMS, path
            assert Path(path).parent.name == content["params"]["machine"]


def test_kept_results_belong_to_commits_of_this_history() -> None:
    if git("rev-parse", "--is-shallow-repository") == ["true"]:
        pytest.skip("this clone is shallow")
    measured = {content["commit_hash"] for content in kept().values() if "commit_hash" in content}
    assert measured <= set(git("rev-list", "HEAD"))


def test_what_asv_would_tell_is_too_much() -> None:
    ours = {"arch": "x86_64", "cpu": "c", "machine": "cpu-2-cores", "num_cpu": "2", "os": "Linux", "ram": "8 GiB"}
    assert too_much(ours) == []
    assert too_much({**ours, "os": f"{platform.system()} 6.1.0"}) == [f"os: {platform.system()} 6.1.0"]
    assert too_much({**ours, "node": "box"}) == ["node"]


def test_a_machine_is_described_without_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("asv") is None:
        pytest.skip("asv is not installed: extra `bench`")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert bench_machine.register() == f"cpu-{bench_machine.cores()}-cores"
    assert bench_machine.register("quiet") == "quiet"
    told = json.loads((tmp_path / ".asv-machine.json").read_text())
    assert set(told) == {"quiet", bench_machine.register(), "version"}
    assert told["quiet"]["machine"] == "quiet" and set(told["quiet"]) == FIELDS and too_much(told["quiet"]) == []


def test_memory_is_told_in_whole_gibibytes() -> None:
    assert bench_machine.gibibytes(25277489152) == "24 GiB"
