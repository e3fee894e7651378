"""ARCHITECTURE.md is what the code says: generated, complete, and short."""

from __future__ import annotations

import importlib.util
import re

import architecture
import project_tree as tree
import pytest

CURE = "stale: run `python ci/architecture.py`"


def test_the_page_is_not_stale() -> None:
    assert architecture.PAGE.read_text(encoding="utf-8") == architecture.page(), CURE


def test_the_page_is_one_page() -> None:
    assert architecture.page().count("\n") < 130


def test_every_package_of_the_first_two_levels_is_in_the_reading_order() -> None:
    packages = {
        tree.relative(path).removesuffix("/__init__.py")
        for path in tree.modules().values()
        if path.name == "__init__.py"
    }
    apart = {
        "compiler",
        "harness",
        "backends/codegen/polynomials",
        "src/stackgrad/compat/children/quadrants",
        "src/stackgrad/compat/children/taichi",
        "src/stackgrad/data/fields",
        "src/stackgrad/data/values",
    }
    public = {"ad", "capture", "jax", "linalg", "math", "torch", "types"}
    apart |= {f"src/stackgrad/{name}" for name in public}
    apart |= {name for name in packages if name.startswith("harness/") and name.count("/") > 1}
    assert packages - apart == set(architecture.READING_ORDER)


@pytest.mark.parametrize("test", sorted(set(architecture.HELD.values())))
def test_what_holds_a_promise_exists(test: str) -> None:
    assert (tree.ROOT / test).exists()


def test_pages_exist() -> None:
    for name in filter(None, architecture.READING_ORDER.values()):
        assert (tree.ROOT / "docs" / f"{name}.md").is_file(), name


def test_the_drawing_names_the_layers_that_are_checked() -> None:
    """Each package of a contract that the drawing shows can be imported."""
    for contract in ("package", "harness", "backends", "compiler"):
        for name in re.findall(r"[\w.]+", " ".join(architecture.layers(contract))):
            assert importlib.util.find_spec(name) is not None, name


def test_pipelines_are_those_of_the_driver() -> None:
    from stackgrad.compiler import driver

    found = architecture.pipelines()
    for name in ("FORWARD", "TIDY"):
        assert found[name] == [step for step, _ in getattr(driver, name)]
    whole = [step for part in found["BEFORE_REVERSE"] for step in (found["TIDY"] if part == "tidy…" else [part])]
    assert whole == [step for step, _ in driver.BEFORE_REVERSE]
