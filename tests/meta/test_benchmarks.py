"""Test that all benchmarks run: each one that asv would discover is called once, in the smallest size, on the CPU.

A failing benchmark would leave a gap in its graph that cannot be filled later. Also test that the gradient of each
workload on the CPU is that of the reference.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import project_tree as tree
import pytest
import stackgrad as sg

FOLDER = tree.ROOT / "asv_bench"
NAME = "stackgrad_benchmarks"
KINDS = re.compile(r"(time|timeraw|track|peakmem|mem)_")
"""Prefixes by which asv tells a benchmark from another method."""


def load_suite(folder: Path, name: str) -> ModuleType:
    """Import the package of benchmarks from a folder under another name, and return it."""
    for old in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
        del sys.modules[old]
    file, inside = folder / "__init__.py", [str(folder)]
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
    assert spec is not None and spec.loader is not None
    suite = importlib.util.module_from_spec(spec)
    sys.modules[name] = suite
    spec.loader.exec_module(suite)
    return suite


SUITE = load_suite(FOLDER / "benchmarks", NAME)
WORKLOADS = SUITE.workloads.WORKLOADS
FULL = {name: workload.sizes["full"] for name, workload in WORKLOADS.items()}
MODULES = {p.stem: getattr(SUITE, p.stem, None) for p in sorted((FOLDER / "benchmarks").glob("bench_*.py"))}


def classes() -> dict[str, type]:
    """Return the benchmark classes that asv finds, by file and name."""
    return {
        f"{stem}.{name}": value
        for stem, module in MODULES.items()
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == f"{NAME}.{stem}" and methods(value)
    }


def methods(cls: type) -> list[str]:
    return [name for name in dir(cls) if KINDS.match(name)]


BENCHMARKS = [(name, method) for name, cls in classes().items() for method in methods(cls)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make all workloads use their small size, and benchmarks use short batches."""
    for name, workload in WORKLOADS.items():
        sizes = dict.fromkeys(workload.sizes, workload.sizes["small"])
        monkeypatch.setitem(WORKLOADS, name, replace(workload, sizes=sizes))
    for module in (SUITE.common, SUITE.bench_launch, SUITE.bench_control):
        monkeypatch.setattr(module, "BATCH", 3)
    monkeypatch.setattr(SUITE.common.repeated, "__defaults__", (3,))
    monkeypatch.setattr(SUITE.common.median_ratio, "__defaults__", (0.0,))
    yield
    sg.reset()


def measure(cls: type, method: str, parameters: tuple[Any, ...]) -> Any:
    """Set up, run and tear down a benchmark as asv does for one sample, and return its result."""
    bench = cls()
    getattr(bench, "setup", lambda *_: None)(*parameters)
    try:
        return getattr(bench, method)(*parameters)
    finally:
        getattr(bench, "teardown", lambda *_: None)(*parameters)


def axes(cls: type) -> list[tuple[Any, ...]]:
    return list(getattr(cls, "params", ()))


# -- the suite ----------------------------------------------------------------------------------------------------


def test_every_file_is_imported_and_measures_something() -> None:
    measured = {name.partition(".")[0] for name in classes()}
    assert measured == set(MODULES) and len(measured) >= 7


