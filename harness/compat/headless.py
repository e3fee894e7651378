"""Run a program of Taichi on stackgrad without a display: `python headless.py SCRIPT [ARGS...]`.

This file is started as a script. Windows and plots of the program are replaced by objects that take every call and do
nothing; what the program computes is not touched.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

PICTURES = ("cv2", "matplotlib", "imageio")
"""Packages that only draw or write pictures."""


class Silence:
    """Represent a dummy for windows, plots and images: each attribute or call of a dummy is the dummy itself.

    As a sequence it is empty.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: object, **named: object) -> Silence:
        """Return the dummy itself, whatever the arguments are."""
        return self

    def __iter__(self) -> Iterator[Silence]:
        return iter(())

    def __enter__(self) -> Silence:
        return self

    def __exit__(self, *exception: object) -> None:
        """Let an exception of the `with` block pass on to the caller."""

    def __bool__(self) -> bool:
        return False


class SilentModule(ModuleType):
    """Represent a dummy module in place of a package that draws: each of its names is a `Silence`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Silence()


class SilentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Load a `SilentModule` in place of each package that draws, when a program imports it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a dummy module if the name belongs to a package that draws, else None."""
        if fullname.partition(".")[0] not in PICTURES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return a new dummy module for a spec of `find_spec`."""
        return SilentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing, because a dummy module has no code to run."""


def main(script: str, arguments: list[str]) -> None:
    """Run a program of Taichi as Python would, on stackgrad and without drawing anything."""
    from stackgrad.compat.finder import install

    sys.meta_path.insert(0, SilentFinder())
    peer = install("taichi")
    peer.GUI = Silence()  # type: ignore[attr-defined]
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
