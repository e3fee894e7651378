"""Test that the sections of docs/autodiff.md run as printed, on CPU and reference, and give the printed messages."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import stackgrad as sg

PAGE = Path(__file__).resolve().parents[2] / "docs" / "autodiff.md"
TOPICS = {
    "A first gradient",
    "Tape, or a gradient called by hand",
    "Accumulating and clearing",
    "Loops",
    "What history costs",
    "Checkpoints",
    "Overwriting in a kernel",
    "Overwriting between launches",
    "Gradients that kernels read",
    "Programs indexed by time",
    "Atomics",
    "Integers, booleans and casts",
    "Stopping a gradient",
    "A gradient of your own",
    "What the host writes",
    "Copies between fields",
    "What the host reads",
    "Threads",
    "Writes that no tape sees",
    "Random numbers",
    "Vectors, matrices, local arrays",
    "Parallel loops",
    "Losses and seeds",
    "Forward mode",
    "Jacobians and Hessian-vector products",
    "JAX and torch",
    "Checking a gradient",
    "Singular points",
    "Reading an error message",
}


class Block(NamedTuple):
    """Represent a fenced block; `tag` is python or text, and `info` the rest of its first line."""

    tag: str
    info: str
    code: str


def blocks(text: str) -> list[Block]:
    found = re.findall(r"^```(\w+) ?(.*?)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(*one) for one in found]


def sections() -> dict[str, str]:
    """Return the text of each section by its heading."""
    parts = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


PREAMBLE = next(b.code for b in blocks(PAGE.read_text().split("\n## ")[0]) if b.info == "preamble")
SECTIONS = sections()


def plain(message: str, folder: Path) -> str:
    """Return a message without the folder and without line and column numbers, which depend on the preceding text."""
    text = message.replace(f"{folder}/", "")
    text = re.sub(r"(guide\.py):\d+(:\d+)?", r"\1:N", text)
    return re.sub(r"line \d+", "line N", text)


def run(section: str, folder: Path, arch: str) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a section as a file guide.py. Yield each message on the page and the raised message."""
    found = [b for b in blocks(section) if b.tag in ("python", "text")]
    source, space = PREAMBLE.replace("sg.cpu", f"sg.{arch}"), ModuleType("guide").__dict__
    path = folder / "guide.py"
    step(path, source, source, space)
    raised = ""
    for block in found:
        if block.tag == "text":
            yield block, plain(raised, folder)
            continue
        before = source
        source += block.code
        wanted = block.info.removeprefix("raises=")
        if not wanted:
            step(path, source, block.code, space, before)
            continue
        kind = getattr(sg, wanted, None) or getattr(sg.ad, wanted)
        with pytest.raises(kind) as caught:
            step(path, source, block.code, space, before)
        raised = str(caught.value)


def step(path: Path, source: str, code: str, space: dict[str, Any], before: str = "") -> None:
    """Execute the last lines of a file that ends with them, at their line numbers."""
    path.write_text(source)
    linecache.checkcache(str(path))
    space["__file__"] = str(path)
    exec(compile("\n" * before.count("\n") + code, str(path), "exec"), space)


@pytest.mark.rotating
@pytest.mark.parametrize("arch", ["cpu", "reference"])
@pytest.mark.parametrize("topic", SECTIONS)
def test_section(topic: str, arch: str, tmp_path: Path) -> None:
    for block, message in run(SECTIONS[topic], tmp_path, arch):
        for line in plain(block.code, tmp_path).splitlines():
            assert line.strip() in message, message


def test_topics() -> None:
    """All are there, in the contents too; each states its rule after its program."""
    text = PAGE.read_text()
    assert set(SECTIONS) == TOPICS
    listed = re.findall(r"^\d+\. \[(.*)\]\(#(.*)\)$", text, re.MULTILINE)
    assert [name for name, _ in listed] == list(SECTIONS)
    assert all(anchor == re.sub(r"[^\w -]", "", name.lower()).replace(" ", "-") for name, anchor in listed)
    for topic, section in SECTIONS.items():
        assert section.lstrip()[0] not in "`*", f"{topic} begins with its problem"
        assert "assert" in section and section.rindex("```") < section.index("**Rule.**"), topic


def test_a_wrong_claim_is_found(tmp_path: Path) -> None:
    """The runner itself: a false assertion fails, and so does an error that does not come."""
    with pytest.raises(AssertionError):
        list(run("```python\nassert sg.f64 is None\n```\n", tmp_path, "cpu"))
    with pytest.raises(pytest.fail.Exception):
        list(run("```python raises=TapeError\nx = 1\n```\n", tmp_path, "cpu"))
