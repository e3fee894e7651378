"""Links of all pages lead somewhere, and from docs/index.md links lead to every file under docs/."""

from __future__ import annotations

import sys
from pathlib import Path

import project_tree as tree
import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import doc_pages  # noqa: E402

FILES = {tree.relative(path) for path in tree.project_files()}
FOLDERS = {parent.as_posix() for name in FILES for parent in Path(name).parents}
INDEX = "docs/index.md"


def broken(page: str, text: str) -> list[str]:
    """Links of a page to files, folders or headings that are not there."""
    return [
        f"{page}: {target}#{anchor}" if anchor else f"{page}: {target}"
        for target, anchor in doc_pages.links(page, text)
        if target not in FILES | FOLDERS
        or (anchor and target.endswith(".md") and anchor not in doc_pages.anchors(doc_pages.text_of(target)))
    ]


def test_links_lead_somewhere() -> None:
    wrong = [link for page in doc_pages.pages() for link in broken(page, doc_pages.text_of(page))]
    assert not wrong, "\n".join(wrong)


def test_every_file_under_docs_is_reachable_from_the_index() -> None:
    documents = {name for name in FILES if name.startswith("docs/")}
    lost = documents - doc_pages.reachable(INDEX, FILES)
    assert not lost, f"{INDEX} does not lead to: {sorted(lost)}"


def test_the_index_is_reachable_from_the_readme() -> None:
    assert INDEX in doc_pages.reachable("README.md", FILES)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("[a](ir.md)", 0),
        ("[a](ir.md#values)", 0),
        ("[a](ir.md#no-such-heading)", 1),
        ("[a](missing.md)", 1),
        ("[a](../README.md) and [b](../ir.md)", 1),
        ("[a](https://example.org/missing.md)", 0),
        ("[a](decisions/)", 0),
        ("```\n[a](missing.md)\n```", 0),
    ],
)
def test_broken_links_are_noticed(text: str, count: int) -> None:
    assert len(broken("docs/page.md", text)) == count
