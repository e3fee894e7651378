"""Test campaigns: units, stopping and resuming, a cluster that loses a worker, the report."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from stackgrad.cli import main
from stackgrad.harness.testing.executors import backend_by_name
from stackgrad.harness.tools.campaign import spec as specs
from stackgrad.harness.tools.campaign import unit
from stackgrad.harness.tools.campaign.page import environment, page
from stackgrad.harness.tools.campaign.plain_results import from_plain, to_plain, total
from stackgrad.harness.tools.campaign.report import report
from stackgrad.harness.tools.campaign.reproducers import reproducer
from stackgrad.harness.tools.campaign.run import ClusterPool, ProcessPool, run
from stackgrad.harness.tools.campaign.spec import CampaignSpec
from stackgrad.harness.tools.campaign.store import CampaignStore
from stackgrad.harness.tools.fuzz.loop import fuzz
from stackgrad.harness.tools.fuzz.plan import FuzzPlan
from stackgrad.harness.tools.fuzz.result import JudgedComparison
from stackgrad.harness.tools.fuzz.statistics import Finding
from stackgrad.harness.tools.model.source import definitions
from stackgrad.harness.tools.page_templates import environment_of
from stackgrad.harness.tools.strategies import sample

SPEC = CampaignSpec(seed=9000, size=3)


@pytest.fixture(scope="module")
def found():
    """Return statistics of six cases, with a finding that did not fail again."""
    statistics = fuzz(cases=6, seed=9000, processes=0)
    judged = (JudgedComparison("reverse", "cpu", "reference", "disagree", "x.grad[1]: 2.0, 3.0 < expected"),)
    statistics.findings.append(Finding(sample(9000), FuzzPlan(), judged, seed=9000, candidate=2))
    return statistics


class Here:
    """Represent a worker pool in this process that runs a limited number of units."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.ran: list[int] = []

    def results(self, text, units):
        for number, _ in zip(units, range(self.most)):
            self.ran.append(number)
            found = fuzz(cases=3, seed=SPEC.first(number), processes=0)
            yield {"unit": number, "ended": float(number), **to_plain(found)}


def test_spec_is_text_and_rejects_anything_else():
    assert specs.from_json(SPEC.to_json()) == SPEC
    assert SPEC.first(2) == 9006
    assert specs.from_json('{"seed": 1, "size": 5}') == specs.CampaignSpec(1, 5), (
        "as written before there was more to say"
    )
    for other in ('{"size": 5}', '{"seed": 1, "color": 2}', "[]"):
        with pytest.raises(ValueError, match="described by"):
            specs.from_json(other)


def test_statistics_survive_being_plain(found):
    again = from_plain(json.loads(json.dumps(to_plain(found))))
    assert replace(again, milliseconds=[]) == replace(found, milliseconds=[])
    assert len(again.milliseconds) == 6


def test_sum(found):
    both = total([found, found], 5)
    assert both.cases == 12 and both.seed == 5 and len(both.findings) == 2
    assert both.comparisons == {key: 2 * count for key, count in found.comparisons.items()}
    assert found.cases == 6, "parts are left as they are"


@pytest.mark.expensive
def test_stopped_and_resumed(tmp_path):
    first = Here(2)
    assert run(CampaignStore(tmp_path, SPEC), first, cases=12).cases == 6
    (tmp_path / "units" / "0000000.json").unlink()
    second = Here(9)
    done = run(CampaignStore(tmp_path), second, cases=12)
    assert first.ran == [0, 1] and second.ran == [0, 2, 3]
    alone = fuzz(cases=12, seed=9000, processes=0)
    assert (done.cases, done.outcomes, done.comparisons) == (12, alone.outcomes, alone.comparisons)
    assert done.features == alone.features


def test_a_folder_holds_one_campaign(tmp_path):
    CampaignStore(tmp_path, SPEC)
    with pytest.raises(ValueError, match="another campaign"):
        CampaignStore(tmp_path, replace(SPEC, seed=1))
    with pytest.raises(ValueError, match="holds no campaign"):
        CampaignStore(tmp_path / "nowhere")


def test_findings_go_to_the_corpus(tmp_path, found):
    store = CampaignStore(tmp_path, SPEC)
    store.put({"unit": 0, "ended": 0.0, **to_plain(found)})
    (entry,) = store.corpus.iterdir()
    assert "x.grad[1]" in (entry / "verdict.txt").read_text()


@pytest.mark.expensive
def test_processes(tmp_path):
    done = run(CampaignStore(tmp_path, SPEC), ProcessPool(2), cases=6)
    assert done.cases == 6 and len(list((tmp_path / "units").iterdir())) == 2


@pytest.mark.expensive
def test_a_unit_that_cannot_run_says_why():
    with pytest.raises(unit.UnitError, match="unit 4: .*cannot start"):
        unit.run_apart(replace(SPEC, backends=("nowhere",)).to_json(), 4)


@pytest.mark.expensive
def test_cluster_that_loses_a_worker(tmp_path):
    """A worker is killed while it runs a unit; another one runs the unit."""
    distributed = pytest.importorskip("distributed")
    store, lost = CampaignStore(tmp_path, replace(SPEC, size=1)), threading.Event()
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:

        def lose(_: object) -> None:
            if not lost.is_set():
                lost.set()
                next(iter(cluster.workers.values())).process.process._process.kill()

        done = run(store, ClusterPool(cluster.scheduler_address), cases=4, progress=lose)
    assert lost.is_set() and done.cases == 4
    alone = fuzz(cases=4, seed=9000, processes=0)
    assert done.outcomes == alone.outcomes


# ---- the report -----------------------------------------------------------------------------------------------


