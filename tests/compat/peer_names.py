"""List the public names of Quadrants and Taichi by module:  PYTHON_OF_THE_PEERS tests/compat/peer_names.py

The lists lie in `src/stackgrad/compat/names/` and hold names alone. This script imports nothing of stackgrad, because
it runs in an interpreter where the peers are installed; tests/compat/test_peers.py compares the lists with those.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

PEERS = ("quadrants", "taichi")
FOLDER = Path(__file__).resolve().parents[2] / "src" / "stackgrad" / "compat" / "names"
SKIPPED = ("examples", "assets", "shaders", "_test_tools", "_ti_module", "_main", "__main__", "core", "runtime")
"""Parts of a module's path that are programs or native code, not what a program imports."""


def is_public(module: ModuleType, name: str) -> bool:
    """Return True if a name of a module that lists none is meant for programs: defined in the peer, or plain data."""
    value = getattr(module, name)
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    root = module.__name__.partition(".")[0]
    if isinstance(value, ModuleType):
        return home.startswith(f"{root}.")
    return not home or home.startswith(root) or isinstance(value, int | float | str)


def is_below(module: ModuleType, name: str) -> bool:
    """Return True if a name of a package is defined in the package, or is a scalar type of the native module."""
    value = getattr(module, name)
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    return home.startswith(f"{module.__name__}.") or type(value).__name__ in ("DataType", "DataTypeCxx")


def names_of(module: ModuleType) -> list[str]:
    """Return the public names of a module, sorted."""
    listed = getattr(module, "__all__", None)
    found: set[str] = set(listed or ())
    # The list of a package leaves out names that its programs use: `quadrants.types` lists a single one.
    if listed is None or "." not in module.__name__:
        found.update(name for name in dir(module) if is_public(module, name))
    elif hasattr(module, "__path__"):
        found.update(name for name in dir(module) if is_below(module, name))
    return sorted(name for name in found if name.isidentifier() and not name.startswith("_"))


def modules_of(peer: str) -> Iterator[ModuleType]:
    """Yield each module of a peer with its name; modules that need a missing package or a screen are left out."""
    root = importlib.import_module(peer)
    yield root
    for info in pkgutil.walk_packages(root.__path__, f"{peer}.", onerror=lambda name: None):
        if not any(part in SKIPPED or part.startswith("runtime_") for part in info.name.split(".")):
            with contextlib.suppress(ImportError):
                yield importlib.import_module(info.name)


def text_of(peer: str) -> str:
    """Return the list of a peer's names, with one line for each module."""
    with contextlib.redirect_stdout(io.StringIO()):
        return "".join(
            f"{module.__name__}: {' '.join(names_of(module))}".rstrip() + "\n" for module in modules_of(peer)
        )


if __name__ == "__main__":
    for given in sys.argv[1:] or PEERS:
        (FOLDER / f"{given}.txt").write_text(text_of(given))
