"""This module lists the public names of the peers, module by module, from the lists in the folder `names`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

PEERS: dict[str, tuple[int, int, int]] = {"quadrants": (1, 3, 3), "taichi": (1, 7, 4)}
"""The peers, each with the version whose names are listed."""

FOLDER = Path(__file__).with_name("names")


@cache
def modules_of(peer: str) -> dict[str, tuple[str, ...]]:
    """Return the public names of each module of a peer.

    Args:
        peer: A key of PEERS.

    Returns:
        The names by the path of the module below the peer: "" for the peer itself, "lang.impl" for a module.
    """
    lines = (FOLDER / f"{peer}.txt").read_text(encoding="utf-8").splitlines()
    split = (line.partition(":") for line in lines)
    return {module.removeprefix(peer).removeprefix("."): tuple(names.split()) for module, _, names in split}


@cache
def paths_of(peer: str) -> frozenset[str]:
    """Return the paths of all modules of a peer, including packages that have no names of their own."""
    found = {"_lib.core", *modules_of(peer)}
    for path in tuple(found):
        parts = path.split(".")
        found.update(".".join(parts[:length]) for length in range(1, len(parts)))
    return frozenset(found)
