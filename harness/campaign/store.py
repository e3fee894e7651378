"""The folder of a campaign: its spec, one file for each finished unit, the corpus of what was found.

A file appears whole or not at all, so a campaign may be stopped at any time and resumed.
"""
from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

from ..fuzz import corpus
from .plain import Plain, from_plain
from .spec import Spec, from_json

SPEC, UNITS, CORPUS = "campaign.json", "units", "corpus"


class Store:
    """A campaign on disk. Raises ValueError if the folder holds another campaign, or none and no spec is given."""

    def __init__(self, folder: Path, spec: Spec | None = None) -> None:
        self.folder = folder
        self.corpus = folder / CORPUS
        place = folder / SPEC
        if place.exists():
            self.spec = from_json(place.read_text(encoding="utf-8"))
            if spec is not None and spec != self.spec:
                raise ValueError(f"{folder} holds another campaign: {self.spec}")
        elif spec is None:
            raise ValueError(f"{folder} holds no campaign")
        else:
            self.spec = spec
            (folder / UNITS).mkdir(parents=True, exist_ok=True)
            _write(place, spec.to_json())

    def _path(self, unit: int) -> Path:
        return self.folder / UNITS / f"{unit:07d}.json"

    def pending(self) -> Iterator[int]:
        """Numbers of units that are not finished, without end."""
        return (unit for unit in itertools.count() if not self._path(unit).exists())

    def put(self, result: Plain) -> None:
        """Keep the result of a unit, and what it found in the corpus."""
        for finding in from_plain(result).findings:
            corpus.write(self.corpus, finding)
        _write(self._path(result["unit"]), json.dumps(result) + "\n")

    def results(self) -> Iterator[Plain]:
        """Every finished unit, in order of number."""
        for path in sorted((self.folder / UNITS).glob("*.json")):
            found: Plain = json.loads(path.read_text(encoding="utf-8"))
            yield found


def _write(path: Path, text: str) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
