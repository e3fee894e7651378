"""This pytest plugin runs tests of kernels on every backend and judges them by every executor.

    pytest_plugins = ["stackgrad.harness.testing.plugin"]        in the conftest.py at the root of the tests

    @pytest.mark.backends("reference", "cpu", optional="cuda")
    def test_step(backend, differential, gradcheck): ...

`backends` makes one test for each name; `backend` starts the runtime on it. `differential` and `gradcheck` call a
kernel and raise AssertionError, with a table, unless all executors agree on the results. `--backend NAME` (repeatable)
restricts which backends run. STACKGRAD_REQUIRED_BACKENDS="reference,cpu" names backends whose absence ends the run. A
matrix of backends and outcomes stands at the end of the output.

No module of the compiler is imported before a test needs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ...backends.base import Probe
    from .executors import Executor
    from .launch import CapturedLike
    from .plugin_checks import OpenPanel
    from .replay import ReplayCase

REQUIRED = "STACKGRAD_REQUIRED_BACKENDS"
MARKER = (
    "backends(*names, optional=()): run once on each of these backends (all of them, if none is named); an absent"
    " optional one is skipped, with the reason"
)
RECORDED = 2
"""Number of launches of each kernel that a check judges, if the called function launches more."""

Check = Callable[..., "list[ReplayCase]"]
"""A function from a callable that launches kernels, and its arguments, to the cases that were compared.

