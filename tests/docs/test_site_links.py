"""Test links and navigation of the site: how links are rewritten, and that all linked files are found."""

from __future__ import annotations

import project_tree as tree
import pytest
import site_hooks
import site_links as links

FOLDERS = {"docs", "docs/decisions", "examples", ".github"}


def is_folder(path: str) -> bool:
    return path in FOLDERS


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("docs/heap.md", "heap.md"),
        ("docs/decisions", "decisions/README.md"),
        ("docs/campaign/report.html", "campaign/report.html"),
        ("docs/notebooks/a.ipynb", "notebooks/a.md"),
        ("README.md", "project/README.md"),
        ("ci/check.sh", "project/ci/check.sh.md"),
        ("examples", "project/examples/README.md"),
        (".github/form.yml", "project/github/form.yml.md"),
    ],
)
def test_places(path: str, page: str) -> None:
    assert links.site_page(path, is_folder) == page


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        ("docs/a.md", "[b](b.md#c)", "[b](b.md#c)"),
        ("docs/a.md", "[b](../README.md)", "[b](project/README.md)"),
        ("docs/decisions/1.md", "[b](../a.md) [c](../../ci/x.py#L3)", "[b](../a.md) [c](../project/ci/x.py.md#L3)"),
        ("README.md", "![p](docs/pictures/p.svg)", "![p](../pictures/p.svg)"),
        ("README.md", "[n](docs/notebooks/n.ipynb#part)", "[n](../notebooks/n.md#part)"),
        ("ci/README.md", "[m](../Makefile) [d](../examples)", "[m](../Makefile.md) [d](../examples/README.md)"),
        ("docs/a.md", "[w](https://example.org/x.md) [h](#here)", "[w](https://example.org/x.md) [h](#here)"),
        ("docs/a.md", "```\n[b](../README.md)\n```", "```\n[b](../README.md)\n```"),
        ("docs/a.md", "```python raises=E\nx\n```", "```python\nx\n```"),
        ("docs/a.md", "Text:\n* one\n* two", "Text:\n\n* one\n* two"),
        ("docs/a.md", "* one\n  goes on\n* two", "* one\n  goes on\n* two"),
    ],
)
def test_texts_fit_the_site(path: str, text: str, wanted: str) -> None:
    assert links.rewrite(path, text, is_folder) == wanted


def test_navigation_follows_the_lists() -> None:
    index = (
        "# All\n\n## You write\n\n| page | what |\n| --- | --- |\n| [a](a.md), [b](b.md) | see [c](c.md) |\n"
        "| [../README.md](../README.md), [n](notebooks/n.ipynb) | it |\n\n"
        "## Made\n\n| [a](a.md) | again |\n| [r](campaign/r.html) | no page |\n"
    )
    pages = ["a.md", "b.md", "project/README.md", "notebooks/n.md"]
    assert links.navigation(index) == [{"All pages": "index.md"}, {"You write": pages}]


def test_every_page_under_docs_is_in_the_navigation_or_in_a_folder_of_its_own() -> None:
    shown = {page for section in links.navigation(site_hooks.text_of("docs/index.md")) for page in _pages(section)}
    names = [path.name for path in tree.project_files() if path.parent == tree.ROOT / "docs" and path.suffix == ".md"]
    assert len(names) > 20 and set(names) <= shown


def _pages(section: dict[str, object]) -> list[str]:
    return [page for value in section.values() for page in (value if isinstance(value, list) else [str(value)])]


def test_files_that_pages_link_to_become_pages() -> None:
    pages = [
        tree.relative(p) for p in tree.project_files() if tree.relative(p).startswith("docs/") and p.suffix == ".md"
    ]
    added = site_hooks.added_pages(pages)
    assert {"project/README.md", "project/ARCHITECTURE.md", "project/ci/README.md"} <= set(added)
    assert all((tree.ROOT / path).exists() for path in added.values())
    assert not [page for page in added if page.startswith("docs/")]


def test_source_is_shown_whatever_it_holds() -> None:
    page = links.source_page("ci/a.py", 'TEXT = """\n````\n"""\n')
    assert page == '# `ci/a.py`\n\n`````python\nTEXT = """\n````\n"""\n`````\n'
    assert links.folder_page("a", ["c.py", "b.py"]) == "# `a/`\n\n* [b.py](b.py)\n* [c.py](c.py)\n"