@pytest.mark.rotating
@pytest.mark.parametrize(("name", "method"), BENCHMARKS, ids=[f"{n}.{m}" for n, m in BENCHMARKS])
def test_benchmark_runs(name: str, method: str) -> None:
    cls = classes()[name]
    result = measure(cls, method, tuple(axis[0] for axis in axes(cls)))
    if method.startswith("track_"):
        assert isinstance(result, int | float) and np.isfinite(result) and result >= 0
        assert getattr(getattr(cls, method), "unit", ""), "asv shows what is tracked with its unit"
    elif method.startswith("timeraw_"):
        run = subprocess.run([sys.executable, "-c", result], capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stderr
    else:
        assert result is None


@pytest.mark.parametrize("name", classes())
def test_benchmarks_are_documented_and_parameters_named(name: str) -> None:
    cls = classes()[name]
    undocumented = [m for m in methods(cls) if not getattr(cls, m).__doc__]
    assert cls.__doc__ and undocumented == []
    assert len(getattr(cls, "param_names", ())) == len(axes(cls))


def test_workloads_of_a_class_are_those_of_its_parameter() -> None:
    for name, cls in classes().items():
        names = getattr(cls, "param_names", ())
        if "workload" in names:
            assert axes(cls)[names.index("workload")] == cls.workloads, name  # type: ignore[attr-defined]


def test_an_unmeasured_workload_is_an_import_error(tmp_path: Path) -> None:
    for path in (FOLDER / "benchmarks").glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text())
    extra = "\n\n@workload(small=(), full=())\ndef idle() -> Program:\n    return empty()\n"
    with (tmp_path / "workloads.py").open("a") as file:
        file.write(extra)
    with pytest.raises(ImportError, match="no benchmark measures: idle"):
        load_suite(tmp_path, "stackgrad_benchmarks_idle")


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(ValueError, match="measures workloads that there are not: gone"):
        type("Lost", (SUITE.common.Bench,), {"workloads": ("gone",)})


