"""This package lets Python processes that a program starts import the peer's name as the program itself does.

It has one folder for each peer, with one module that is named like the peer. The folder stands in PYTHONPATH, and in
`sys.path` for processes that `multiprocessing` spawns, so that an import of the peer there runs that module.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def reach(peer: str) -> None:
    """Make imports of a peer give stackgrad in every Python process that this one starts from now on.

    Args:
        peer: "quadrants" or "taichi".
    """
    folder = str(Path(__file__).parent / peer)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", folder)]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *paths])
    if folder not in sys.path:
        sys.path.insert(0, folder)
