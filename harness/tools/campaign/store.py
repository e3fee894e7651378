"""This module manages the folder of a campaign: its spec, a file for each finished unit, and a corpus of findings.

A file appears completely or not at all, so a campaign may be stopped at any time and resumed. The folder may come from
a stranger: only small regular files are read, and only data in the forms that this module writes.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

from ....backends.folders import Folder
from ..fuzz import corpus
from ..fuzz.statistics import Statistics
from ..plain_data import MalformedDataError
from .plain_results import Plain, ended_and_found, from_plain
from .spec import CampaignSpec, from_json

SPEC, UNITS, CORPUS = "campaign.json", "units", "corpus"
LONGEST = 64 << 20
"""Largest size of the file of a unit in bytes."""


class CampaignStore:
    """Represent a campaign in a folder: its spec, the results of finished units, and its findings.

    The constructor raises ValueError if the folder holds another campaign, or if it holds none and no spec is given.
    """

    def __init__(self, folder: Path, spec: CampaignSpec | None = None) -> None:
        self.folder = folder
        self.corpus = folder / CORPUS
        known = _spec(folder)
        if known is not None:
            self.spec = known
            if spec is not None and spec != self.spec:
                raise ValueError(f"{folder} holds another campaign: {self.spec}")
        elif spec is None:
            raise ValueError(f"{folder} holds no campaign")
        else:
            self.spec = spec
            (folder / UNITS).mkdir(parents=True, exist_ok=True)
            with Folder(folder, follow=True) as held:
                held.write(SPEC, spec.to_json())

    def pending(self) -> Iterator[int]:
        """Yield, without end, the numbers of the campaign units that are not finished."""
        units = self.folder / UNITS
        return (unit for unit in itertools.count() if not os.path.lexists(units / _name(unit)))

    def put(self, result: Plain) -> None:
        """Write the result of a unit to its file, and add its findings to the corpus."""
        # Findings are written first, because a unit whose file exists counts as finished.
        for finding in from_plain(result).findings:
            corpus.write(self.corpus, finding)
        with Folder(self.folder, follow=True) as held, held.folder(UNITS) as units:
            units.write(_name(result["unit"]), json.dumps(result) + "\n")

    def results(self) -> Iterator[tuple[float, Statistics]]:
        """Yield the end time and the statistics of each finished unit, in order of number.

        Raises:
            ValueError: a file cannot be read.
        """
        for name in self._names():
            try:
                with Folder(self.folder, follow=True) as held, held.folder(UNITS) as units:
                    text = units.read(name, LONGEST).decode()
                yield ended_and_found(text)
            except (OSError, MalformedDataError, UnicodeDecodeError) as error:
                raise corpus.unusable_error(self.folder / UNITS / name, error) from None

    def _names(self) -> list[str]:
        try:
            with Folder(self.folder, follow=True) as held, held.folder(UNITS) as units:
                return [name for name in units.names() if name.endswith(".json")]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise corpus.unusable_error(self.folder / UNITS, error) from None


def _name(unit: int) -> str:
    return f"{unit:07d}.json"


def _spec(folder: Path) -> CampaignSpec | None:
    """Return the spec in the folder, or None if there is none; raise ValueError if it cannot be read."""
    try:
        with Folder(folder, follow=True) as held:
            return from_json(held.read(SPEC, LONGEST).decode())
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise corpus.unusable_error(folder / SPEC, error) from None
