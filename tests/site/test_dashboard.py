"""The dashboard of benchmarks is drawn by a browser, without a script from elsewhere and without an error of a script.

A small history is published as `make dashboard OFFLINE=1` publishes the kept one. asv comes with the extra `bench`; the
row `docs` of ci/matrix.toml runs these tests, and elsewhere they are skipped where a program is absent.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import offline_dashboard as offline
import pytest
from headless import serving
from offline_dashboard import OfflineError
from run_matrix import PROGRAMS_VARIABLE

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import browser  # noqa: E402
import history  # noqa: E402

PROBE = """<!doctype html><title>waiting</title><link rel="icon" href="swallow.ico"><script>
const wanted = %s;
function colors(canvas) {
  const bytes = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(bytes.buffer)).size;
}
function graphs(frame) {
  const shown = frame.contentWindow;
  return [...shown.document.querySelectorAll("canvas.flot-base")].map((canvas) => {
    const data = shown.$(canvas.parentNode).data("plot").getData();
    return [colors(canvas), data.reduce((sum, series) => sum + series.data.length, 0)];
  });
}
let turns = 0;
function look() {
  const found = [...document.querySelectorAll("iframe")].map(graphs);
  if (turns++ < 200 && found.some((drawn, k) => drawn.length < wanted[k])) return setTimeout(look, 50);
  document.title = "done";
  document.body.textContent = JSON.stringify(found);
}
window.onload = look;
</script><body>%s
"""
FRAME = '<iframe width="1200" height="900" src="index.html%s"></iframe>'
NAME = next(iter(history.TIMES))
WANTED = [len(history.TIMES), 1]
"""The least number of graphs in the grid, and on the page of a benchmark."""


@dataclass(frozen=True)
class Look:
    """What a browser drew: for each graph its colors and its points, first of the grid, then of one benchmark."""

    grid: list[list[int]]
    graph: list[list[int]]
    console: list[str]
    lost: list[str]


def look_at(site: Path) -> Look:
    """Open the grid and the page of a benchmark."""
    frames = FRAME % "" + FRAME % f"#{NAME}"
    (site / "probe.html").write_text(PROBE % (json.dumps(WANTED), frames), encoding="utf-8")
    with serving(site) as server:
        shown = browser.show(f"{server.address}/probe.html", (1300, 2000), "--virtual-time-budget=60000")
    grid, graph = json.loads(html.unescape(shown.body))
    return Look(grid, graph, shown.console, server.lost)


def problems(look: Look) -> list[str]:
    """What is wrong with a dashboard of the small history."""
    drawn = [len(look.grid) == len(history.TIMES), all(colors > 1 for colors, _ in [*look.grid, *look.graph])]
    drawn += [all(points == history.COMMITS for _, points in look.grid)]
    drawn += [max((points for _, points in look.graph), default=0) >= history.COMMITS]
    said = [f"console: {line}" for line in look.console] + [f"not found: {path}" for path in look.lost]
    return [f"graphs: {look.grid} {look.graph}"] * (not all(drawn)) + said


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of a small history, as asv publishes them."""
    browser.require("asv", find_spec("asv") is not None, "asv is not installed: extra `bench`")
    folder = tmp_path_factory.mktemp("history")
    command = [sys.executable, "-m", "asv", "publish", "--config", str(history.make(folder)), "HEAD"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def complete(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same pages with their scripts beside them."""
    browser.require("npm", shutil.which("npm") is not None, "npm is not installed")
    with tempfile.TemporaryDirectory() as folder:
        try:
            offline.pack("blueimp-md5", "2.19.0", Path(folder))
        except OfflineError as error:
            browser.require("npm", False, str(error))
    site = tmp_path_factory.mktemp("complete") / "html"
    shutil.copytree(published, site)
    assert len(offline.make_offline(site)) >= 10
    return site


def test_nothing_is_loaded_from_elsewhere(complete: Path) -> None:
    for page in offline.PAGES:
        assert offline.TAG.search((complete / page).read_text(encoding="utf-8")) is None
    licenses = {path.name.rpartition("-")[0] for path in (complete / offline.VENDOR).glob("*-LICEN*")}
    assert {"jquery", "flot", "bootstrap", "stupid-table-plugin", "blueimp-md5"} <= licenses


def test_the_dashboard_has_graphs_and_no_errors(complete: Path) -> None:
    browser.require_browser()
    assert problems(look_at(complete)) == []


@pytest.mark.parametrize("missing", ["vendor/jquery.flot.js", "vendor/jquery.min.js", "graphdisplay.js"])
def test_a_missing_script_is_noticed(complete: Path, missing: str, tmp_path: Path) -> None:
    browser.require_browser()
    site = tmp_path / "html"
    shutil.copytree(complete, site)
    (site / missing).unlink()
    found = problems(look_at(site))
    assert any(line.startswith("graphs: ") for line in found) and f"not found: /{missing}" in found


def test_an_error_of_a_script_is_noticed(complete: Path, tmp_path: Path) -> None:
    browser.require_browser()
    site = tmp_path / "html"
    shutil.copytree(complete, site)
    with (site / "asv_ui.js").open("a") as script:
        script.write('\nthrow new Error("planted");\n')
    found = problems(look_at(site))
    assert [line for line in found if "planted" in line]
    assert all("planted" in line for line in found), found


def test_the_page_of_asv_has_the_tags_that_are_known(published: Path) -> None:
    text = (published / "index.html").read_text(encoding="utf-8")
    addresses = [match[1] for match in offline.TAG.finditer(text)]
    assert len(addresses) == len(re.findall(r"\bintegrity=", text)) >= 10
    assert all(offline.source_of(address).package for address in addresses)


def test_an_absent_program_skips_a_test_or_fails_it_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROGRAMS_VARIABLE, "chromium")
    browser.require("npm", True, "npm is not installed")
    with pytest.raises(pytest.skip.Exception, match="npm is not installed"):
        browser.require("npm", False, "npm is not installed")
    with pytest.raises(pytest.fail.Exception, match="no Chromium here, and this row requires it"):
        browser.require("chromium", False, "no Chromium here")
