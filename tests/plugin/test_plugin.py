"""The plugin in a test run of its own: markers, options, required backends, the matrix."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
import stackgrad.backends.registry
import stackgrad.capture
import stackgrad.harness.testing.plugin
import stackgrad.harness.testing.plugin_matrix
import stackgrad.runtime.session  # noqa: F401 - all of it before the inner runs, which forget what they import
from stackgrad.backends.base import Probe
from stackgrad.compiler.ad.policies import policy_of
from stackgrad.harness.testing.plugin_matrix import count_outcomes, table_lines

DEFAULT = policy_of("").name
"""That of this run, which may have been given one itself."""
TESTS = """
import pytest

@pytest.mark.backends("reference", "cpu")
def test_both(backend):
    from stackgrad.runtime.session import RUNTIME
    assert RUNTIME.settings.arch == backend.name == str(backend)
    backend.init(debug=True)
    assert RUNTIME.settings.debug and RUNTIME.settings.arch == backend.name

@pytest.mark.backends("reference", optional="away")
def test_optional(backend):
    assert backend.name == "reference"

@pytest.mark.backends("cpu")
def test_wrong(backend):
    assert backend.name == "reference"

def test_plain():
    pass
"""


@pytest.fixture
def inner(pytester, monkeypatch):
    """Return a function that runs pytest in this process with the plugin; the backend `away` is not available."""
    real = stackgrad.backends.registry.probe_all

    def probes():
        return {**real(), "away": Probe(False, reason="no such machine", cure="buy one")}

    monkeypatch.setattr(stackgrad.backends.registry, "probe_all", probes)
    monkeypatch.delenv("STACKGRAD_REQUIRED_BACKENDS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(text, *args):
        pytester.makepyfile(text)
        plugins = ("-p", "stackgrad.harness.testing.plugin", "-p", "no:cacheprovider")
        return pytester.runpytest_inprocess(*plugins, "--strict-markers", *args)

    return run


def test_one_test_for_each_backend_and_a_matrix_of_them(inner):
    result = inner(TESTS, "-v", "-rs")
    result.assert_outcomes(passed=4, failed=1, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*::test_both?reference? PASSED*",
            "*::test_both?cpu? PASSED*",
            "*::test_optional?away? SKIPPED*",
            "*::test_plain PASSED*",
        ]
    )
    result.stdout.fnmatch_lines(["*backend away cannot run here: no such machine. buy one*"])
    result.stdout.fnmatch_lines(
        [
            "*- backends -*",
            "*passed*failed*skipped",
            "reference*2*0*0",
            "cpu*1*1*0",
            "away*0*0*1*absent: no such machine",
        ]
    )


def test_the_option_leaves_backends_out(inner):
    result = inner(TESTS, "--backend", "reference")
    result.assert_outcomes(passed=3, deselected=3)


LOWERED = """
import pytest
from stackgrad.compiler.ad.policies import policy_of

def test_the_default():
    assert policy_of("").name == "stored" and policy_of("lean").name == "lean"
"""


def test_the_policy_of_gradients_is_that_of_the_run_alone(inner):
    inner(LOWERED, "--lowering", "stored").assert_outcomes(passed=1)
    assert policy_of("").name == DEFAULT
    result = inner(LOWERED, "--lowering", "other")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*there is no policy 'other' for gradients; known: lean, classic, *"])


@pytest.mark.parametrize(
    ("args", "required", "message"),
    [
        (["--backend", "away"], "", "*backend away cannot run here: no such machine. buy one"),
        (["--backend", "gpu9"], "", "*backend gpu9: there is none of this name; known: reference, cpu, *"),
        ([], "reference, away", "*backend away cannot run here: no such machine. buy one"),
    ],
)
def test_backends_that_are_asked_for_must_be_here(inner, monkeypatch, args, required, message):
    monkeypatch.setenv("STACKGRAD_REQUIRED_BACKENDS", required)
    result = inner(TESTS, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@pytest.mark.backends('away')\ndef test(backend): pass", "*backend away cannot run here: no such machine*"),
        ("@pytest.mark.backends('gpu9')\ndef test(backend): pass", "*backends: there is none of the name 'gpu9'*"),
        (
            "@pytest.mark.backends('cpu')\ndef test(): pass",
            "*test is marked with backends, but does not take `backend`",
        ),
        ("def test(backend): pass", "*`backend` needs @pytest.mark.backends(...) on the test"),
    ],
)
def test_misuse_is_an_error(inner, text, message):
    result = inner(f"import pytest\n{text}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])


def test_no_name_means_all_backends(inner):
    result = inner("import pytest\n@pytest.mark.backends\ndef test(backend): pass")
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] >= 2 and outcomes["skipped"] >= 1, "those that are not here are skipped"


def test_without_backends_there_is_no_matrix(inner):
    result = inner("def test(): pass")
    result.stdout.no_fnmatch_line("*- backends -*")


def test_reports_of_other_processes_are_counted():
    """xdist sends properties as lists; an error around a test is a failure."""

    def report(*pairs):
        return SimpleNamespace(user_properties=[list(pair) for pair in pairs])

    stats = {
        "passed": [report(("backend", "cpu")), report(("other", 1))],
        "failed": [report(("backend", "cpu"))],
        "error": [report(("backend", "cpu")), SimpleNamespace()],
        "warnings": [object()],
    }
    counts = count_outcomes(stats)
    assert counts == {"cpu": Counter(passed=1, failed=2)}
    assert table_lines(counts, {"cpu": Probe(True), "there": Probe(True), "away": Probe(False, reason="none")})[1:] == [
        "cpu                  1         2         0",
        "away            absent: none",
    ]
