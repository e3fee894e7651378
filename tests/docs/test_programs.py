"""Programs in pages for users run as they are printed, and no page has one that no test runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import doc_pages  # noqa: E402
import page_preludes  # noqa: E402
import page_programs  # noqa: E402
from page_programs import Block, Undeclared  # noqa: E402

WHOLE = ("tutorial", "guide", "blocks", "how_it_works", "comparison", "costs")
"""Pages whose blocks are one program."""
ONLY_CPU = ("costs",)
"""Pages that speak of the memory of a CPU."""
ELSEWHERE = {
    "../README.md": "tests/docs/test_readme.py",
    "autodiff.md": "tests/docs/test_autodiff_guide.py",
    "harness.md": "tests/plugin/test_document.py",
}
"""Pages whose programs other tests run."""


CASES = [(page, "cpu") for page in WHOLE] + [(page, "reference") for page in WHOLE if page not in ONLY_CPU]


@pytest.mark.parametrize(("page", "arch"), CASES)
def test_the_program_of_a_page(page: str, arch: str, tmp_path: Path) -> None:
    text = doc_pages.text_of(f"docs/{page}.md")
    assert text.count("sg.init(arch=sg.cpu") == 1
    page_programs.run(text, tmp_path / f"{page}.py", {"arch=sg.cpu": f"arch=sg.{arch}"})


def excerpts() -> list[tuple[str, Block]]:
    """The blocks of pages that show parts of programs, with their pages."""
    pages = {page: doc_pages.text_of(f"docs/{page}") for page in page_preludes.PRELUDES}
    return [(page, block) for page, text in pages.items() for block in page_programs.blocks(text)]


def programs() -> list[tuple[str, Block]]:
    return [(page, block) for page, block in excerpts() if block.tag == "python"]


@pytest.mark.parametrize(("page", "block"), programs(), ids=[f"{page}-{block.line}" for page, block in programs()])
def test_excerpts_run_after_what_they_leave_out(page: str, block: Block, tmp_path: Path) -> None:
    before, libraries = page_preludes.prelude(page, block.code)
    for library in libraries:
        pytest.importorskip(library)
    program = f"```python\n{before}```\n\n```python\n{block.code}```\n"
    page_programs.run(program, tmp_path / "program.py")


def test_pages_with_excerpts_have_some() -> None:
    assert {page for page, _ in programs()} == set(page_preludes.PRELUDES)


def test_no_page_for_users_has_a_program_that_no_test_runs() -> None:
    index = doc_pages.text_of("docs/index.md")
    users = index[: index.index("## You work on compilers")]
    pages = set(re.findall(r"\]\(([\w./]+\.md)", users))
    assert {"tutorial.md", "autodiff.md", "reference.md"} <= pages
    with_programs = {p for p in pages if "```python" in doc_pages.text_of(f"docs/{p}".replace("docs/../", ""))}
    run = {*(f"{page}.md" for page in WHOLE), *page_preludes.PRELUDES, *ELSEWHERE}
    assert with_programs == run
    assert all((doc_pages.ROOT / test).exists() for test in ELSEWHERE.values())


def test_a_program_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        page_programs.run("```python\nassert 1 == 2\n```\n", tmp_path / "a.py")
    with pytest.raises(Undeclared, match="no ValueError"):
        page_programs.run("```python raises=ValueError\nx = 1\n```\n", tmp_path / "b.py")
    with pytest.raises(Undeclared, match="printed is"):
        page_programs.run("```python\nprint(1)\n```\n\n```text\n2\n```\n", tmp_path / "c.py")
    with pytest.raises(ZeroDivisionError):
        page_programs.run("```python raises=ValueError\n1 / 0\n```\n", tmp_path / "d.py")


def test_blocks_share_names_and_keep_their_lines(tmp_path: Path) -> None:
    program = "```python\nx = 1\n```\n\n```sh\nls\n```\n\n```python\nimport inspect\ny = x + 1\nprint(y)\n```\n"
    text = f"# A page\n\n{program}\n```text\n2\n```\n"
    assert page_programs.run(text, tmp_path / "page.py")["y"] == 2
    assert [block.line for block in page_programs.blocks(text)] == [3, 7, 11, 17]
    assert (tmp_path / "page.py").read_text().splitlines()[3] == "x = 1"
