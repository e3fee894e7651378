"""Read the written pages of the checkout as data: their text, their links, the commands that they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import notebooks
import project_tree as tree

ROOT = tree.ROOT


def pages() -> list[str]:
    """Return every Markdown file and notebook of the project, by path from the root of the checkout."""
    return [name for path in tree.project_files() if (name := tree.relative(path)).endswith((".md", notebooks.SUFFIX))]


def text_of(page: str) -> str:
    """Return the text of a page; of a notebook what its author wrote, as Markdown."""
    if page.endswith(notebooks.SUFFIX):
        return "\n\n".join(map(notebooks.written, notebooks.read(ROOT / page)["cells"])) + "\n"
    return (ROOT / page).read_text(encoding="utf-8")


def without_blocks(text: str) -> str:
    """Return a text without its fenced blocks, which contain code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def links(page: str, text: str) -> Iterator[tuple[str, str]]:
    """Return the target and the anchor of each link to a file; web addresses are left out."""
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        yield (_joined(page, path) if path else page), anchor


def _joined(page: str, path: str) -> str:
    parts: list[str] = list(PurePosixPath(page).parent.parts)
    for part in PurePosixPath(path).parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as the usual hosts make them."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(text: str) -> Iterator[str]:
    """Yield each line of the blocks marked `sh`, without comments."""
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            command = re.sub(r"(^|\s)#.*", "", line).strip()
            if command:
                yield command


def reachable(start: str, known: set[str]) -> set[str]:
    """Return the files that links reach over any number of pages; a link to a folder reaches its files, not pages."""
    found: set[str] = set()
    files: dict[str, list[str]] = {}
    for name in known:
        if not name.endswith(".md"):
            files.setdefault(Path(name).parent.as_posix(), []).append(name)
    waiting = [start]
    while waiting:
        page = waiting.pop()
        if page in found:
            continue
        found.add(page)
        if not page.endswith(".md"):
            continue
        for target, _ in links(page, text_of(page)):
            inside = files.get(target, [])
            waiting += [target, *inside] if target in known else inside
    return found
