"""`stackgrad explain --html` and `stackgrad check --html`: pages that show what the terminal shows and load nothing."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from stackgrad.harness.tools import page_templates

PROGRAM = """
    import stackgrad as sg
    sg.init(arch=sg.reference, default_fp=sg.f32)
    x, y, n = sg.field(sg.f32, 4, needs_grad=True), sg.field(sg.f32, 4, needs_grad=True), sg.field(sg.i32, 4)
    loss = sg.field(sg.f32, (), needs_grad=True)
    n.from_numpy(__import__("numpy").array([0, 3, 7, 2], "int32"))

    @sg.kernel
    def power():
        for i in range(4):
            v = x[i]  # <b>not bold</b>
            # a comment between statements
            for k in range(n[i]):
                v = v * v
            y[i] = v
"""
LAUNCH = """
    with sg.ad.Tape(loss):
        power()
"""
VOID = ("meta", "br", "link", "img", "hr", "input")


class Page(HTMLParser):
    """Collect the tags, the texts of table cells and of marked lines, and tags that are closed in a wrong order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.cells: list[str] = []
        self.marked: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)
        if tag == "td":
            self.cells.append("")
        if tag == "mark":
            self.marked.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "td" in self._open:
            self.cells[-1] += data
        if "mark" in self._open:
            self.marked[-1] += data


def page_of(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("script") == 0 and not re.search(r"https?://", text), "it loads nothing and runs nothing"
    assert "width=device-width" in text and not {"src", "href"} & {name for name, _ in page.attributes}
    return page


def test_explain_marks_the_lines_that_are_saved(command: Any, write: Any, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    found = command("explain", write(PROGRAM + LAUNCH), "--html", str(out))
    assert found.status == 0, found.err
    page = page_of(out)
    assert [line.strip() for line in page.marked] == ["for k in range(n[i]):"], "its loop changes it"
    for cell in ("v", "f32", "7", "28", "max($i in 0 .. 4: n[$i])"):
        assert cell in page.cells
    assert "saves v, 28 bytes a row" in page.text and "real slab: 28 bytes a row, 3 rows" in page.text
    assert "# <b>not bold</b>" in page.text and "b" not in page.tags, "source is shown as it is"
    assert "# a comment between statements" in page.text
    for word in ("power (", "1 adstack", "task 0"):
        assert word in page.text and word in found.out


def test_explain_without_a_launch_says_what_is_missing(command: Any, write: Any, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert command("explain", write(PROGRAM), "--html", str(out)).status == 0
    page = page_of(out)
    assert "depths and bytes: unknown" in page.text and "?" in page.cells and "power" in page.text


def test_explain_shows_text_of_the_ir(command: Any, write: Any, tmp_path: Path) -> None:
    text = """
        kernel k(x: f32[1] grad, y: f32[1] grad) {
          bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
            %3: f32 = load x[%2] %4: f32 = sin %3 store y[%2], %4
          }
        }
    """
    out = tmp_path / "page.html"
    assert command("explain", write(text, "k.kir"), "--html", str(out)).status == 0
    page = page_of(out)
    assert "saves nothing" in page.text and "store y[%2], %4" in page.text and page.marked == []


def test_a_kernel_without_a_gradient_is_on_the_page(command: Any, write: Any, tmp_path: Path) -> None:
    refused = """
    @sg.kernel
    def refused():
        for i in range(1, 4):
            x[i] = x[i - 1] * x[i - 1]
"""
    out = tmp_path / "page.html"
    found = command("explain", write(PROGRAM + refused), "--html", str(out))
    page = page_of(out)
    assert found.status == 1 and "refused: no gradient" in found.out
    assert "refused: no gradient" in page.text and "x[i] = x[i - 1] * x[i - 1]" in page.text
    assert "1 adstack" in page.text, "the other kernel is there"


def test_check_shows_every_verdict(command: Any, write: Any, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    found = command("check", write(PROGRAM + LAUNCH), "--html", str(out), "--backends", "cpu")
    assert found.status == 0, found.out + found.err
    page = page_of(out)
    assert {"power", "forward", "reverse", "ok"} <= set(page.cells)
    assert "passed: 1 program" in page.text and "comparisons" in page.text
    classes = [value for name, value in page.attributes if name == "class"]
    assert "good" in classes and "bad" not in classes


def test_check_shows_failures(command: Any, write: Any, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    found = command("check", write(PROGRAM + "\n    raise ValueError('<i>own</i>')\n"), "--html", str(out))
    page = page_of(out)
    assert found.status == 1 and "FAILED" in page.text
    assert "<i>own</i>" in page.text and "i" not in page.tags, "messages are escaped"


@pytest.mark.parametrize("name", ["explain", "check"])
def test_a_file_that_cannot_be_written(command: Any, write: Any, tmp_path: Path, name: str) -> None:
    given = ("--backends", "cpu") if name == "check" else ()
    found = command(name, write(PROGRAM + LAUNCH), "--html", str(tmp_path / "absent" / "page.html"), *given)
    assert found.status == 2 and "cannot write" in found.err and "cure: name a file that can be made" in found.err


@pytest.mark.parametrize("name", ["explain", "check"])
def test_without_templates_nothing_is_run(
    command: Any, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    page_templates.environment_of.cache_clear()
    found = command(name, write("raise SystemExit('it ran')"), "--html", str(tmp_path / "page.html"))
    assert found.status == 1 and "pip install 'stackgrad[harness]'" in found.err and "it ran" not in found.err
    assert not (tmp_path / "page.html").exists()
