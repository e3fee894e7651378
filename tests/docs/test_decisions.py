"""docs/decisions: numbers are unique, records begin with status and date, and the index lists them all."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import doc_pages  # noqa: E402

FOLDER = "docs/decisions"
FRONT = re.compile(r"# (\d{4})\. (.+)\n\n\* Status: (.+)\n\* Date: (\d{4}-\d{2}-\d{2})\n\n")
STATUS = re.compile(r"proposed|accepted|superseded by \d{4}")


class Record(NamedTuple):
    """What a record says of itself."""

    number: str
    title: str
    status: str
    date: str


def records() -> dict[str, Record]:
    """By file name. Raises AssertionError for a file that does not begin as a record does."""
    names = [page.split("/")[-1] for page in doc_pages.pages() if page.startswith(f"{FOLDER}/")]
    return {name: record(doc_pages.text_of(f"{FOLDER}/{name}")) for name in names if name != "README.md"}


def record(text: str) -> Record:
    front = FRONT.match(text)
    assert front, f"does not begin with title, status and date: {text[:80]!r}"
    assert STATUS.fullmatch(front[3]), f"no status: {front[3]}"
    return Record(*front.groups())


def test_files_are_named_by_their_numbers() -> None:
    found = records()
    assert len(found) > 10
    assert all(name.startswith(f"{one.number}-") for name, one in found.items())
    assert sorted(one.number for one in found.values()) == [f"{k:04d}" for k in range(1, len(found) + 1)]


def test_a_record_that_is_superseded_names_one_that_exists() -> None:
    found = records()
    numbers = {one.number for one in found.values()}
    assert {one.status[-4:] for one in found.values() if one.status.startswith("superseded")} <= numbers


def test_the_index_lists_every_record() -> None:
    rows = re.findall(
        r"^\| \[(\d{4})\]\((\S+)\) \| (.+?) \| (.+?) \| (.+?) \| (.+) \|$",
        doc_pages.text_of(f"{FOLDER}/README.md"),
        re.MULTILINE,
    )
    listed = {name: Record(number, title, status, date) for number, name, title, status, date, _ in rows}
    assert listed == records()
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert all(row[5].endswith(".") for row in rows), "one sentence each"


@pytest.mark.parametrize(
    "text",
    [
        "# A title\n\n* Status: accepted\n* Date: 2026-01-02\n\n",
        "# 0001. A title\n\nText\n",
        "# 0001. A title\n\n* Status: perhaps\n* Date: 2026-01-02\n\n",
        "# 0001. A title\n\n* Status: accepted\n* Date: January\n\n",
    ],
)
def test_what_is_no_record_is_noticed(text: str) -> None:
    with pytest.raises(AssertionError):
        record(text)
