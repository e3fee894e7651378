"""Test that the example in docs/harness.md behaves as the page shows."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path

import forward_mode
import pytest
from stackgrad.harness.testing.executors import present_backends
from stackgrad.harness.testing.plugin_checks import OpenPanel
from stackgrad.harness.tools.mutants import MUTANTS

TEXT = (Path(__file__).parents[2] / "docs" / "harness.md").read_text(encoding="utf-8")


@pytest.fixture
def executor_panel():
    """Return a panel of the cpu and the reference only, even if other backends are available or requested."""
    return OpenPanel(present_backends(["cpu"])[0])


@pytest.fixture
def example(tmp_path):
    """Return the test on the page as a module with a file, because kernels need their source."""
    block = next(b for b in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if "def test_spring" in b)
    path = tmp_path / "document_example.py"
    path.write_text(block)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.test_spring


@pytest.mark.backends("reference", "cpu")
def test_the_example_passes(example, backend, differential, gradcheck):
    example(backend, differential, gradcheck)


@pytest.mark.backends("reference")
def test_the_failure_reads_as_shown(example, backend, differential, gradcheck):
    with MUTANTS["sub-without-sign"].planted(), pytest.raises(AssertionError) as caught:
        example(backend, differential, gradcheck)
    assert str(caught.value) in TEXT


def test_the_executor_is_the_one_that_is_tested():
    source = inspect.getsource(forward_mode)
    assert len(source.splitlines()) < 100
    assert source[source.index("import time") :].strip() in TEXT


def test_the_mutants_are_listed():
    listed = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", TEXT, re.MULTILINE)
    assert dict(listed) == {mutant.name: mutant.description for mutant in MUTANTS.values()}


def test_the_reason_for_an_absent_backend_is_one_that_is_given():
    shown = re.findall(r"absent: (.*?)\.*$", TEXT, re.MULTILINE)
    driver = (Path(__file__).parents[2] / "backends/cuda/nvidia.py").read_text(encoding="utf-8")
    assert shown and all(reason.rstrip(": ") in driver for reason in shown)
