"""This script makes `.links/stackgrad`, the package as one tree of symbolic links, for static checkers.

The folders of a checkout are mapped into the package by pyproject.toml, and an editable install follows that map with
an import hook that static checkers do not know. Invariant: the tree holds a link for each entry of the root package and
one for each mapped folder, and nothing else; all links are relative.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def package_folders(pyproject: Path) -> dict[str, str]:
    """Return a mapping from each package in pyproject.toml to its folder: {"stackgrad.compiler": "compiler", ...}."""
    with pyproject.open("rb") as file:
        return dict(tomllib.load(file)["tool"]["setuptools"]["package-dir"])


def wanted_links(root: Path, folders: dict[str, str]) -> dict[str, Path]:
    """Return a mapping from the path of each symbolic link in the tree to its target."""
    top = next(name for name in folders if "." not in name)
    entries = sorted(p for p in (root / folders[top]).iterdir() if p.name != "__pycache__")
    links = {f"{top}/{entry.name}": entry for entry in entries}
    for name, folder in folders.items():
        if name != top:
            links[name.replace(".", "/")] = root / folder
    return links


def make_links(tree: Path, links: dict[str, Path]) -> None:
    """Replace the entries of the tree by the given symbolic links.

    Byte code of an interpreter that ran on the tree is removed with the old entries.

    Raises:
        OSError: the file system refuses a change.
    """
    for old in tree.glob("*/*"):
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink()
    for name, target in links.items():
        link = tree / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(target, link.parent))


def main() -> int:
    """Make `.links/stackgrad`, the package as a tree of symbolic links, for this checkout. Return the exit status."""
    make_links(ROOT / ".links", wanted_links(ROOT, package_folders(ROOT / "pyproject.toml")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
