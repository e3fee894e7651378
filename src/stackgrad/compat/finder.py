"""Make imports of a peer give stackgrad, by a finder in front of `sys.meta_path` that creates the peer's modules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from ..runtime.session import RUNTIME
from ..runtime.usage_errors import UsageError
from .modules import PeerModule
from .peers import PEERS, paths_of
from .truth import peer_truth


class PeerFinder(MetaPathFinder, Loader):
    """Find and load the modules of one peer, for Python's import system.

    Attributes:
        peer: Name of the peer, which is the name of its outermost module.
    """

    def __init__(self, peer: str) -> None:
        self.peer = peer

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the peer, or None for any other module."""
        root, _, below = fullname.partition(".")
        if root != self.peer or (below and below not in paths_of(self.peer)):
            return None
        # Every module may be asked for submodules, so each one is a package.
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module of a spec."""
        _, _, below = spec.name.partition(".")
        return PeerModule(self.peer, below)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing when a module is executed, because each name is looked up at its first use."""


def install(peer: str) -> ModuleType:
    """Make every import of a peer in this process give stackgrad under the peer's names.

    Args:
        peer: "quadrants" or "taichi".

    Returns:
        The outermost module of the peer.

    Raises:
        UsageError: There is no such peer, or the peer itself was imported before.
    """
    if peer not in PEERS:
        raise UsageError(f"there is no peer {peer!r}", f"name one of {', '.join(PEERS)}")
    present = sys.modules.get(peer)
    if present is not None and not isinstance(present, PeerModule):
        raise UsageError(f"{peer} itself is imported already", "install before the first import of it")
    if present is None:
        sys.meta_path.insert(0, PeerFinder(peer))
        RUNTIME.matrix_truth = peer_truth
        __import__(peer)
    return sys.modules[peer]
