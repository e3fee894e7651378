"""Processes that a program of a peer starts get stackgrad under the peer's name, as the program itself does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

from compat_programs import run  # noqa: E402

CHILD = """
import stackgrad as sg
from PEER.lang.impl import get_runtime
import PEER as peer

assert peer.kernel is sg.kernel and get_runtime() is peer.lang.impl.get_runtime()
peer.init(arch=peer.cpu)
x = peer.field(peer.i32, ())

@peer.kernel
def add():
    for i in range(5):
        x[None] += i

add()
print(x[None], peer.__name__)
"""

STARTS = """
import subprocess, sys
import PEER

ended = subprocess.run([sys.executable, "child.py"], capture_output=True, text=True)
print(ended.stdout + ended.stderr)
"""

SPAWNS = """
import multiprocessing, sys
import quadrants as qd

qd.init(arch=qd.cpu)

@qd.kernel
def squared(n: qd.i32) -> qd.i32:
    return n * n

def work(n):
    return squared(n), "stackgrad" in sys.modules

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [3, 4]))
"""


@pytest.mark.rotating
@pytest.mark.parametrize("peer", ["quadrants", "taichi"])
def test_a_script_in_a_process_of_its_own(tmp_path: Path, peer: str) -> None:
    (tmp_path / "child.py").write_text(CHILD.replace("PEER", peer))
    assert run(tmp_path, STARTS.replace("PEER", peer), peer).split() == ["10", peer]


@pytest.mark.expensive
def test_a_process_that_is_spawned(tmp_path: Path) -> None:
    assert run(tmp_path, SPAWNS).splitlines() == ["[(9, True), (16, True)]"]


@pytest.mark.expensive
def test_other_paths_are_kept_and_the_other_peer_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "own_module.py").write_text("NUMBER = 7\n")
    (tmp_path / "given" / "taichi.py").write_text("NUMBER = 8\n")
    (tmp_path / "given" / "quadrants.py").write_text("NUMBER = 9\n")
    (tmp_path / "child.py").write_text("import own_module, taichi, quadrants as qd\nprint(taichi.NUMBER, qd.kernel)\n")
    text = STARTS.replace("PEER", "quadrants")
    said = run(tmp_path, text, given={"PYTHONPATH": str(tmp_path / "given") + os.pathsep})
    assert said.startswith("8 <function kernel")
