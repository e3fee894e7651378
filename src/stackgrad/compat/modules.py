"""Define objects that act as modules of a peer and look up each name when a program first uses it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from .lookup import MissingName, value_of
from .peers import PEERS, modules_of


class PeerModule(ModuleType):
    """Represent a module of a peer, such as `quadrants.lang.impl`.

    Attributes:
        stackgrad_peer: Name of the peer.
        stackgrad_path: Path of the module below the peer; "" for the peer itself.
    """

    stackgrad_peer: str
    stackgrad_path: str

    def __init__(self, peer: str, path: str) -> None:
        super().__init__(f"{peer}.{path}" if path else peer, f"The names of {peer}, from stackgrad.")
        self.stackgrad_peer, self.stackgrad_path = peer, path
        self.__all__ = [name for name in modules_of(peer).get(path, ()) if not name.startswith("_")]
        # Programs change the builtins of modules of a peer, which must not reach those of this process.
        self.__builtins__: dict[str, Any] = {}
        if not path:
            self.__version__ = PEERS[peer]
            self.__version_str__ = ".".join(map(str, PEERS[peer]))

    def __getattr__(self, name: str) -> Any:
        """Return and store the value of a name. Raise MissingName, an AttributeError with a cure, if it has none."""
        if name.startswith(("__", "stackgrad_", "is_stackgrad_")):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value, is_lasting = value_of(self.stackgrad_peer, self.stackgrad_path, name)
        if is_lasting:
            setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self.__all__})

    def __reduce__(self) -> Any:
        return import_module, (self.__name__,)


__all__ = ["MissingName", "PeerModule"]
