"""Pictures are what their scripts draw, and the plot has the numbers of the page that it names."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import draw_pictures
import peer_plot
import pytest
from peer_plot import PageError, Sample
from svg import Picture

PAGE = draw_pictures.PERFORMANCE.read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"
TABLE = """
One run on a machine with one processor (Linux), 2 threads each:

| work | | here | Quadrants | ratio | JAX |
| --- | --- | --- | --- | --- | --- |
| `launch`: a kernel | no argument | 0.5 µs | 5 µs | 10 | |
| | grad | 1,000 ns | 3 ms | 3000 | 2.0 s |
| `row`: memory | heap | 401 kB | 800 kB a thread | | |
| `alone` | forward | 1 ms | | | |
| `cold` | forward | 81 ms | 154 ms | 1.9 | |
| (another machine: 2 processors) | grad | 188 ms | 455 ms | 2.4 | |
"""


def test_pictures_are_current() -> None:
    texts = {name: draw().svg() for name, draw in draw_pictures.PICTURES.items()}
    assert draw_pictures.stale(draw_pictures.FOLDER, texts) == [], "stale: run python ci/draw_pictures.py"


@pytest.mark.parametrize("name", sorted(draw_pictures.PICTURES))
def test_a_picture_is_valid_and_its_parts_are_inside(name: str) -> None:
    root = ElementTree.parse(draw_pictures.FOLDER / name).getroot()
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.find(f"{SVG}title") is not None
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.attrib["x"]) <= width and 0 < float(text.attrib["y"]) <= height, text.text
    for box in root.iter(f"{SVG}rect"):
        right = float(box.attrib.get("x", 0)) + float(box.attrib["width"])
        assert right <= width and float(box.attrib.get("y", 0)) + float(box.attrib["height"]) <= height


def test_the_readme_opens_with_drawing_and_plot() -> None:
    readme = (draw_pictures.ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"!\[.*?\]\((.*?)\)", readme.split("```")[0]) == [
        "docs/pictures/sweeps.svg",
        "docs/pictures/peers.svg",
    ]


def test_the_drawing_has_the_gradient_of_the_readme() -> None:
    readme = (draw_pictures.ROOT / "README.md").read_text(encoding="utf-8")
    printed = re.search(r"print\(x\.grad\.to_numpy\(\)\)\s+# \[([\d.]+)", readme)
    assert printed is not None
    assert f"{float(printed[1]):.4f} ← " in draw_pictures.sweeps().svg()


def test_the_plot_has_the_table_of_the_page() -> None:
    rows = peer_plot.samples(PAGE)
    assert len(rows) > 12 and {"launch, no argument", "sweep, grad"} <= {row.work for row in rows}
    picture = peer_plot.plot(PAGE).svg()
    assert picture.count("<circle") == 3 + sum(len(row.times) for row in rows)
    assert "Intel Xeon" in picture and "Quadrants 1.3.3" in picture
    other = PAGE.replace("| 0.14 µs | 4.8 µs |", "| 0.28 µs | 4.8 µs |", 1)
    assert other != PAGE and peer_plot.plot(other).svg() != picture


def test_rows_of_another_machine_and_of_memory_are_left_out() -> None:
    assert peer_plot.samples(TABLE) == [
        Sample("launch, no argument", {"here": 0.5 * 1e-6, "Quadrants": 5 * 1e-6}),
        Sample("launch, grad", {"here": 1000 * 1e-9, "Quadrants": 3 * 1e-3, "JAX": 2.0}),
    ]
    assert peer_plot.machine(TABLE) == "machine with one processor (Linux), 2 threads each"


def test_a_page_without_numbers_is_noticed() -> None:
    with pytest.raises(PageError, match="no table"):
        peer_plot.samples("# Figures\n")
    with pytest.raises(PageError, match="on which machine"):
        peer_plot.machine("# Figures\n")


def test_stale_and_foreign_pictures_are_named(tmp_path: Path) -> None:
    text = Picture(10, 10, "<nothing>").svg()
    (tmp_path / "a.svg").write_text(text)
    (tmp_path / "b.svg").write_text("<svg/>")
    assert draw_pictures.stale(tmp_path, {"a.svg": text}) == ["b.svg"]
    assert draw_pictures.stale(tmp_path, {"a.svg": "other", "c.svg": text}) == ["a.svg", "b.svg", "c.svg"]
    assert "&lt;nothing&gt;" in text