def test_parameters_are_literals() -> None:
    """The suite imported with no backend and no peer in sight has the same parameters."""
    code = (
        "import importlib.util, sys\n"
        "sys.modules.update(dict.fromkeys(('jax', 'taichi', 'quadrants')))\n"
        f"sys.path.insert(0, {str(FOLDER)!r})\n"
        "import benchmarks\n"
        "print({f'{m}.{c}': v.params for m, o in vars(benchmarks).items() if m.startswith('bench_')"
        " for c, v in vars(o).items() if hasattr(v, 'params')})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    here = {n: cls.params for n, cls in classes().items() if hasattr(cls, "params")}  # type: ignore[attr-defined]
    assert run.stdout.strip() == str(here)


# -- what it measures -----------------------------------------------------------------------------------------------


def gradients(workload: str, arch: str) -> list[np.ndarray]:
    SUITE.common.start(arch)
    program = WORKLOADS[workload].build("small")
    program.forward()
    program.reverse()
    return [f.grad.to_numpy() for f in program.inputs] + [f.to_numpy() for f in program.outputs]


@pytest.mark.rotating
@pytest.mark.parametrize("workload", [name for name in WORKLOADS if name != "empty"])
def test_workloads_compute_the_same_on_cpu_and_reference(workload: str) -> None:
    for ours, reference in itertools.zip_longest(gradients(workload, "cpu"), gradients(workload, "reference")):
        np.testing.assert_allclose(ours, reference, rtol=2e-3, atol=1e-4 * float(np.abs(reference).max()))
        assert np.abs(reference).max() > 0


@pytest.mark.parametrize("workload", SUITE.bench_reverse.Sweeps.workloads)
def test_full_sizes_stay_clear_of_subnormal_numbers(workload: str) -> None:
    """They would be timed instead of the code."""
    SUITE.common.start("cpu")
    program = WORKLOADS[workload].make(*FULL[workload])
    program.forward()
    program.reverse()
    for field in (*program.outputs, *(f.grad for f in program.inputs)):
        sizes = np.abs(field.to_numpy())
        assert np.isfinite(sizes).all() and sizes.max() > 0
        assert not ((sizes > 0) & (sizes < np.finfo(np.float32).tiny)).any()


def test_every_pass_of_the_pipeline_is_timed() -> None:
    from stackgrad.compiler import driver

    names = {name for name, _ in [*driver.BEFORE_REVERSE, *driver.TIDY]}
    assert names <= set(SUITE.bench_compile.PASSES)


@pytest.mark.parametrize("name", ["reverse", "count_stacks", "simplify"])
def test_steps_are_those_of_the_pipeline(name: str) -> None:
    """Every occurrence of a pass counts, with the inputs that it has there: no element of this kernel is promoted."""
    SUITE.common.start("reference")
    source = WORKLOADS["sin_recurrence"].build("small").kernels[0].ir()
    found = SUITE.bench_compile.steps(source, name)
    assert len(found) == {"reverse": 1, "count_stacks": 1, "simplify": 2}[name]
    assert all(step() is not None for step in found)


def test_absent_phases_backends_and_peers_are_skipped_with_the_reason() -> None:
    SUITE.common.start("reference")
    source = WORKLOADS["three_fields"].build("small").kernels[0].ir()
    for call, reason in (
        (lambda: SUITE.bench_compile.steps(source, "gone"), "no pass gone"),
        (lambda: SUITE.bench_compile.lowered(source, "counting"), "no counting kernel"),
        (lambda: SUITE.common.start("gone"), "no backend gone"),
        (lambda: SUITE.bench_peers.Recurrence().setup("no_such_peer"), "no_such_peer is not installed"),
        (lambda: SUITE.bench_peers.PeerWorks().setup("no_such_peer", "sweep: grad"), "no_such_peer is not installed"),
        (lambda: SUITE.bench_peers.PeerWorks().setup("stackgrad", "sweep: gone"), "stackgrad has no such work"),
    ):
        with pytest.raises(NotImplementedError, match=reason):
            call()


def test_ratio_is_of_interleaved_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow phase hits both calls of a pair; one outlier changes nothing."""
    slow = iter([1.0, 1.0, 9.0, 9.0, 1.0, 1.0, 5.0, 50.0, 1.0, 1.0])
    monkeypatch.setattr(SUITE.common, "seconds", lambda call: call() * next(slow))
    assert SUITE.common.median_ratio(lambda: 3.0, lambda: 2.0, 0.0) == 1.5


@pytest.mark.expensive
@pytest.mark.parametrize("column", ["launch: one scalar", "long_row: grad"])
def test_a_work_is_sampled_in_the_process_of_a_peer(column: str) -> None:
    bench = SUITE.bench_peers.PeerWorks()
    bench.setup("stackgrad", column)
    try:
        assert 0 < bench.track_figure("stackgrad", column) < 1e6
    finally:
        bench.teardown("stackgrad", column)
    assert bench.process.process.poll() == 0


def test_works_that_peers_run_are_works_of_the_comparison() -> None:
    from stackgrad.harness.tools.bench.works import WORKS

    assert set(SUITE.bench_peers.WORK_COLUMNS) <= set(SUITE.bench_side_by_side.COLUMNS)
    assert {column.partition(":")[0] for column in SUITE.bench_peers.WORK_COLUMNS} <= set(WORKS)


# -- the configuration ------------------------------------------------------------------------------------------------


def configuration(file: str) -> dict[str, Any]:
    """Return the data of a configuration file of asv, which is JSON with comments."""
    text = re.sub(r"^\s*//.*$", "", (FOLDER / file).read_text(), flags=re.MULTILINE)
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_configurations_differ_in_their_environment_alone() -> None:
    plain, peers = configuration("asv.conf.json"), configuration("asv.peers.conf.json")
    own, others = plain.pop("matrix")["req"], peers.pop("matrix")["req"]
    assert plain == peers
    assert own == {name: others[name] for name in own}
    assert set(others) - set(own) == set(SUITE.bench_peers.PEERS) - {"stackgrad"}


def test_pinned_releases_are_those_that_the_package_accepts() -> None:
    project = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())["project"]
    pinned = configuration("asv.conf.json")["matrix"]["req"]
    for requirement in project["dependencies"]:
        name, least = requirement.split(">=")
        (release,) = pinned[name]
        assert [int(n) for n in release.split(".")] >= [int(n) for n in least.split(".")]
    assert len(pinned) == len(project["dependencies"])


def test_results_are_kept_and_what_can_be_made_again_is_ignored_by_git() -> None:
    folders = {key: configuration("asv.conf.json")[key] for key in ("env_dir", "results_dir", "html_dir")}
    paths = [f"asv_bench/{folder}/x" for folder in folders.values()]
    run = subprocess.run(["git", "check-ignore", *paths], cwd=tree.ROOT, capture_output=True, text=True)
    assert sorted(run.stdout.split()) == sorted(path for path in paths if "results" not in path)
    assert folders["results_dir"] == "results"
