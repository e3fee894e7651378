"""Notebooks name no machine, show what an execution in order shows, and label their plots; pages are made of them.

tests/site/test_notebooks.py executes them.
"""

from __future__ import annotations

import ast
import base64
from pathlib import Path
from typing import Any

import notebooks
import pytest
from notebooks import Notebook

PATHS = notebooks.paths()
PNG = b"\x89PNG"


def code_cell(source: str, *outputs: Notebook) -> Notebook:
    return {
        "cell_type": "code",
        "execution_count": 7,
        "metadata": {"tags": []},
        "source": source,
        "outputs": [*outputs],
    }


def stream(text: str, name: str = "stdout") -> Notebook:
    return {"output_type": "stream", "name": name, "text": text}


def result(**data: str) -> Notebook:
    named = {"plain": notebooks.TEXT, "png": notebooks.PICTURE, "html": "text/html"}
    shown = {named[kind]: text for kind, text in data.items()}
    return {"output_type": "execute_result", "execution_count": 7, "data": shown, "metadata": {"isolated": True}}


def picture(content: bytes = PNG) -> Notebook:
    return result(png=base64.b64encode(content).decode(), plain="<Figure at 0x7f>")


def a_notebook(*cells: Notebook) -> Notebook:
    metadata = {"kernelspec": {"name": "mine"}, "language_info": {"name": "python", "version": "3.11.7"}}
    return notebooks.neutral({"cells": [*cells], "metadata": metadata, "nbformat": 4, "nbformat_minor": 4})


def code_cells(path: Path) -> list[Notebook]:
    return [cell for cell in notebooks.read(path)["cells"] if cell["cell_type"] == "code"]


def calls(cell: Notebook) -> set[str]:
    """The names of methods that a cell calls."""
    tree = ast.walk(ast.parse(notebooks.joined(cell["source"])))
    return {node.func.attr for node in tree if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}


def asserts(cell: Notebook) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(notebooks.joined(cell["source"]))))


def draws(cell: Notebook) -> bool:
    return "(picture)" in notebooks.texts(cell)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_keeps_nothing_of_a_machine(path: Path) -> None:
    kept = notebooks.read(path)
    assert path.read_text(encoding="utf-8") == notebooks.text_of(notebooks.neutral(kept)), "run python ci/notebooks.py"
    assert not [output for cell in code_cells(path) for output in cell["outputs"] if output["output_type"] == "error"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_cells_assert_what_they_say_or_draw_it(path: Path) -> None:
    _imports, *cells = code_cells(path)
    assert [cell["source"] for cell in cells if not asserts(cell) and not draws(cell)] == []


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_plots_have_titles_and_labels_with_units(path: Path) -> None:
    drawn = [cell for cell in code_cells(path) if draws(cell)]
    assert drawn
    for cell in drawn:
        assert notebooks.title(cell) and {"set_title", "set_xlabel", "set_ylabel"} <= calls(cell)
        labels = [line for line in notebooks.joined(cell["source"]).splitlines() if "label(" in line]
        assert labels and all(line.endswith(')")') for line in labels), "a label ends with its unit: (KiB)"


def test_what_depends_on_the_machine_is_not_kept() -> None:
    cell = code_cell("x", stream("a\n"), stream("slow\n", "stderr"), result(plain="3", html="<b>3</b>"), picture())
    made = a_notebook({"cell_type": "markdown", "metadata": {"a": 1}, "source": "t"}, cell)
    assert made["metadata"] == notebooks.METADATA and [cell["id"] for cell in made["cells"]] == ["cell-1", "cell-2"]
    text, code = made["cells"]
    assert text == {"cell_type": "markdown", "id": "cell-1", "metadata": {}, "source": ["t"]}
    assert code["execution_count"] == 1 and code["metadata"] == {}
    assert notebooks.texts(code) == ["a\n", "3", "(picture)"]
    shown: list[dict[str, Any]] = [output["data"] for output in code["outputs"] if "data" in output]
    assert [list(data) for data in shown] == [[notebooks.TEXT], [notebooks.PICTURE]]
    assert notebooks.neutral(made) == made


def test_stale_texts_are_found_and_pictures_are_not_compared() -> None:
    kept = a_notebook(code_cell("x", stream("1\n")), code_cell("y", picture()))
    assert notebooks.stale(kept, a_notebook(code_cell("x", stream("1\n")), code_cell("y", picture(b"other")))) == []
    wrong = notebooks.stale(kept, a_notebook(code_cell("x", stream("2\n")), code_cell("y")))
    assert len(wrong) == 2 and "cell 1" in wrong[0] and "'2\\n'" in wrong[0] and "(picture)" in wrong[1]


def test_a_page_is_made_of_a_notebook(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    text = {"cell_type": "markdown", "metadata": {}, "source": "# A\n\ntext"}
    made = a_notebook(text, code_cell("print(1)", stream("1\n")), code_cell("# Loss by step\nplot()", picture()))
    path.write_text(notebooks.text_of(made), encoding="utf-8")
    assert notebooks.pictures(path) == {"a_1.png": PNG}
    assert notebooks.page(path) == (
        "# A\n\ntext\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n"
        "```python\n# Loss by step\nplot()\n```\n\n![Loss by step](a_1.png)\n"
    )
