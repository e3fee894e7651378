"""This module makes the site of the pages from the checkout: MkDocs calls its functions, which mkdocs.yml names.

The navigation follows the lists of docs/index.md. Files and folders outside of docs/ that pages link to become pages,
and links lead to these (`site_links.py`). Each notebook becomes a page, with the outputs that its file keeps
(`notebooks.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT / "ci") not in sys.path:
    sys.path.insert(0, str(ROOT / "ci"))

import notebooks  # noqa: E402
import site_links as links  # noqa: E402


def is_folder(path: str) -> bool:
    """Return True if a path from the root of the checkout is a folder."""
    return (ROOT / path).is_dir()


def text_of(path: str) -> str:
    """Return the text of a file, given by its path from the root of the checkout; that of a notebook as Markdown."""
    file = ROOT / path
    return notebooks.page(file) if file.suffix == links.NOTEBOOK else file.read_text(encoding="utf-8")


def page_text(path: str) -> str:
    """Return the Markdown of the page for a file or folder."""
    if not is_folder(path):
        return links.source_page(path, text_of(path)) if _is_source(path) else text_of(path)
    names = (entry.name for entry in (ROOT / path).iterdir() if entry.is_file())
    return links.folder_page(path, names)


def added_pages(pages: list[str]) -> dict[str, str]:
    """Return {page of the site: path in the checkout} of the pages that are made for files and folders.

    Args:
        pages: the pages under docs/, by their paths in the checkout.
    """
    found = links.linked_files(ROOT, pages, text_of)
    # A folder shows the files that lie in it, so each of these has a page, too.
    found += [
        f"{folder}/{entry.name}"
        for folder in found
        if is_folder(folder) and not folder.startswith(links.DOCS)
        for entry in sorted((ROOT / folder).iterdir())
        if entry.is_file()
    ]
    made = {links.site_page(path, is_folder): path for path in found}
    return {page: path for page, path in made.items() if not (ROOT / links.DOCS / page).exists()}


def on_config(config: Any) -> Any:
    """Set the navigation of the site. MkDocs calls this function with its configuration."""
    config.nav = links.navigation(text_of(f"{links.DOCS}/index.md"))
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of notebooks, those for files and folders outside of docs/, and the style sheet."""
    from mkdocs.structure.files import File

    written = [file.relative_to(ROOT).as_posix() for file in notebooks.paths()]
    pages = [f"{links.DOCS}/{file.src_uri}" for file in files.documentation_pages()]
    made = {links.site_page(path, is_folder): path for path in written} | added_pages(pages + written)
    _PATHS.update(made)
    content: dict[str, str | bytes] = {page: page_text(path) for page, path in made.items()}
    for file in notebooks.paths():
        folder = file.parent.relative_to(ROOT / links.DOCS).as_posix()
        content |= {f"{folder}/{name}": shown for name, shown in notebooks.pictures(file).items()}
    content["assets/site.css"] = text_of("ci/site.css")
    for uri, shown in content.items():
        files.append(File.generated(config, uri, content=shown))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the text of a page with links that fit the site."""
    uri = page.file.src_uri
    path = _PATHS.get(uri, f"{links.DOCS}/{uri}")
    if is_folder(path):
        path = f"{path}/{links.INDEX}"
    if _is_source(path):
        return markdown
    name = path.rpartition("/")[2]
    # The link is added to the rewritten text, in which links to notebooks lead to pages.
    added = f"\n[This page as a notebook]({name})\n" if name.endswith(links.NOTEBOOK) else ""
    return links.rewrite(path, markdown, is_folder) + added


def _is_source(path: str) -> bool:
    """Return True if the page for a path shows a source file, whose text has no links to rewrite."""
    return not path.endswith((".md", links.NOTEBOOK))


_PATHS: dict[str, str] = {}
"""The file or folder of the checkout that each page below `project/` is made from."""
