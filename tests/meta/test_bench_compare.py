"""Test that the comparison of two commits finds regressions and ignores noise, on drawn rounds and real packages."""

from __future__ import annotations

from pathlib import Path

import bench_compare
import bench_sample
import bench_selftest
import numpy as np
import pytest
from bench_verdict import Round, drift_of, verdicts

NAMES = tuple(metric.name for metric in bench_sample.METRICS if not metric.is_exact)
EXACT = tuple(metric.name for metric in bench_sample.METRICS if metric.is_exact)
ROUNDS = 9


def drawn(
    rng: np.random.Generator, sigma: float, slower: dict[str, float], drift: float = 0.0, disturbed: float = 0.0
) -> list[Round]:
    """Draw rounds in which times have log-normal noise, the head is slower by factors, and the machine gets slower.

    `disturbed` is the share of samples that take 1.1 to 1.7 times as long.
    """

    def sample(time: float, factors: dict[str, float]) -> dict[str, float]:
        noise = np.exp(rng.normal(scale=sigma, size=len(NAMES)) + drift * time)
        noise *= np.where(rng.random(len(NAMES)) < disturbed, rng.uniform(1.1, 1.7, len(NAMES)), 1.0)
        return {n: float(1e-3 * f * factors.get(n, 1.0)) for n, f in zip(NAMES, noise)} | dict.fromkeys(EXACT, 4096.0)

    return [Round(sample(k, {}), sample(k + 1 / 3, slower), sample(k + 2 / 3, {})) for k in range(ROUNDS)]


def worse(rounds: list[Round]) -> set[str]:
    return {v.name for v in verdicts(rounds, bench_compare.FACTORS) if v.is_worse}


@pytest.mark.parametrize("sigma", [0.01, 0.03, 0.1])
@pytest.mark.parametrize("drift", [0.0, 0.05])
@pytest.mark.parametrize("disturbed", [0.0, 0.35])
def test_noise_and_drift_are_no_regression(sigma: float, drift: float, disturbed: float) -> None:
    """One comparison reports what is worse in two independent sets of rounds; 300 report nothing."""
    rng = np.random.default_rng(7)

    def rounds() -> list[Round]:
        return drawn(rng, sigma, {}, drift, disturbed)

    assert not any(worse(rounds()) & worse(rounds()) for _ in range(300))


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("control")])
@pytest.mark.parametrize(("disturbed", "found"), [(0.0, 100), (0.35, 95)])
def test_a_fifth_is_found_in_each_metric_and_nothing_else(name: str, disturbed: float, found: int) -> None:
    """Of 100 comparisons on a quiet machine all find it, and most do where a third of the measurements is disturbed."""
    rng = np.random.default_rng(8)
    sets = [[worse(drawn(rng, 0.015, {name: 1.2}, 0.0, disturbed)) for _ in range(2)] for _ in range(100)]
    both = [one & other for one, other in sets]
    assert all(names <= {name} for names in both) and sum(map(bool, both)) >= found


def test_what_got_better_is_not_reported() -> None:
    assert not worse(drawn(np.random.default_rng(9), 0.01, dict.fromkeys(NAMES, 0.5)))


@pytest.mark.parametrize(("base", "head"), [(4096.0, 8192.0), (4096.0, 4097.0), (0.0, 8.0)])
def test_any_growth_of_an_exact_number_is_found(base: float, head: float) -> None:
    name = EXACT[0]
    rounds = [Round({name: base}, {name: head}, {name: base})]
    assert worse(rounds) == {name}
    assert not worse([Round({name: head}, {name: base}, {name: head})])
    assert not worse([Round({name: base}, {name: base}, {name: base})])


def test_controls_tell_a_busy_machine() -> None:
    calm, busy = {"control.calls": 1.0}, {"control.calls": 3.0}
    assert drift_of([Round(calm, calm, calm)]) == 1.0
    assert drift_of([Round(calm, calm, busy)]) == 3.0
    assert any("busy" in line for line in bench_compare.table([], set(), 3.0))
    assert not any("busy" in line for line in bench_compare.table([], set(), 1.1))


@pytest.mark.expensive
def test_a_planted_heap_is_found_in_real_packages(tmp_path: Path) -> None:
    """Adstacks of twice the size are found by bytes, which need one round."""
    plant = next(plant for plant in bench_selftest.PLANTS if plant.kind == "heap")
    base = bench_selftest.copy_of_package(tmp_path / "base")
    larger = bench_selftest.copy_of_package(tmp_path / "larger", plant.code)
    found, names, _ = bench_compare.compare(base, larger, 1, EXACT[:1])
    assert names == {EXACT[0]} and found[0].ratio == pytest.approx(2.0)


def test_a_package_from_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(bench_compare.CannotCompareError, match="stackgrad came from"):
        bench_compare.sample(tmp_path, EXACT[:1])


def test_a_commit_that_is_unknown_ends_with_status_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_compare.main(["no-such-commit"]) == 2
    assert "no-such-commit" in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--packages", "a"], ["a", "--rounds", "0"], []])
def test_arguments_that_make_no_sense_are_refused(given: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bench_compare.arguments_of(given)
    assert ended.value.code == 2
