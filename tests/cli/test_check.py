"""`stackgrad check`: right programs pass, and every kind of wrong one fails with its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stackgrad.cli import tables
from stackgrad.compiler.ad.rules import VJP
from stackgrad.harness.testing import oracle_executors
from stackgrad.harness.testing.executors import LaunchExecutor
from stackgrad.runtime.session import RUNTIME, Runtime


@pytest.mark.expensive
def test_a_right_program_passes(command: Any, program: str, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    found = command("check", program, "--json", str(out))
    assert found.status == 0, found.out
    for word in ("reference", "classic", "cpu", "jax", "program", "power", "total", "passed: "):
        assert word in found.out
    assert "loss 0." in found.out, "what the program prints is shown"
    report = json.loads(out.read_text())["programs"][0]
    assert report["passed"] and report["counts"]["ok"] > 10 and report["open_share"] == 0
    rows = {(row["kernel"], row["direction"]): row for row in report["rows"]}
    assert rows["power", "forward"]["launches"] == rows["power", "reverse"]["launches"] == 5
    assert rows["power", "reverse"]["adstack_bytes"] > 0
    assert {cell["verdict"] for row in report["rows"] for cell in row["cells"].values()} == {"ok"}
    judges = set(rows["power", "reverse"]["cells"]) - {"vulkan", "cuda"}
    assert judges == {"reference", "classic", "cpu", "jax", "program"}
    assert "cuda" in report["absent"] or "cuda" in report["executors"]


def test_a_wrong_rule_fails(command: Any, double_program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VJP._rows, "sin", VJP._rows["cos"])
    found = command("check", double_program)
    assert found.status == 1
    assert "FAILED: power (reverse): f64: x[" in found.out and "jax has" in found.out
    assert "total (reverse): " not in found.out.partition("FAILED")[2], "the other kernel is right"


def test_a_wrong_backend_fails(command: Any, double_program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = LaunchExecutor.gradient

    def wrong(self: LaunchExecutor, *args: Any) -> Any:
        found = right(self, *args)
        return {k: a * 1.0001 for k, a in found.items()} if self.name == "cpu" else found

    monkeypatch.setattr(LaunchExecutor, "gradient", wrong)
    found = command("check", double_program)
    assert found.status == 1 and "cpu has" in found.out


BLOW_UP = """
    import stackgrad as sg
    sg.init(arch=sg.reference, default_fp=sg.f64)
    x, loss = (sg.field(sg.f64, (), needs_grad=True, name=name) for name in ("x", "loss"))

    @sg.kernel
    def fine():
        x[None] -= 1.0

    @sg.kernel
    def root():
        loss[None] = sg.sqrt(x[None])

    x[None] = 6.5
    for _ in range(8):
        fine()
        root()
    """


def test_a_nan_is_found_whenever_it_comes(command: Any, write: Any) -> None:
    """The seventh of eight launches is none that is kept."""
    found = command("check", write(BLOW_UP))
    assert found.status == 1
    assert "FAILED: NaN loss: loss holds NaN after launch 7 of root (forward)" in found.out
    assert "of fine" not in found.out


def test_a_program_that_raises_fails(command: Any, write: Any) -> None:
    path = write("""
        import stackgrad as sg
        sg.init(arch=sg.reference)
        value = {}

        def inner():
            return value["loss"]

        inner()
        """)
    found = command("check", path)
    assert found.status == 1
    assert "FAILED: the program failed: KeyError: 'loss'" in found.out
    assert f"raised through {path}:7" in found.out and "Traceback" not in found.out + found.err


def test_mistakes_in_kernels_are_shown_where_they_are(command: Any, write: Any) -> None:
    path = write("""
        import stackgrad as sg
        sg.init(arch=sg.reference)
        x = sg.field(sg.f32, 4)

        @sg.kernel
        def wrong():
            for i in range(4):
                x[i, 0] = 1.0

        wrong()
        """)
    found = command("check", path)
    assert found.status == 1
    assert f"{path}:9:" in found.out and "^" in found.out and "cure:" in found.out


def test_traps_fail(command: Any, write: Any) -> None:
    """In a release build the cpu reads outside silently; the reference does not."""
    path = write("""
        import stackgrad as sg
        sg.init(arch=sg.cpu)
        x, y = sg.field(sg.f32, 4), sg.field(sg.f32, 4)

        @sg.kernel
        def shift():
            for i in range(4):
                x[i] = y[i + 1]

        shift()
        """)
    found = command("check", path)
    assert found.status == 1 and "OutOfBounds" in found.out and f"{path}:9:" in found.out


def test_refused_gradients_do_not_fail(command: Any, write: Any) -> None:
    path = write("""
        import stackgrad as sg
        sg.init(arch=sg.cpu)
        n = sg.field(sg.i32, 4)

        @sg.kernel
        def count():
            for i in range(4):
                n[i] += 1

        count()
        """)
    found = command("check", path)
    assert found.status == 0 and "refused" in found.out and "gradient" in found.out


CHECKED = """
    import stackgrad as sg

    CHECK = {"n": 3, "by": 2.0}
    runs = []

    def main(n=10**9, by=1.0):
        sg.init(arch=sg.reference, default_fp=sg.f64)
        x = sg.field(sg.f64, n)

        @sg.kernel
        def scale(s: sg.f64):
            for i in range(n):
                x[i] += s

        scale(by)
        print("size", n, __name__)

    if __name__ == "__main__":
        main()
    """


def test_programs_with_arguments_for_a_check(command: Any, write: Any) -> None:
    found = command("check", write(CHECKED))
    assert found.status == 0 and "size 3 stackgrad_program" in found.out and "scale" in found.out


def test_check_without_main(command: Any, write: Any) -> None:
    found = command("check", write("CHECK = {}"))
    assert found.status == 1 and "its function main" in found.out


def test_exit_statuses_of_programs(command: Any, write: Any) -> None:
    found = command("check", write("raise SystemExit"))
    assert found.status == 0 and "it launched no kernel" in found.out
    found = command("check", write("import sys\nsys.exit(3)"))
    assert found.status == 1 and "it exited with status 3" in found.out
    found = command("check", write("def f(:"))
    assert found.status == 1 and "SyntaxError" in found.out


def test_scripts_see_what_scripts_see(command: Any, write: Any) -> None:
    write("WORD = 'beside'", "neighbor.py")
    found = command("check", write("import sys\nfrom neighbor import WORD\nprint(WORD, __name__, sys.argv[1:])"))
    assert found.status == 0 and "beside __main__ []" in found.out


def test_several_programs_and_json_on_standard_output(command: Any, write: Any) -> None:
    good, bad = write("print('hello')", "good.py"), write("1 / 0", "bad.py")
    found = command("check", good, bad, "--json", "-")
    assert found.status == 1
    content = json.loads(found.out)
    assert [p["passed"] for p in content["programs"]] == [True, False] and content["passed"] is False
    assert "ZeroDivisionError" in content["programs"][1]["error"]
    assert "hello" in found.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "cannot read missing.py: No such file"),
        (["PROGRAM", "--backends", "gpu9"], "no backend 'gpu9'; there are: reference, cpu"),
        (["PROGRAM", "--json", "no/such/folder/x.json"], "cannot write"),
    ],
)
def test_commands_that_cannot_be_carried_out(command: Any, write: Any, arguments: list[str], message: str) -> None:
    path = write("pass")
    found = command("check", *(path if a == "PROGRAM" else a for a in arguments))
    assert found.status == 2 and message in found.err


def test_limit_must_be_positive(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        command("check", "x.py", "--limit", "0")
    assert ending.value.code == 2 and "at least 1" in capsys.readouterr().err


def test_the_runtime_is_left_as_it_was_found(command: Any, write: Any) -> None:
    command("check", write(CHECKED))
    assert type(RUNTIME) is Runtime and RUNTIME.capture is None and not RUNTIME.initialized


def test_without_jax(command: Any, double_program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle_executors, "find_spec", lambda name: None)
    found = command("check", double_program)
    assert found.status == 0 and "dual" in found.out
    assert "power (reverse), jax: unsupported: f64: jax is not installed; cure: pip install" in found.out


def test_interrupts(command: Any, write: Any) -> None:
    found = command("check", write("raise KeyboardInterrupt"))
    assert found.status == 130 and found.err == "interrupted\n"


def test_without_rich(command: Any, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    found = command("check", write(CHECKED))
    assert found.status == 0 and "cure: pip install 'stackgrad[harness]'" in found.out
    assert "kernel  direction  verdict  reference" in found.out and "passed: " in found.out


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.56e-5, "45.6 us"), (3e-8, "30 ns")]
)
def test_durations(seconds: float, text: str) -> None:
    assert tables.duration(seconds) == text
