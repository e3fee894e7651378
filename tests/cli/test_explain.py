"""`stackgrad explain`: what is saved, with variable, line, reader, reason, depth and bytes."""

from __future__ import annotations

from typing import Any

import pytest

HEAD = """
    import stackgrad as sg
    sg.init(arch=sg.reference, default_fp=sg.f32)
    x, y, n = sg.field(sg.f32, 4, needs_grad=True), sg.field(sg.f32, 4, needs_grad=True), sg.field(sg.i32, 4)
    loss = sg.field(sg.f32, (), needs_grad=True)
    n.from_numpy(__import__("numpy").array([0, 3, 7, 2], "int32"))
"""
RECURRENCE = """
    @sg.kernel
    def power():
        for i in range(4):
            v = x[i]
            for k in range(n[i]):
                v = sg.sin(v) * 0.95 + 0.01
            y[i] = v
"""
LINEAR = RECURRENCE.replace("sg.sin(v)", "v")
SQUARE = RECURRENCE.replace("sg.sin(v)", "v * v")
TAPE = """
    with sg.ad.Tape(loss):
        power()
"""


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def test_a_value_that_its_loop_changes(command: Any, write: Any) -> None:
    told = lines(command("explain", write(HEAD + SQUARE + TAPE)).out)
    assert "v: f32 line 12, depth 7, 28 bytes a row" in told
    assert "saved because the loop (line 12) changes it in every iteration" in told


def test_a_recurrence(command: Any, write: Any) -> None:
    """4 n bytes a row in f32, n the most trips of an iteration; rows of those that loop at all."""
    found = command("explain", write(HEAD + RECURRENCE + TAPE))
    assert found.status == 0, found.err
    told = lines(found.out)
    assert told[0].startswith("power (") and told[0].endswith("1 adstack, 28 bytes a row")
    assert "v: f32 line 13, depth 7, 28 bytes a row" in told
    assert "read by the derivative of 'sin' (line 13)" in told
    assert "saved because it takes the place of 'v', of which it would be made again: as many bytes" in told
    assert "real slab: 28 bytes a row, 3 rows" in told
    assert "as deep as max($i in 0 .. 4: n[$i])" in told


def test_what_is_counted_has_a_bound_or_none(command: Any, write: Any) -> None:
    """A loop that a real ends early is no deeper than the loop; a `while` may be as deep as it likes."""
    early = "for k in range(n[i]):\n                if v < 0.1:\n                    break\n"
    found = command("explain", write(HEAD + RECURRENCE.replace("for k in range(n[i]):\n", early) + TAPE))
    assert "counted before a launch, at most max($i in 0 .. 4: n[$i])" in lines(found.out), found.out
    found = command("explain", write(HEAD + RECURRENCE.replace("for k in range(n[i]):", "while v > 0.1:") + TAPE))
    assert "counted before a launch" in lines(found.out), found.out


def test_the_classic_lowering_keeps_adjoints_too(command: Any, write: Any) -> None:
    """Primal and adjoint of each version of v, its first one included."""
    found = command("explain", write(HEAD + RECURRENCE + TAPE), "--lowering", "classic")
    assert "v: f32 line 10, depth 8, 64 bytes a row" in lines(found.out), found.out


def test_a_linear_recurrence_saves_nothing(command: Any, write: Any) -> None:
    found = command("explain", write(HEAD + LINEAR + TAPE))
    assert lines(found.out)[0].endswith("saves nothing")


def test_gradients_that_never_ran_have_no_depths(command: Any, write: Any) -> None:
    found = command("explain", write(HEAD + RECURRENCE))
    assert found.status == 0, found.err
    assert "depths and bytes: unknown, as no gradient of it was launched" in lines(found.out)


@pytest.mark.parametrize(
    ("body", "variable", "reason"),
    [
        (
            "v = x[i]\n            while v < 3.0:\n                v = v * v + 1.0\n"
            "            for _ in range(n[i]):\n                k = 0\n                while k * k < n[i]:\n"
            "                    v = sg.sin(v)\n                    k += 1\n            y[i] = v",
            "trip count: i32",
            "the number of trips is known only when the loop has ended",
        ),
        (
            "v = x[i]\n            for _ in range(n[i]):\n                if v > 0.2:\n                    v = 0.5 * v\n"
            "                else:\n                    v = v + 0.3\n            y[i] = v",
            "result of 'cmp_gt': u1",
            "saving it costs less than computing it again",
        ),
    ],
)
def test_reasons(command: Any, write: Any, body: str, variable: str, reason: str) -> None:
    kernel = f"""
    @sg.kernel
    def power():
        for i in range(4):
            {body}
"""
    found = command("explain", write(HEAD + kernel + TAPE))
    assert found.status == 0, found.err
    assert variable in found.out
    assert reason in found.out


def test_under_a_tape_alone(command: Any, write: Any) -> None:
    """A kernel that overwrites what its gradient reads is explained as the tape runs it."""
    kernel = """
    @sg.kernel
    def power():
        for i in range(4):
            for k in range(n[i]):
                x[i] = x[i] * x[i] * 0.5
    @sg.kernel
    def total():
        for i in range(4):
            loss[None] += x[i]
"""
    found = command("explain", write(HEAD + kernel + "    with sg.ad.Tape(loss):\n        power()\n        total()\n"))
    assert found.status == 0, found.err
    assert ", under a tape: 1 adstack, 28 bytes a row" in found.out


def test_refused(command: Any, write: Any) -> None:
    kernel = """
    @sg.kernel
    def power():
        for i in range(1, 4):
            x[i] = x[i - 1] * x[i - 1]
"""
    found = command("explain", write(HEAD + kernel))
    assert found.status == 1
    assert "power: no gradient" in found.out and "line 11" not in found.err


def test_ir_text(command: Any, tmp_path: Any) -> None:
    text = """kernel run(x: f64[1] grad, y: f64[1] grad, n: i32) {
      bounds { %0: i32 = const 0  %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
        local v: f64  %3: f64 = load x[%2]  set v, %3  %4: i32 = arg n  %9: i32 = const 0
        for %5: i32 in %9 .. %4 { %6: f64 = get v  %7: f64 = exp %6  set v, %7 }
        %8: f64 = get v  store y[%2], %8
      } }"""
    path = tmp_path / "run.kir"
    path.write_text(text)
    found = command("explain", str(path))
    assert found.status == 0, found.err
    assert "1 adstack" in found.out and "read by the derivative of 'exp'" in found.out
