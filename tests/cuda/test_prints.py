# ruff: noqa: T201 - kernels print
"""`print` on the device: lines come at the next wait, in the order of a CPU; what finds no room is counted."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import runtime
from stackgrad.backends import registry
from stackgrad.backends.codegen.prints import CAPACITY, HEAD
from stackgrad.harness.testing.emulated_cuda.backend import NAMES, emulated_cuda

Capture = pytest.CaptureFixture[str]


def kernels() -> tuple[sg.Field, Callable[[int], None]]:
    x = sg.field(sg.f64, 40)

    @sg.kernel
    def loud(n: sg.i32):
        print("begin", n)
        for i in range(n):
            if i % 3 != 1:
                print("i", i, 0.5 * i, i > 4)
                for j in range(i):
                    print(j, end=",")
            x[i] = i
        for i, j in sg.ndrange(2, 3):
            print(f"{i}{j}")

    return x, loud


def on_the_cpu(capsys: Capture, *sizes: int) -> str:
    sg.init(arch=sg.cpu)
    _, loud = kernels()
    for n in sizes:
        loud(n)
    sg.reset()
    return capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_lines_come_as_on_a_cpu(name: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever threads there are, and whichever runs first."""
    wanted = on_the_cpu(capsys, 7, 3, 11)
    monkeypatch.setitem(registry._instances, "cuda", emulated_cuda(name))
    sg.init(arch=sg.cuda)
    _, loud = kernels()
    for n in (7, 3, 11):
        loud(n)
    assert capsys.readouterr().out == ""
    sg.sync()
    assert capsys.readouterr().out == wanted
    sg.sync()
    assert capsys.readouterr().out == ""
    sg.reset()


def test_every_wait_shows_them(capsys: Capture) -> None:
    wanted = on_the_cpu(capsys, 4)

    def read(x: sg.Field) -> None:
        assert x[3] == 3

    waits: list[Callable[[sg.Field], Any]] = [read, lambda x: x.to_numpy(), lambda x: sg.sync(), lambda x: sg.reset()]
    for wait in waits:
        with runtime():
            x, loud = kernels()
            loud(4)
            assert capsys.readouterr().out == ""
            wait(x)
            assert capsys.readouterr().out == wanted


def test_what_has_no_room_is_counted(capsys: Capture) -> None:
    @sg.kernel
    def loud(n: sg.i32):
        for i in range(n):
            print(i)

    held, more = CAPACITY // (HEAD + 1), 1000
    with runtime():
        for _ in range(2):
            loud(held + more)
            sg.sync()
            out, said = capsys.readouterr()
            assert out == "".join(f"{i}\n" for i in range(held))
            assert f"{more} prints of kernels were lost" in said and f"room for {8 * CAPACITY} bytes" in said
        loud(5)
        sg.sync()
        assert capsys.readouterr() == ("0\n1\n2\n3\n4\n", "")


def test_what_was_printed_before_an_error(capsys: Capture) -> None:
    @sg.kernel
    def fails(n: sg.i32):
        for i in range(n):
            print("at", i)
        for i in range(n):
            assert i < 2, "few"
        for i in range(n):
            print("never", i)

    with runtime(debug=True):
        with pytest.raises(sg.KernelAssertionError, match="few"):
            fails(3)
        assert capsys.readouterr().out == "at 0\nat 1\nat 2\n"


def test_a_graph_prints_in_each_replay(capsys: Capture) -> None:
    with runtime():
        x, _ = kernels()

        @sg.kernel
        def show():
            for i in range(3):
                print(i, x[i])

        @sg.kernel
        def step():
            for i in range(3):
                x[i] = x[i] + 1.0

        step()
        show()

        def both() -> None:
            step()
            show()

        sg.sync()
        capsys.readouterr()
        both_at_once = sg.graph(both)
        sg.sync()
        before = int(x[0])
        capsys.readouterr()
        both_at_once()
        both_at_once()
        assert both_at_once.replays == 2
        sg.sync()
        wanted = [f"{i} {float(v)}\n" for v in (before + 1, before + 2) for i in range(3)]
        assert capsys.readouterr().out == "".join(wanted)


def test_what_the_stream_raises(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    class Broken:
        def write(self, text: str) -> int:
            raise OSError("the disk is full")

        def flush(self) -> None:
            """Nothing is kept."""

    with runtime():
        x, loud = kernels()
        loud(2)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", Broken())
            with pytest.raises(OSError, match="the disk is full"):
                sg.sync()
        assert x[1] == 1
        loud(0)
        sg.sync()
        assert capsys.readouterr().out.startswith("begin 0\n")


def test_a_stream_that_launches(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """What it launches is over too before the host touches memory."""
    with runtime():
        x, loud = kernels()

        @sg.kernel
        def step():
            for i in range(40):
                x[i] = 7.0

        class Out:
            def write(self, text: str) -> int:
                step()
                return len(text)

            def flush(self) -> None:
                """Nothing is kept."""

        step()
        sg.sync()
        loud(4)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", Out())
            assert np.array(x.memory).tolist() == [7.0] * 40


def test_threads_lose_nothing(capsys: Capture) -> None:
    @sg.kernel
    def loud(who: sg.i32, n: sg.i32):
        for i in range(n):
            print(who, i)

    def work(who: int) -> None:
        for _ in range(20):
            loud(who, 5)
            sg.sync()

    with runtime():
        loud(9, 0)
        threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sg.sync()
    lines = capsys.readouterr().out.splitlines()
    for who in range(4):
        assert [line for line in lines if line.startswith(f"{who} ")] == [f"{who} {i}" for i in range(5)] * 20


def test_a_kernel_that_is_dropped(capsys: Capture) -> None:
    """Its code goes when what was dropped is given back; what it printed is shown before."""

    def launch() -> None:
        @sg.kernel
        def once():
            print("once")

        once()

    with runtime():
        launch()
        gc.collect()
        for _ in range(600):  # more than is kept until the next wait
            sg.field(sg.f32, 2)
        assert capsys.readouterr().out == "once\n"
        sg.sync()
        assert capsys.readouterr().out == ""


_PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import stackgrad as sg
from stackgrad.backends import registry
from stackgrad.harness.testing.emulated_cuda.backend import emulated_cuda

registry.put("cuda", emulated_cuda())
sg.init(arch=sg.cuda)

@sg.kernel
def last():
    print("the last words")

last()
"""


@pytest.mark.expensive
def test_the_end_of_the_process(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.format(folder=str(Path(__file__).parent)))
    made = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    assert made.stdout == "the last words\n" and not made.stderr