It raises AssertionError if executors disagree.
"""


# ---- choosing backends --------------------------------------------------------------------------------------


def probes() -> Mapping[str, Probe]:
    """Return, by name, the Probe of every backend, which says whether the backend can run on this machine."""
    from ...backends import registry

    return registry.probe_all()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add pytest's options `--backend`, the backends to run on, and `--lowering`, the policy of gradients."""
    parser.addoption("--backend", action="append", default=[], metavar="NAME", help="run only these backends")
    text = "make gradients by this policy, where a test names none; all give one gradient"
    parser.addoption("--lowering", default="", metavar="NAME", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """End the run if a required backend is absent or a policy is not known."""
    config.addinivalue_line("markers", MARKER)
    config.addinivalue_line("markers", "lowering(name): make the gradients of this test by this policy")
    required = [n.strip() for n in os.environ.get(REQUIRED, "").split(",") if n.strip()]
    named = list(dict.fromkeys(required + config.getoption("--backend")))
    absent = [text for text in map(_absence, named) if text] if named else []
    if absent:
        raise pytest.UsageError("\n".join(absent))
    if config.getoption("--lowering"):
        _set_lowering(config, config.getoption("--lowering"))


def _set_lowering(config: pytest.Config, name: str) -> None:
    """Set the default policy for the whole test run, and restore the old policy at its end."""
    from ...compiler.ad.policies import POLICIES, set_default

    if name not in POLICIES:
        raise pytest.UsageError(f"there is no policy {name!r} for gradients; known: {', '.join(POLICIES)}")
    before = set_default(name)

    def put_back() -> None:
        set_default(before)

    config.add_cleanup(put_back)


@pytest.fixture(autouse=True)
def _own_lowering(request: pytest.FixtureRequest) -> Iterator[None]:
    """Use the policy that the marker `lowering(name)` of a test names for the gradients of this test."""
    marker = request.node.get_closest_marker("lowering")
    if marker is None:
        yield
        return
    from ...compiler.ad.policies import set_default

    before = set_default(*marker.args)
    try:
        yield
    finally:
        set_default(before)


def _absence(name: str) -> str:
    """Return a text that says why a backend cannot run on this machine, or "" if it can."""
    known = probes()
    if name not in known:
        return f"backend {name}: there is none of this name; known: {', '.join(known)}"
    probe = known[name]
    return "" if probe.available else f"backend {name} cannot run here: {probe.reason}. {probe.cure}".rstrip()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with the backends that its `backends` marker names, so that it runs once for each."""
    marker = metafunc.definition.get_closest_marker("backends")
    if marker is None:
        return
    if "backend" not in metafunc.fixturenames:
        pytest.fail(f"{metafunc.function.__name__} is marked with backends, but does not take `backend`", pytrace=False)
    metafunc.parametrize("backend", [pytest.param(name, id=name) for name in _named(marker)], indirect=True)


def _named(marker: pytest.Mark) -> list[str]:
    optional = _optional(marker)
    names = list(dict.fromkeys((*marker.args, *optional))) or list(probes())
    unknown = [name for name in names if name not in probes()]
    if unknown:
        known = ", ".join(probes())
        pytest.fail(f"backends: there is none of the name {unknown[0]!r}; known: {known}", pytrace=False)
    return names


def _optional(marker: pytest.Mark) -> tuple[str, ...]:
    optional = marker.kwargs.get("optional", ())
    return (optional,) if isinstance(optional, str) else tuple(optional)


def _backend_of(item: pytest.Item) -> str:
    """Return the name of the backend on which a test item runs, or "" if it runs on none."""
    if item.get_closest_marker("backends") is not None and isinstance(item, pytest.Function):
        return str(item.callspec.params["backend"])
    own = getattr(item, "backend", "")
    return own if isinstance(own, str) else ""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Store the name of the backend as a property of the test item, so that the final table can count it."""
    from .plugin_matrix import PROPERTY

    backend = _backend_of(item)
    if backend:
        item.user_properties.append((PROPERTY, backend))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove the tests of backends that `--backend` leaves out."""
    only = config.getoption("--backend")
    dropped = [item for item in items if only and (_backend_of(item) or only[0]) not in only]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        gone = set(map(id, dropped))
        items[:] = [item for item in items if id(item) not in gone]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table of backends and test outcomes if any test ran on a backend."""
    from .plugin_matrix import count_outcomes, table_lines

    counts = count_outcomes(terminalreporter.stats)
    if counts:
        terminalreporter.section("backends", sep="-")
        for line in table_lines(counts, probes()):
            terminalreporter.write_line(line)


# ---- fixtures -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BackendUnderTest:
    """Represent the backend on which a test runs; `init` restarts the runtime on it."""

    name: str

    def init(self, **options: Any) -> None:
        """Restart the runtime on this backend with the options of `sg.init`; fields made before become invalid."""
        from ...runtime.session import init

        init(arch=self.name, **options)

    def __str__(self) -> str:
        return self.name


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[BackendUnderTest]:
    """Start the runtime on one of the backends that the marker `backends` names, and reset it after the test."""
    marker = request.node.get_closest_marker("backends")
    if marker is None:
        pytest.fail("`backend` needs @pytest.mark.backends(...) on the test", pytrace=False)
    absence = _absence(request.param)
    if absence and (request.param in _optional(marker) or not marker.args):
        pytest.skip(absence)
    if absence:
        pytest.fail(absence, pytrace=False)
    from ...runtime.session import reset

    runtime = BackendUnderTest(request.param)
    runtime.init()
    yield runtime
    reset()


@pytest.fixture
def extra_executors() -> Sequence[Executor]:
    """Return further executors for `differential` and `gradcheck`; override this fixture to add some."""
    return ()


@pytest.fixture
def executor_panel(request: pytest.FixtureRequest, extra_executors: Sequence[Executor]) -> OpenPanel:
    """Return the executors of `differential` and `gradcheck`: all backends that can run and that `--backend` allows."""
    from .executors import present_backends
    from .plugin_checks import OpenPanel

    only = request.config.getoption("--backend")
    found, _ = present_backends(only or None)
    return OpenPanel(found, extra=tuple(extra_executors))


@pytest.fixture
def differential(executor_panel: OpenPanel) -> Check:
    """Return a function `differential(kernel, *args)` that compares the values of a call on every executor.

    Results must agree within the bound of rounding that is measured for the call, also in double precision. The
    function returns the cases.
    """
    from .plugin_checks import value_cases

    def check(run: Callable[..., Any], *args: Any, **named: Any) -> list[ReplayCase]:
        __tracebackhide__ = True
        launches = _recorded(run, args, named)
        return _judged(launches, lambda launch: value_cases(launch, executor_panel), gradient=False)

    return check


@pytest.fixture
def gradcheck(executor_panel: OpenPanel) -> Check:
    """Return a function `gradcheck(kernel, *args)` that compares values and adjoints of a call on every executor.

    Adjoints start from random cotangents of all arrays that have a gradient. They are judged by both lowerings, every
    backend, JAX, dual numbers, and the order of the Taylor remainder.
    """
    from .plugin_checks import gradient_cases

    def check(run: Callable[..., Any], *args: Any, **named: Any) -> list[ReplayCase]:
        __tracebackhide__ = True
        launches = _recorded(run, args, named)
        return _judged(launches, lambda launch: gradient_cases(launch, executor_panel), gradient=True)

    return check


def _recorded(run: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> list[CapturedLike]:
    """Run a function with these arguments, and return the forward launches that it makes."""
    from ...capture import capture

    __tracebackhide__ = True
    with capture(limit=RECORDED) as made:
        run(*args, **named)
    found: list[CapturedLike] = [launch for launch in made.launches if launch.kind == "forward"]
    if not found:
        raise AssertionError(f"{getattr(run, '__name__', run)} launched no kernel")
    return found


def _judged(
    launches: Sequence[CapturedLike], judge: Callable[[CapturedLike], list[ReplayCase]], gradient: bool
) -> list[ReplayCase]:
    from .plugin_checks import explain, failures

    __tracebackhide__ = True
    found: list[ReplayCase] = []
    for launch in launches:
        cases = judge(launch)
        wrong = failures(cases, gradient)
        if wrong:
            raise AssertionError(explain(cases, wrong))
        found += cases
    return found
