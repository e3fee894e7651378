"""Define the truth of vectors and matrices as in the peers, where each of them is true, whatever its entries."""

from __future__ import annotations

from ..compiler.errors import warn


def peer_truth() -> bool:
    """Return True, and warn that a comparison of two different vectors counts as true, too."""
    warn(
        "every vector and matrix counts as true in this program, as in the peer, even a comparison of two that differ; "
        "cure: use .all() or .any(), which look at the entries",
        RuntimeWarning,
    )
    return True
