"""Test that the lists of names equal those of the peers in the environment that STACKGRAD_PEER_PYTHON names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from stackgrad.compat.peers import PEERS
from stackgrad.harness.tools.peers import installed, peer_python

SCRIPT = Path(__file__).with_name("peer_names.py")
LISTS = SCRIPT.resolve().parents[2] / "src" / "stackgrad" / "compat" / "names"
PRINT = "import sys; sys.path.insert(0, sys.argv[1]); import peer_names; print(peer_names.text_of(sys.argv[2]), end='')"


@pytest.mark.parametrize("peer", PEERS)
def test_the_list_is_that_of_the_peer(peer: str) -> None:
    if installed(peer, peer_python()) != ".".join(map(str, PEERS[peer])):
        pytest.skip(f"this version of {peer} is not installed")
    said = subprocess.run(
        [peer_python(), "-c", PRINT, str(SCRIPT.parent), peer], capture_output=True, text=True, timeout=300
    )
    lines = [line for line in said.stdout.splitlines(keepends=True) if line.startswith(peer)]
    assert "".join(lines) == (LISTS / f"{peer}.txt").read_text()
