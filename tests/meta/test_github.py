"""The forms under .github parse, ask for what a report needs, and name commands that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import project_tree as tree
import pytest
import yaml  # comes with dask, which the extra `dev` installs
from stackgrad.cli import build_parser

FOLDER = tree.ROOT / ".github"
FORMS = sorted(path for path in (FOLDER / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
KINDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def problems(form: Any) -> list[str]:
    """What a host would refuse in a form, or what a reader could not answer."""
    wrong = [f"no {key}" for key in ("name", "description", "body") if not form.get(key)]
    parts = form.get("body") or []
    wrong += [f"unknown type: {part.get('type')}" for part in parts if part.get("type") not in KINDS]
    asked = [part for part in parts if part.get("type") != "markdown"]
    wrong += ["a part without id" for part in asked if not re.fullmatch(r"[a-z_]+", part.get("id", ""))]
    wrong += ["a part without label" for part in asked if not part.get("attributes", {}).get("label")]
    if len({part.get("id") for part in asked}) < len(asked):
        wrong.append("an id that comes twice")
    if not any(part.get("validations", {}).get("required") for part in asked):
        wrong.append("nothing is required")
    return wrong


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_whole(path: Path) -> None:
    assert problems(yaml.safe_load(path.read_text(encoding="utf-8"))) == []


def test_there_is_a_form_for_each_kind_of_report() -> None:
    assert {path.stem for path in FORMS} == {"wrong_gradient", "bug", "feature"}
    settings = yaml.safe_load((FOLDER / "ISSUE_TEMPLATE/config.yml").read_text(encoding="utf-8"))
    assert set(settings) <= {"blank_issues_enabled", "contact_links"}


def test_commands_of_forms_exist() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (*FORMS, FOLDER / "PULL_REQUEST_TEMPLATE.md")]
    named = {command for text in texts for command in re.findall(r"`stackgrad ([a-z].*?)`", text)}
    assert len(named) > 2
    for command in named:
        words = command.split()
        build_parser().parse_args(words if len(words) > 1 or words[0] == "doctor" else [*words, "FOLDER"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: A\ndescription: B\nbody: []", "no body"),
        ("name: A\ndescription: B\nbody: [{type: table}]", "unknown type: table"),
        ("name: A\ndescription: B\nbody: [{type: input, id: a, attributes: {label: L}}]", "nothing is required"),
        ("name: A\ndescription: B\nbody: [{type: input, attributes: {label: L}}]", "a part without id"),
    ],
)
def test_a_bad_form_is_noticed(text: str, problem: str) -> None:
    assert problem in problems(yaml.safe_load(text))
