"""Test the judge of two runs: which results agree, which prove a disagreement, and which are undecided."""

from __future__ import annotations

import numpy as np
import pytest
from stackgrad.harness.testing.bounds import histogram, judge, overall

INF, NAN = np.inf, np.nan


def verdict(a, b, e, dtype=np.float32, others=None):
    arrays = ({"a": np.array(v, dtype)} for v in (a, b))
    extra = None if others is None else {"a": np.array(others, float)}
    return judge(*arrays, {"a": np.array(e, float)}, extra)["a"]


@pytest.mark.parametrize(
    ("a", "b", "e", "state"),
    [
        ([1.0], [1.0], [0.0], "agree"),
        ([1.0], [1.0 + 2**-20], [1e-6], "agree"),
        ([1.0], [1.0 + 2**-20], [0.9e-6], "disagree"),
        ([1.0], [1.0 + 2**-20], [0.0], "disagree"),
        ([1.0], [1.0005], [2e-3], "undecided"),
        ([1.0], [1.5], [0.1], "disagree"),  # a wide bound proves disagreement all the same
        ([NAN], [NAN], [0.0], "agree"),
        ([NAN], [1.0], [0.0], "disagree"),
        ([1.0], [NAN], [1e-6], "disagree"),
        ([1.0], [NAN], [INF], "undecided"),
        ([INF], [INF], [0.0], "agree"),
        ([INF], [-INF], [0.0], "disagree"),
        ([INF], [3e38], [INF], "undecided"),
        ([3e38], [INF], [1e31], "disagree"),
        ([0.0], [-0.0], [0.0], "agree"),
        ([0.0], [1e-44], [1e-43], "agree"),
        ([1.0, 0.0], [1.0, 1e-7], [0.0, 9e-7], "agree"),  # a zero counts as a thousandth of its neighbors
        ([1.0, 0.0], [1.0, 1e-7], [0.0, 2e-6], "undecided"),
        ([1.0, 5.0], [1.0, 5.0], [0.0, INF], "undecided"),
        ([], [], [], "agree"),
    ],
)
def test_states(a, b, e, state):
    assert verdict(a, b, e).state == state


def test_integers_are_equal_or_not():
    big = 2**62
    assert verdict([big], [big], [0.0], np.int64).state == "agree"
    assert verdict([big], [big + 1], [0.0], np.int64).state == "disagree"
    assert verdict([big], [big + 1], [INF], np.int64).state == "undecided"
    assert verdict([True], [False], [0.0], bool).state == "disagree"


def test_bounds_of_both_sides_add_up():
    assert verdict([1.0], [1.0 + 3e-6], [2e-6]).state == "disagree"
    assert verdict([1.0], [1.0 + 3e-6], [2e-6], others=[2e-6]).state == "agree"


def test_verdict_says_where_and_how_much():
    found = verdict([1.0, 2.0, 3.0], [1.0, 2.5, 3.1], [1e-3] * 3)
    assert found.reason.startswith("a[1]: 2.5 against 2") and found.worst == pytest.approx(500)
    assert (found.elements, found.undecided) == (3, 0)
    assert verdict([1.0], [1.0, 2.0], [0.0]).state == "disagree"
    assert overall({"a": found}) == "disagree" and overall({}) == "agree"


def test_only_common_arrays_are_judged():
    one = {"a": np.ones(1)}
    assert judge(one, {"b": np.ones(1)}, {"a": np.zeros(1)}) == {}


def test_histogram_counts_by_trips(capsys):
    text = histogram([(0, "agree"), (1, "agree"), (5, "undecided"), (6, "agree"), (7, "poisoned"), (40, "disagree")])
    assert capsys.readouterr().out == text + "\n"
    rows = [line.split() for line in text.splitlines()]
    assert rows[0][:2] == ["trips", "cases"]
    assert [r[0] for r in rows[1:]] == ["0", "1", "4-7", "32-63", "all"]
    assert rows[3][1:7] == ["3", "1", "0", "1", "1", "33%"]
    assert rows[-1][1:7] == ["6", "3", "1", "1", "1", "67%"]
