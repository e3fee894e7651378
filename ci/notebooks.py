"""This script executes the notebooks under docs/notebooks and keeps what they show in their files.

    python ci/notebooks.py             executes them and writes their outputs
    python ci/notebooks.py --check     says which outputs differ from those that are kept, with exit status 1

It needs the extra `notebook`. Pictures are kept but not compared: their bytes depend on the version of matplotlib and,
where they show bytes of memory, on the machine. Messages on standard error are neither kept nor compared. What makes a
page of the site from a notebook, `page` and `pictures`, needs nothing but Python.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/notebooks"
SUFFIX = ".ipynb"
TIMEOUT = 240
PICTURE, TEXT = "image/png", "text/plain"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
Notebook = dict[str, Any]


def paths() -> list[Path]:
    """Return the files of all notebooks."""
    return sorted(FOLDER.glob(f"*{SUFFIX}"))


def read(path: Path) -> Notebook:
    """Return the notebook that a file contains."""
    notebook: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def text_of(notebook: Notebook) -> str:
    """Return the text of a file with a notebook."""
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def joined(lines: str | list[str]) -> str:
    """Return a text that a notebook holds as one string or as a list of lines."""
    return lines if isinstance(lines, str) else "".join(lines)


def neutral(notebook: Notebook) -> Notebook:
    """Return a notebook without what depends on the machine or the moment of its execution."""
    cells = [_neutral_cell(number, cell) for number, cell in enumerate(notebook["cells"], 1)]
    count = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def _neutral_cell(number: int, cell: Notebook) -> Notebook:
    """Return a cell with a name of its place, without times and settings of an editor."""
    source = joined(cell["source"]).splitlines(keepends=True)
    made = {"cell_type": cell["cell_type"], "id": f"cell-{number}", "metadata": {}, "source": source}
    if cell["cell_type"] == "code":
        made["outputs"] = [kept for output in cell["outputs"] if (kept := _neutral_output(output))]
    return made


def _neutral_output(output: Notebook) -> Notebook | None:
    """Return what is kept of an output: printed text, a result as text, or a picture; errors are kept as they are."""
    if output["output_type"] == "stream":
        text = joined(output["text"]).splitlines(keepends=True)
        return {"output_type": "stream", "name": "stdout", "text": text} if output["name"] == "stdout" else None
    if output["output_type"] == "error":
        return output
    kind = PICTURE if PICTURE in output["data"] else TEXT
    content = joined(output["data"][kind])
    shown = {kind: content.strip() if kind == PICTURE else content.splitlines(keepends=True)}
    return {"output_type": "display_data", "data": shown, "metadata": {}}


def executed(notebook: Notebook) -> Notebook:
    """Return a notebook with the outputs of a new execution, in an interpreter of its own.

    Raises:
        CellExecutionError: a cell ended with an exception.
    """
    import nbformat
    from nbclient import NotebookClient

    node = nbformat.reads(text_of(notebook), as_version=4)
    nbformat.validate(node)
    NotebookClient(node, timeout=TIMEOUT, kernel_name="python3").execute()
    return neutral(json.loads(nbformat.writes(node)))


def texts(cell: Notebook) -> list[str]:
    """Return what a cell shows: texts, and a word in place of each picture."""
    return [_shown(output) for output in cell.get("outputs", [])]


def _shown(output: Notebook) -> str:
    """Return the text of an output."""
    if output["output_type"] == "stream":
        return joined(output["text"])
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}"
    return "(picture)" if PICTURE in output["data"] else joined(output["data"][TEXT])


def stale(kept: Notebook, new: Notebook) -> list[str]:
    """Return both texts of each cell whose outputs differ from those of a new execution; pictures are not compared."""
    return [
        f"cell {number}: kept is {texts(before)}, shown now is {texts(now)}"
        for number, (before, now) in enumerate(zip(kept["cells"], new["cells"], strict=True), 1)
        if texts(before) != texts(now)
    ]


def title(cell: Notebook) -> str:
    """Return what a picture of a cell shows: the comment in the first line of the cell."""
    first = joined(cell["source"]).partition("\n")[0]
    return first.removeprefix("# ") if first.startswith("# ") else ""


def pictures(path: Path) -> dict[str, bytes]:
    """Return {name of a file: content} for the pictures of a notebook, in the order in which it shows them."""
    outputs = [output["data"] for cell in read(path)["cells"] for output in cell.get("outputs", []) if "data" in output]
    found = [base64.b64decode(joined(data[PICTURE])) for data in outputs if PICTURE in data]
    return {f"{path.stem}_{number}.png": content for number, content in enumerate(found, 1)}


def page(path: Path) -> str:
    """Return a notebook as Markdown: its texts, its code in blocks, and below each block what it shows."""
    files = iter(pictures(path))
    parts = [part for cell in read(path)["cells"] for part in (written(cell), *_outputs(cell, files))]
    return "\n\n".join(parts) + "\n"


def written(cell: Notebook) -> str:
    """Return as Markdown what the author of a cell wrote: text, or a block of code."""
    source = joined(cell["source"]).rstrip()
    return source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"


def _outputs(cell: Notebook, files: Iterator[str]) -> Iterator[str]:
    """Yield as Markdown what a cell shows; its pictures are the next ones of the files."""
    for output in cell.get("outputs", []):
        if PICTURE in output.get("data", {}):
            yield f"![{title(cell)}]({next(files)})"
        else:
            yield f"```text\n{_shown(output).rstrip()}\n```"


def main(arguments: list[str] | None = None) -> int:
    """Execute the notebooks; return 1 if `--check` finds outputs that differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    wrong: list[str] = []
    for path in paths():
        kept = read(path)
        new = executed(kept)
        if options.check:
            wrong += [f"{path.relative_to(ROOT)}: {what}" for what in stale(kept, new)]
        else:
            path.write_text(text_of(new), encoding="utf-8")
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
