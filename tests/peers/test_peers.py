"""Test peers in separate processes: their answers, how they end, and that a peer that dies is started again.

Here this package itself stands for the peer, so that the tests need no other package.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stackgrad.compiler.ir.types import f32, f64
from stackgrad.harness.testing.outcome import OkOutcome, TrapOutcome, UnsupportedOutcome
from stackgrad.harness.tools.model import Program
from stackgrad.harness.tools.model import nodes as m
from stackgrad.harness.tools.peers import DIED, HUNG, MANY, OVERFLOW, PEERS, PYTHON, Peer, installed, read_answer


def program(value: m.Expr | None = None) -> Program:
    """Return the program y[i] = value, by default x[i]²."""
    x, y = (m.Element(name, (m.Name("i"),)) for name in "xy")
    body = m.For(("i",), m.Over("x"), (m.Assign((y,), (value or m.Binary("*", x, x),)),))
    fields = (m.Field("x", f64, (2,), True), m.Field("y", f64, (2,), True))
    inputs = m.Inputs((("x", (3.0, -0.5)), ("y", (0.0, 0.0))), (), (("x", (0.0, 0.0)), ("y", (1.0, 2.0))))
    return Program(m.Kernel("k", (body,)), fields, (), inputs, f64)


@pytest.fixture
def peer():
    with Peer("stackgrad", limit=60.0) as found:
        yield found


def test_values_and_gradient(peer: Peer) -> None:
    answer = peer.run(program())
    assert isinstance(answer.forward, OkOutcome) and isinstance(answer.gradient, OkOutcome)
    assert answer.forward.arrays["y"].tolist() == [9.0, 0.25]
    assert answer.gradient.arrays["x.grad"].tolist() == [6.0, -2.0]
    assert answer.gradient.arrays["x.grad"].dtype == np.float64


def test_a_gradient_is_given_without_a_launch(peer: Peer) -> None:
    answer = peer.begin(program(), gradient_alone=True)()
    assert isinstance(answer.forward, UnsupportedOutcome)
    assert isinstance(answer.gradient, OkOutcome) and answer.gradient.arrays["x.grad"].tolist() == [6.0, -2.0]
    whole = peer.run(program())
    assert isinstance(whole.forward, OkOutcome) and whole.forward.arrays["y"].tolist() == [9.0, 0.25]
    assert isinstance(read_answer(program(), {}, gradient_alone=True).gradient, TrapOutcome)


def test_one_process_serves_many_programs(peer: Peer) -> None:
    peer.run(program())
    process = peer._process
    peer.run(program(m.Number(2.0)))
    assert peer._process is process


def test_one_start_serves_programs_that_start_alike(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stackgrad.harness.tools.peers.MANY", 2)
    assert MANY > 2
    answers = [peer.run(program(m.Number(float(k)))) for k in range(4)]
    assert [a.forward.arrays["y"][0] for a in answers if isinstance(a.forward, OkOutcome)] == [0.0, 1.0, 2.0, 3.0]
    assert peer._served == 0, "the fourth started it again"
    single = replace(program(), default_fp=f32)
    assert isinstance(peer.run(single).gradient, OkOutcome) and peer._served == 0
    assert isinstance(peer.run(program()).gradient, OkOutcome) and peer._served == 0


def test_a_peer_may_belong_to_another_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv(PYTHON, str(other))
    with Peer("stackgrad") as found:
        assert found.command[0] == str(other) and found.absent is None
        assert isinstance(found.run(program()).gradient, OkOutcome)
    assert installed("numpy", str(other)) == np.__version__
    assert installed("no_such_package_of_anybody", str(other)) is None


@pytest.mark.parametrize(("text", "kind"), [("import os; os._exit(3)", DIED), ("import time; time.sleep(60)", HUNG)])
def test_a_process_that_ends_or_hangs_is_started_again(text: str, kind: str) -> None:
    with Peer("stackgrad", limit=60.0) as peer:
        assert peer.ask("print('{}')") == {}
        peer.limit = 2.0
        lost = peer.ask(text)
        assert isinstance(lost.forward, TrapOutcome) and lost.forward.kind == kind  # type: ignore[union-attr]
        peer.limit = 60.0
        assert peer.ask("print('{}')") == {}


def test_what_the_process_prints_beside_the_answer_does_no_harm(peer: Peer) -> None:
    noisy = "import os; os.write(1, b'hello'); print('hello'); print('{\"a\": 1}')"
    assert peer.ask(noisy) == {"a": 1}


def test_an_exception_is_told(peer: Peer) -> None:
    assert peer.ask("1 / 0") == {"error": "ZeroDivisionError: division by zero"}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("QuadrantsSyntaxError: no", UnsupportedOutcome("QuadrantsSyntaxError: no")),
        ("TaichiCompilationError: no\nmore", UnsupportedOutcome("TaichiCompilationError: no")),
        ("RuntimeError: out of memory", TrapOutcome("RuntimeError", "out of memory")),
        ("RuntimeError: [ad.cpp@1] Not supported.", UnsupportedOutcome("RuntimeError: [ad.cpp@1] Not supported.")),
        ("RuntimeError: Adstack overflow in k", TrapOutcome(OVERFLOW, "Adstack overflow in k")),
    ],
)
def test_errors_are_classified(error: str, outcome: object) -> None:
    answer = read_answer(program(), {"error": error})
    assert answer.forward == answer.gradient == outcome
    assert read_answer(program(), {"error": error, "forward": {"x": [1, 2]}}).gradient == outcome


def test_a_file_that_prints_nothing_is_a_trap() -> None:
    assert isinstance(read_answer(program(), {}).forward, TrapOutcome)


def test_what_a_dialect_cannot_say_is_unsupported() -> None:
    hard = program(m.Call("ffs", (m.Number(3),)))
    for name in PEERS:
        assert "ffs" in (Peer(name).supports(hard) or "")
        assert isinstance(Peer(name).run(hard).forward, UnsupportedOutcome)


def test_peers_that_are_not_installed_say_so() -> None:
    for name in PEERS:
        absent = Peer(name).absent
        assert absent is None or "pip install" in absent


def test_reals_travel_exactly() -> None:
    numbers = [0.1, float("inf")]
    found = read_answer(program(), json.loads(json.dumps({"forward": {"y": [v.hex() for v in numbers]}})))
    assert found.forward.arrays["y"].tolist() == numbers  # type: ignore[union-attr]
    assert sys.float_info.radix == 2
