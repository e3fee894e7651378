"""This module makes the lines of a golden record for all kernels of a checkout, in several processes.

Every process works in the root of the checkout and uses no cache on disk, so that rows depend on neither the current
folder nor earlier runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import chdir
from dataclasses import replace
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

from . import adapter as at
from .code import runtime_code
from .inputs import KernelSelection, KernelSource, input_files, label, sources_of
from .record import RecordRow, keep_text, row_of
from .texts import texts_of, without_places

Seen = Callable[[str, int], None]
"""Function that is called with the label of each file that is done, and the number of its rows."""

RUNTIME = "runtime"
"""Label that code has which no kernel decides, in place of the label of a file."""


def rows_of_file(path: Path, selection: KernelSelection, texts: Path | None = None) -> list[RecordRow]:
    """Return the record rows of the selected kernels of one file.

    Args:
        path: The file, absolute.
        selection: Selection of the kernels.
        texts: Folder that the texts are written to, or None to make only digests.

    Raises:
        GoldenError: A program failed.
    """
    os.environ["STACKGRAD_CACHE"] = "0"
    with chdir(at.ROOT):
        return [row for source in selection.of(sources_of(path)) for row in _rows(source, path, texts)]


def rows_of_runtime(selection: KernelSelection, texts: Path | None = None) -> list[RecordRow]:
    """Return the record rows of the generated code that does not depend on a kernel."""
    sources = [KernelSource(f"{RUNTIME}:{name}", None, text) for name, text in runtime_code().items()]
    return [row for source in selection.of(sources) for row in _rows(source, None, texts)]


def _rows(source: KernelSource, path: Path | None, texts: Path | None) -> Iterator[RecordRow]:
    for found in texts_of(source):
        text = replace(found, text=without_places(found.text, path, label(path))) if path else found
        if texts is not None:
            keep_text(texts, text)
        yield row_of(text)


def all_rows(selection: KernelSelection, jobs: int, texts: Path | None, seen: Seen) -> list[RecordRow]:
    """Return the record rows of all selected kernels; `seen` is called with the name and row count of each file."""
    files = [path for path in input_files(at.ROOT) if selection.wants_file(path)]
    rows = rows_of_runtime(selection, texts)
    for path, found in _results(files, selection, jobs, texts):
        seen(label(path), len(found))
        rows += found
    return rows


def _results(
    files: Sequence[Path], selection: KernelSelection, jobs: int, texts: Path | None
) -> Iterator[tuple[Path, list[RecordRow]]]:
    if jobs == 1:
        yield from ((path, rows_of_file(path, selection, texts)) for path in files)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), _end_with_parent) as pool:
        futures = {pool.submit(rows_of_file, path, selection, texts): path for path in files}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _end_with_parent() -> None:
    """Let this process end when its parent has ended, so that no process waits for work after a run was killed."""

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()
