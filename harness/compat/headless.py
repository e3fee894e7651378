"""Run a program of Taichi on stackgrad without a display: `python headless.py SCRIPT [ARGS...]`.

This file is started as a script. Windows and plots of the program are replaced by objects that take every call and do
nothing; what the program computes is not touched.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

PICTURES = ("cv2", "matplotlib", "imageio")
"""Packages that only draw or write pictures."""


class Silence:
    """Represent something that draws: every attribute and every call gives a silence again; it is an empty sequence."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: object, **named: object) -> Silence:
        """Return a silence for any call."""
        return self

    def __iter__(self) -> Iterator[Silence]:
        return iter(())

    def __enter__(self) -> Silence:
        return self

    def __exit__(self, *exception: object) -> None:
        """Let exceptions pass."""

    def __bool__(self) -> bool:
        return False


class SilentModule(ModuleType):
    """Represent a module that draws: each of its names is a silence."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Silence()


class SilentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Find the packages of pictures and make silent modules of them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a silent module, or None for another module."""
        if fullname.partition(".")[0] not in PICTURES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return a silent module."""
        return SilentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a silent module has no content."""


WINDOWS = ("imshow", "waitKey", "namedWindow", "destroyAllWindows")
"""Functions of OpenCV that need a display."""


def hide_windows() -> None:
    """Replace the functions that need a display, in packages that are installed; a missing package draws nothing."""
    sys.meta_path.append(SilentFinder())
    if importlib.util.find_spec("cv2") is not None:
        cv2 = importlib.import_module("cv2")
        for name in WINDOWS:
            setattr(cv2, name, Silence())


def main(script: str, arguments: list[str]) -> None:
    """Run a program as Python would, with Taichi on stackgrad and nothing drawn."""
    from stackgrad.compat.finder import install

    hide_windows()
    peer = install("taichi")
    peer.GUI = Silence()  # type: ignore[attr-defined]
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
