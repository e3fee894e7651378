"""This module says where the files of the checkout are in the site of the pages, and rewrites links to fit.

Pages are written for readers of the checkout: `../README.md` leads from docs/heap.md to the README. The site has the
files under docs/ only, so each other file or folder that a page links to becomes a page of its own, below `project/`.
A page of the site is named by the path of its Markdown file below docs/, as MkDocs does, and the page of a notebook as
if that were a Markdown file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

DOCS, PROJECT, INDEX = "docs", "project", "README.md"
NOTEBOOK = ".ipynb"
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
ITEM = re.compile(r"^( *)([*-]|\d+\.) ")


def site_page(path: str, is_folder: Callable[[str], bool]) -> str:
    """Return the name that a file or folder of the checkout has in the site.

    Args:
        path: path from the root of the checkout.
        is_folder: says if such a path is a folder.
    """
    if is_folder(path):
        path = f"{path}/{INDEX}"
    inside = PurePosixPath(path)
    if inside.parts[0] == DOCS:
        page = PurePosixPath(*inside.parts[1:])
        return str(page.with_suffix(".md") if page.suffix == NOTEBOOK else page)
    shown = "/".join(part.lstrip(".") for part in inside.parts)  # MkDocs leaves out what a dot hides
    return f"{PROJECT}/{shown}" if path.endswith(".md") else f"{PROJECT}/{shown}.md"


def target_of(path: str, link: str) -> tuple[str, str]:
    """Return the path from the root of the checkout, and the anchor, that a link leads to.

    Args:
        path: the file that has the link.
        link: the target as it is written.
    """
    place, _, anchor = link.partition("#")
    if not place:
        return path, anchor
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), place)), anchor


def is_outside(link: str) -> bool:
    """Return True if a link leads to the web or to a mail program, not to a file."""
    return re.match(r"[a-z]+:", link) is not None


def targets(path: str, text: str) -> Iterator[str]:
    """Yield the paths of the files and folders that a text links to, outside of its blocks of code."""
    for part in FENCE.split(text)[::2]:
        yield from (target_of(path, link)[0] for link in LINK.findall(part) if not is_outside(link))


def rewrite(path: str, text: str, is_folder: Callable[[str], bool]) -> str:
    """Return the text of a page with its links as the site needs them, and its Markdown as MkDocs reads it.

    Args:
        path: the file of the text, from the root of the checkout.
        text: its Markdown.
        is_folder: says if a path of the checkout is a folder.
    """
    here = posixpath.dirname(site_page(path, is_folder))

    def moved(match: re.Match[str]) -> str:
        link = match[1]
        if is_outside(link) or link.startswith("#"):
            return match[0]
        target, anchor = target_of(path, link)
        place = posixpath.relpath(site_page(target, is_folder), here or ".")
        return f"]({place}#{anchor})" if anchor else f"]({place})"

    parts = FENCE.split(text)
    parts[::2] = [LINK.sub(moved, apart(part)) for part in parts[::2]]
    # What follows the language of a block is for the tests that run it.
    parts[1::2] = [re.sub(r"^```(\w+) .*", r"```\1", part) for part in parts[1::2]]
    return "".join(parts)


def apart(text: str) -> str:
    """Return a text with an empty line between each paragraph and a list below it, which MkDocs requires."""
    lines: list[str] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        starts = ITEM.match(line) and before.strip() and not ITEM.match(before) and not before.startswith((" ", "|"))
        lines += ["", line] if starts else [line]
    return "\n".join(lines)


def source_page(path: str, text: str) -> str:
    """Return the Markdown of the page that shows a source file."""
    language = {".py": "python", ".toml": "toml", ".sh": "sh", ".yml": "yaml"}.get(PurePosixPath(path).suffix, "text")
    ticks = "`" * max(4, *(len(run) + 1 for run in re.findall(r"`+", text) or [""]))
    return f"# `{path}`\n\n{ticks}{language}\n{text.rstrip()}\n{ticks}\n"


def folder_page(path: str, names: Iterable[str]) -> str:
    """Return the page that lists the files of a folder."""
    return f"# `{path}/`\n\n" + "".join(f"* [{name}]({name})\n" for name in sorted(names))


def navigation(index: str) -> list[dict[str, object]]:
    """Return the navigation of the site: a section for each list of docs/index.md with the pages that it leads to.

    Args:
        index: the text of docs/index.md.
    """
    sections: list[dict[str, object]] = [{"All pages": "index.md"}]
    seen = {"index.md"}
    for part in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, _, table = part.partition("\n")
        rows = "\n".join(line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ["))
        pages = [page for link in LINK.findall(rows) if (page := _page_of_index(link)) and page not in seen]
        seen.update(pages)
        if pages:
            sections.append({title: list(pages)})
    return sections


def _page_of_index(link: str) -> str:
    """Return the name of the page of the site that a link of docs/index.md leads to, or "" if it leads to no page."""
    path, _ = target_of(f"{DOCS}/index.md", link)
    return site_page(path, lambda _: False) if path.endswith((".md", NOTEBOOK)) else ""


def linked_files(root: Path, pages: Iterable[str], text_of: Callable[[str], str]) -> list[str]:
    """Return the files and folders outside of docs/ that pages link to, directly or over other linked pages.

    Args:
        root: the checkout.
        pages: the paths of the pages to begin with.
        text_of: returns the text of a page.
    """
    waiting, seen = list(pages), set(pages)
    while waiting:
        page = waiting.pop()
        for target in targets(page, text_of(page)):
            if target not in seen and (root / target).exists():
                seen.add(target)
                waiting += [target] if target.endswith(".md") else []
    return sorted(path for path in seen if not path.startswith(f"{DOCS}/") or (root / path).is_dir())
