"""`stackgrad ir`: every stage of programs and of IR text, and messages instead of tracebacks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from stackgrad.compiler.ir.parser import parse_kernels
from stackgrad.compiler.ir.verify import verify

PROGRAM = """
    import stackgrad as sg
    sg.init(arch=sg.reference, default_fp=sg.f32)
    x, y, n = sg.field(sg.f32, 4, needs_grad=True), sg.field(sg.f32, 4, needs_grad=True), sg.field(sg.i32, 4)

    @sg.kernel
    def power():
        for i in range(4):
            v = x[i]
            for k in range(n[i]):
                if v > 10.0:
                    break
                v = sg.sin(v) * 1.5
            y[i] = v

    @sg.kernel
    def other():
        for i in range(4):
            y[i] = 0.0

    print("noise")
    """


@pytest.fixture
def path(write: Any) -> str:
    made: str = write(PROGRAM)
    return made


def test_all_kernels_or_one(command: Any, path: str) -> None:
    found = command("ir", path)
    assert [k.name for k in parse_kernels(found.out)] == ["power", "other"]
    assert "noise" in found.err and "noise" not in found.out
    assert [k.name for k in parse_kernels(command("ir", f"{path}:other").out)] == ["other"]


@pytest.mark.parametrize(
    ("stage", "direction", "legal", "words"),
    [
        ("source", "forward", "source", ["break 1"]),
        ("tasks", "forward", "tasks", ["break 1"]),
        ("final", "forward", "tasks", ["sin"]),
        ("structured", "reverse", "structured", ["until"]),
        ("adjoint", "reverse", "adjoint", ["adstack_push", "x.grad"]),
        ("final", "reverse", "adjoint", ["adstack_push", "cos"]),
        ("counting", "reverse", "adjoint", ["$depths"]),
    ],
)
def test_stages_are_legal_ir(command: Any, path: str, stage: str, direction: str, legal: str, words: list[str]) -> None:
    found = command("ir", f"{path}:power", "--stage", stage, "--direction", direction)
    assert found.status == 0, found.err
    (kernel,) = parse_kernels(found.out)
    verify(kernel, legal)
    assert all(word in found.out for word in words)


def test_every_pass_in_order(command: Any, path: str) -> None:
    found = command("ir", f"{path}:power", "--stage", "all", "--direction", "reverse")
    titles = [line for line in found.out.splitlines() if line.startswith("//")]
    assert titles[0] == "// power: source" and titles[-2:] == ["// power: final", "// power: counting"]
    order = [titles.index(f"// power: after {name}") for name in ("split_tasks", "lower_exits", "reverse (lean)")]
    assert order == sorted(order)
    assert len(parse_kernels(found.out)) == len(titles) > 10


def test_lowerings_differ(command: Any, path: str) -> None:
    lean, classic = (
        command("ir", f"{path}:power", "--direction", "reverse", "--lowering", name).out for name in ("lean", "classic")
    )
    assert "adjoint of" in classic and "adstack_acc_adj" in classic and "adstack_acc_adj" not in lean


def test_shaders_are_printed_by_a_program_that_may_be_missing(
    command: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    found = command("ir", f"{path}:power", "--stage", "spirv")
    assert found.status and "spirv-dis, which prints shaders, is not installed; cure: apt-get" in found.err


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("llvm", ["target triple", "define"]),
        ("asm", [".globl\tlaunch", "\tret"]),
        ("ptx", [".target sm_80", ".entry power"]),
        ("spirv", ["OpMemoryModel PhysicalStorageBuffer64 GLSL450", "%task_0 = OpFunction "]),
    ],
)
def test_code(command: Any, path: str, stage: str, words: list[str], direction: str) -> None:
    found = command("ir", f"{path}:power", "--stage", stage, "--direction", direction, "--arch", "sm_80")
    assert found.status == 0, found.err
    assert all(word in found.out for word in words)


def test_kernels_that_only_a_run_makes(command: Any, write: Any) -> None:
    path = write("""
        import stackgrad as sg

        @sg.kernel
        def early():
            for i in range(3):
                a[i] = 1.0

        def main():
            global a
            sg.init(arch=sg.reference)
            a = sg.field(sg.f32, 3)
            scale = 2.0

            @sg.kernel
            def late():
                for i in range(3):
                    a[i] = scale

            early()
            late()

        if __name__ == "__main__":
            main()
        """)
    assert [k.name for k in parse_kernels(command("ir", path).out)] == ["early", "late"]
    assert [k.name for k in parse_kernels(command("ir", f"{path}:late").out)] == ["late"]


TEXT = """
kernel a(x: f64[1] grad) { serial { %0: i32 = const 0  %1: f64 = load x[%0]  %2: f64 = sin %1  store x[%0], %2 } }
kernel b(x: f64[1] grad) { serial { %0: i32 = const 0  %1: f64 = load x.grad[%0]  store x[%0], %1 } }
"""


def test_text(command: Any, write: Any) -> None:
    path = write(TEXT, "two.kir")
    assert [k.name for k in parse_kernels(command("ir", path, "--stage", "source").out)] == ["a", "b"]
    assert "define" in command("ir", f"{path}:b", "--stage", "llvm").out


@pytest.mark.parametrize(
    ("name", "options", "status", "message"),
    [
        (":c", [], 1, "has no kernel c; kernels: a, b"),
        (":a", ["--stage", "adjoint"], 1, "forward kernel a has no stage adjoint; use --direction reverse"),
        (":a", ["--stage", "counting"], 1, "kernel a needs no counting kernel"),
        (":b", ["--direction", "reverse"], 1, "kernel b uses adjoints itself; use --direction forward"),
    ],
)
def test_what_there_is_not(command: Any, write: Any, name: str, options: list[str], status: int, message: str) -> None:
    found = command("ir", write(TEXT, "two.kir") + name, *options)
    assert found.status == status and message in found.err and "Traceback" not in found.err


def test_mistakes_in_text(command: Any, write: Any) -> None:
    found = command("ir", write("kernel a( {", "bad.kir"))
    assert found.status == 1 and "bad.kir:1:11: expected a parameter" in found.err
    found = command("ir", write("kernel a() { serial { %0: f64 = load x[] } }", "bad.kir"))
    assert found.status == 1 and found.err.startswith("VerifyError")
    assert command("ir", "nowhere.kir").status == command("ir", "nowhere.py").status == 2


def test_mistakes_in_programs(command: Any, write: Any) -> None:
    path = write("""
        import stackgrad as sg
        x = sg.field(sg.f32, 4)

        @sg.kernel
        def wrong():
            for i in range(4):
                x[i, 0] = 1.0
        """)
    found = command("ir", path)
    assert found.status == 1 and f"{path}:8:" in found.err and "^" in found.err and "Traceback" not in found.err
    found = command("ir", write("1 / 0"))
    assert found.status == 1 and "ZeroDivisionError" in found.err and "Traceback" not in found.err


def test_gradients_that_do_not_exist(command: Any, write: Any) -> None:
    found = command("ir", write("kernel a(x: f64[1]) { serial { return } }", "a.kir"), "--direction", "reverse")
    assert found.status == 1 and found.err.startswith("NotDifferentiable") and "cure:" in found.err


def test_lines_in_machine_code(command: Any, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("""
        import stackgrad as sg
        x = sg.field(sg.f32, 4)
        @sg.kernel
        def k():
            for i in x:
                x[i] = 2.5 * x[i]
    """)
    assert ".loc" not in command("ir", path, "--stage", "asm").out
    monkeypatch.setenv("STACKGRAD_DEBUG_INFO", "1")
    assert re.search(r"\.loc\t1 \d+ ", command("ir", path, "--stage", "asm").out)
    assert "!DILocation(line:" in command("ir", path, "--stage", "llvm").out