@pytest.fixture()
def campaign(tmp_path, found) -> Path:
    store = CampaignStore(tmp_path, SPEC)
    store.put({"unit": 0, "ended": 10.0, **to_plain(found)})
    store.put({"unit": 1, "ended": 70.0, **to_plain(found)})
    return tmp_path


def test_report(campaign, found):
    plain = report(CampaignStore(campaign))
    assert plain["summary"]["cases"] == 12 and plain["summary"]["crashes"] == 0
    assert plain["coverage"]["statements"]["Load"] > 0
    assert 0 in plain["coverage"]["operations"].values(), "six programs do not reach all"
    rules = plain["coverage"]["derivative rules of operations"]
    assert set(rules) < set(plain["coverage"]["operations"]) and any(rules.values())
    assert plain["coverage"]["derivative rules of statements"]["Store"] > 0
    assert {"add", "max"} <= set(plain["coverage"]["derivative rules of atomics"])
    assert plain["findings"][0]["differences"] == ["cpu against reference: x.grad[1]: 2.0, 3.0 < expected"]
    assert [rate[:2] for rate in plain["rates"]] == [[10.0, 6], [70.0, 6]]
    assert sum(map(sum, (row[1:2] for row in plain["trips"]))) == 12


def test_page_is_whole_and_escapes(campaign):
    html = page(report(CampaignStore(campaign)), "A <b> & c")
    assert "A &lt;b&gt; &amp; c" in html and "3.0 &lt; expected" in html
    assert "seed 9000, candidate 2; agreed" in html
    assert "<script" not in html and "http" not in html.replace("http-equiv", "")
    for name in ("Executors by feature", "Coverage of derivative rules of atomics", "Decided and undecided", "Rate"):
        assert name in html


def test_without_jinja_the_cure_is_said_before_any_work(campaign, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    environment_of.cache_clear()
    assert main(["report", str(campaign), "--reduce", "1", "--html", str(campaign / "other.html")]) == 1
    said = capsys.readouterr().err
    assert "Jinja2, which writes reports, is not installed; cure: pip install 'stackgrad[harness]'" in said
    assert not (campaign / "other.html").exists()


def test_a_template_that_asks_for_what_is_not_there_fails(campaign):
    """An undefined name is an error and not an empty place in the page."""
    with pytest.raises(UndefinedError):
        environment().from_string("{{ nothing }}").render()


def test_command_writes_page_and_twin(campaign, capsys):
    assert main(["report", str(campaign)]) == 0
    assert "12 cases, 2 findings" in capsys.readouterr().out
    assert json.loads((campaign / "report.json").read_text())["summary"]["cases"] == 12
    assert main(["report", str(campaign / "units")]) == 2


@pytest.mark.expensive
def test_a_planted_mistake_is_reproduced(tmp_path, capsys):
    """The campaign finds it; the page has the program, its gradient, and that of JAX."""
    arguments = ["--seed", "100", "--cases", "12", "--unit", "12", "--backends", "cpu", "--mutant", "sub-without-sign"]
    assert main(["campaign", str(tmp_path), *arguments]) == 1
    assert main(["report", str(tmp_path), "--reduce", "1"]) == 0
    plain = json.loads((tmp_path / "report.json").read_text())
    found, html = plain["findings"][0], (tmp_path / "report.html").read_text()
    assert plain["planted"] == "sub-without-sign" and "sub-without-sign" in html
    assert len(found["program"]) <= max(len(definitions(sample(seed))) for seed in range(2, 8))
    wrong, right = found["results"]["reference"], found["results"]["jax"]
    assert wrong.keys() == right.keys() and wrong != right and all(name.endswith(".grad") for name in wrong)
    assert all(numbers in html for numbers in (*wrong.values(), *right.values()))
    assert "python case.py cpu" in html and escape(found["source"].splitlines()[-1]) in html
    assert main(["campaign", str(tmp_path / "other"), "--cases", "1", "--mutant", "nothing"]) == 2
    assert "no mutant 'nothing'" in capsys.readouterr().err


def test_reproducers_show_what_ended_with_an_exception(found):
    """A finding whose executor agrees now, and one of a process that died."""
    shown = reproducer(found.findings[0], {"cpu": backend_by_name("cpu")})
    assert shown["results"]["cpu"] == shown["results"]["reference"]
    assert reproducer(replace(found.findings[0], judged=(), crash="it died"), {})["results"] == {}


@pytest.mark.expensive
def test_command_goes_on(tmp_path, capsys):
    arguments = ["campaign", str(tmp_path), "--unit", "3", "--seed", "9000", "--cases"]
    assert main([*arguments, "3"]) == 0
    assert main([*arguments, "6"]) == 0
    assert len(list((tmp_path / "units").iterdir())) == 2
    assert main(["campaign", str(tmp_path)]) == 2
    assert "needs an end" in capsys.readouterr().err


BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
PROBE = "<script>parent.document.title = document.documentElement.scrollWidth + ' ' + window.innerWidth</script>"


@pytest.mark.rotating
@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("width", [1280, 390])
def test_page_fits_its_window(campaign, tmp_path, width):
    """On a desk and on a phone nothing sticks out at the side: wide tables scroll in their boxes."""
    inside = page(report(CampaignStore(campaign))).replace("</body>", PROBE + "</body>")
    place = tmp_path / "frame.html"
    place.write_text(f'<iframe width="{width}" height="900" style="border: 0" srcdoc="{escape(inside)}"></iframe>')
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000", "--dump-dom"]
    shown = subprocess.run([*command, place.as_uri()], capture_output=True, text=True, timeout=120).stdout
    wide, window = map(int, shown.partition("<title>")[2].partition("</title>")[0].split())
    assert window in (width, width - 15) and wide <= window, "less a scroll bar"
