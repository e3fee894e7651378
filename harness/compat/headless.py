"""Run a program of Taichi on stackgrad without a display: `python headless.py ITERATIONS SCRIPT ...`.

This file is started as a script. Windows and written pictures of the program are replaced by objects that take every
call and do nothing; what the program computes is not touched.
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

if __package__:
    from . import watches
else:  # It runs as a script, for an interpreter that may lack this package.
    import watches  # type: ignore[import-not-found,no-redef]

PICTURES = ("cv2", "matplotlib", "imageio")
"""Packages that read, draw or write pictures; a program that only draws runs without them."""


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
    """Find the packages of pictures that are not installed and make silent modules of them."""

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


DRAWING = {
    "cv2": ("imshow", "waitKey", "namedWindow", "destroyAllWindows", "imwrite"),
    "imageio": ("imwrite", "imsave", "mimsave"),
}
"""Functions of packages of pictures that need a display, or that only write pictures."""


def hide_windows() -> None:
    """Replace functions that draw or write pictures, and every package of pictures that is not installed.

    What a program reads from pictures is left alone, because it computes with it.
    """
    sys.meta_path.append(SilentFinder())
    for package, names in DRAWING.items():
        module = importlib.import_module(package)
        for name in names:
            setattr(module, name, Silence())


def main(iterations: int, script: str, arguments: list[str]) -> None:
    """Run a program as Python would, with Taichi on stackgrad and nothing drawn.

    Args:
        iterations: the number of gradients after which the program is stopped; 0 for no limit.
        script: the program.
        arguments: its arguments.
    """
    from stackgrad.compat.finder import install

    hide_windows()
    peer = install("taichi")
    peer.GUI = Silence()  # type: ignore[attr-defined]
    if iterations:
        watch = watches.Watch(peer, iterations, keeps=False)
        watches.watch_tapes(peer, watch)
        watches.watch_clears(peer, watch)
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except watches.Stopped:
        print(f"stopped after {iterations} gradients")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
