"""Test that a run with error bounds has the values and traps of the reference, on every kernel of the text tests.

Exact inputs have exact results. Prints are left out, because only the launch that is judged prints.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kir_test_support.directives import read_cases, read_check
from kir_test_support.running import memory, parsed
from stackgrad.backends.base import Draws, Sizes
from stackgrad.compiler.errors import StackgradError
from stackgrad.compiler.ir.nodes import Print
from stackgrad.compiler.ir.walk import walk_kernel
from stackgrad.harness.testing.bounds import judge, run_bounded
from stackgrad.reference.launch import run

FILES = sorted(p for folder in ("ops", "statements") for p in (Path(__file__).parents[1] / folder).glob("*.kir"))


def launches(path):
    """Yield (kernel, arrays, scalars, draws) of every check of a file, for every type."""
    for case in read_cases(path.read_text()):
        if not case.invalid:
            for dtype in case.types:
                kernel = parsed(case.source(dtype))
                for directive in case.checks:
                    if directive.kind in ("run", "trap") and directive.applies(dtype or "any", "reference", "any"):
                        check = read_check(directive)
                        yield kernel, *memory(kernel, check), Draws(*check.draws)


def attempt(launch):
    try:
        return launch(), None
    except StackgradError as error:
        return None, type(error)


@pytest.mark.rotating
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_values_are_those_of_the_reference(path, capsys):
    count = 0
    for kernel, arrays, scalars, draws in launches(path):
        memory_of_run = {name: array.copy() for name, array in arrays.items()}
        _, expected = attempt(lambda: run(kernel, memory_of_run, scalars, Sizes(), draws))  # noqa: B023
        for precise in (True, False):
            found, error = attempt(lambda: run_bounded(kernel, arrays, scalars, Sizes(), draws, precise=precise))  # noqa: B023
            assert error == expected
            if found is not None:
                count += 1
                for name, array in memory_of_run.items():
                    assert found.arrays[name].tobytes() == array.tobytes(), name
                    assert found.errors[name].shape == array.shape
                states = {v.state for v in judge(found.arrays, memory_of_run, found.errors).values()}
                assert "disagree" not in states
            if not any(isinstance(s, Print) for s in walk_kernel(kernel)):
                assert capsys.readouterr().out == ""
    assert count > 0
