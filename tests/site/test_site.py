"""The site of the pages is built without a warning, and its pages fit the width of a phone.

MkDocs comes with the extra `docs`: the row `docs` of ci/matrix.toml runs these tests, and elsewhere they are skipped.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import project_tree as tree
import pytest

pytestmark = pytest.mark.skipif(find_spec("material") is None, reason="MkDocs is not installed: extra `docs`")

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
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


def test_no_page_asks_another_host_for_anything(site: Path) -> None:
    asking = re.compile(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="https?://')
    assert [page for page in pages(site) if asking.search((site / page).read_text(encoding="utf-8"))] == []


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# A\n\n[b](missing.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: a\nvalidation: {links: {not_found: warn}}\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0 and "missing.md" in done.stderr


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """The address of a server on this machine that has the site."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def widths(address: str, site: Path, names: list[str]) -> dict[str, tuple[int, int]]:
    """For each page, how wide its content is on a phone, and how wide the window."""
    (site / "probe.html").write_text(PROBE % "".join(FRAME % (PHONE, name, name) for name in names), encoding="utf-8")
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=900,1000", "--dump-dom"]
    shown = subprocess.run([*command, f"{address}/probe.html"], capture_output=True, text=True, timeout=120).stdout
    assert "<title>done</title>" in shown, shown[-2000:]
    rows = [row.split() for row in shown.partition("<body>")[2].partition("</body>")[0].split(" | ")]
    return {page: (int(content), int(window)) for page, content, window in rows}


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_pages_fit_a_phone(address: str, site: Path) -> None:
    (site / "wide.html").write_text('<meta name="viewport" content="width=device-width"><p style="width: 700px">wide')
    names = [*pages(site), "wide.html"]
    found: dict[str, tuple[int, int]] = {}
    for first in range(0, len(names), AT_ONCE):
        found |= widths(address, site, names[first : first + AT_ONCE])
    wide = {page for page, (content, window) in found.items() if content > window}
    assert len(found) > 60 and all(PHONE - 15 <= window <= PHONE for _, window in found.values())
    assert wide == {"wide.html"}, "only the page that is meant to be too wide is"
