"""The site of the pages is built without a warning, and its pages fit the width of a phone.

MkDocs comes with the extra `docs`: the row `docs` of ci/matrix.toml runs these tests, and elsewhere they are skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import notebooks
import project_tree as tree
import pytest
from headless import serving

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import browser  # noqa: E402

pytestmark = pytest.mark.skipif(find_spec("material") is None, reason="MkDocs is not installed: extra `docs`")

PHONE = 390
AT_ONCE = 20
PROBE = """<!doctype html><title>waiting</title><script>
const found = [];
function look(frame) {
  const shown = frame.contentWindow;
  found.push(frame.name + " " + shown.document.documentElement.scrollWidth + " " + shown.innerWidth);
}
window.onload = () => { document.title = "done"; document.body.textContent = found.join(" | "); };
</script><body>%s
"""
FRAME = '<iframe width="%d" height="800" style="border: 0" name="%s" src="%s" onload="look(this)"></iframe>'


def build(configuration: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build a site strictly."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(configuration), "-d", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(tree.ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr and "is excluded from the built site" not in done.stderr, done.stderr
    return folder


def pages(site: Path) -> list[str]:
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("index.html"))


def test_every_page_is_there(site: Path) -> None:
    sources = [path for path in (tree.ROOT / "docs").rglob("*.md") if path.name not in ("README.md", "index.md")]
    wanted = {f"{path.relative_to(tree.ROOT / 'docs').with_suffix('').as_posix()}/index.html" for path in sources}
    made = set(pages(site))
    assert wanted <= made
    assert {"index.html", "project/index.html", "project/ARCHITECTURE/index.html", "decisions/index.html"} <= made


def test_links_out_of_the_folder_lead_to_pages_of_the_site(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="project/CONTRIBUTING/"' in home and "../README.md" not in re.findall(r'href="([^"]*)"', home)
    readme = (site / "project/index.html").read_text(encoding="utf-8")
    assert 'src="../pictures/sweeps.svg"' in readme and (site / "pictures/sweeps.svg").exists()


def test_the_navigation_has_the_lists_of_the_index(site: Path) -> None:
    tutorial = (site / "tutorial/index.html").read_text(encoding="utf-8")
    for section in ("You write kernels", "You differentiate simulations", "You work on compilers", "You contribute"):
        assert section in tutorial


def test_a_notebook_is_a_page_with_its_pictures(site: Path) -> None:
    kept = notebooks.paths()
    assert kept
    for path in kept:
        page = (site / f"notebooks/{path.stem}/index.html").read_text(encoding="utf-8")
        for name, content in notebooks.pictures(path).items():
            assert f'src="../{name}"' in page and (site / "notebooks" / name).read_bytes() == content
        assert f'href="../{path.name}"' in page and (site / "notebooks" / path.name).read_bytes() == path.read_bytes()
        assert f'href="../notebooks/{path.stem}/"' in (site / "tutorial/index.html").read_text(encoding="utf-8")


def test_no_page_asks_another_host_for_anything(site: Path) -> None:
    asking = re.compile(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="https?://')
    assert [page for page in pages(site) if asking.search((site / page).read_text(encoding="utf-8"))] == []


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# A\n\n[b](missing.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: a\nvalidation: {links: {not_found: warn}}\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0 and "missing.md" in done.stderr


def widths(address: str, site: Path, names: list[str]) -> dict[str, tuple[int, int]]:
    """For each page, how wide its content is on a phone, and how wide the window."""
    (site / "probe.html").write_text(PROBE % "".join(FRAME % (PHONE, name, name) for name in names), encoding="utf-8")
    rows = [row.split() for row in browser.show(f"{address}/probe.html", (900, 1000)).body.split(" | ")]
    return {page: (int(content), int(window)) for page, content, window in rows}


def test_pages_fit_a_phone(site: Path) -> None:
    browser.require_browser()
    (site / "wide.html").write_text('<meta name="viewport" content="width=device-width"><p style="width: 700px">wide')
    names = [*pages(site), "wide.html"]
    found: dict[str, tuple[int, int]] = {}
    with serving(site) as server:
        for first in range(0, len(names), AT_ONCE):
            found |= widths(server.address, site, names[first : first + AT_ONCE])
    wide = {page for page, (content, window) in found.items() if content > window}
    assert len(found) > 60 and all(PHONE - 15 <= window <= PHONE for _, window in found.values())
    assert wide == {"wide.html"}, "only the page that is meant to be too wide is"
