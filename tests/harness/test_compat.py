"""The command that runs programs of peers: its arguments, its tables, and stand-ins for what it runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from stackgrad.harness.compat import __main__ as command
from stackgrad.harness.compat import children, genesis_runs, table
from stackgrad.harness.compat.genesis_runs import OURS, THEIRS, SideRun


def test_says_in_one_line_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(genesis_runs, "installed", lambda name, python: None if name == "genesis-world" else "1")
    assert command.main(["genesis", "rigid_box", "--python", "here"]) == 2
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "here does not have genesis-world; cure: here -m pip install genesis-world==1.4.5" in said


def test_names_the_scenes_that_there_are(capsys):
    assert command.main(["genesis", "no_such_scene"]) == 2
    assert "no scene is called 'no_such_scene'; there are: rigid_box, franka, duck, mpm" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["genesis", "--precision", "16"], ["quadrants-tests"], ["difftaichi"]])
def test_refuses_mistaken_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2 and "usage: python -m stackgrad.harness.compat" in capsys.readouterr().err


STAND_IN = """
import json, sys
peer = "quadrants" in sys.modules
name, precision, repeat, file = sys.argv[1:]
if name == "broken" and peer:
    raise ValueError("no such thing")
value = 1.0 + (0.5 if name == "apart" and peer else 0.0)
found = {"arrays": {"moved": [value, 0.0], "d place": [2.0]}, "times": {"step": 0.5 if peer else 1.0}}
print("much", "else")
json.dump(found, open(file, "w"))
"""


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Put a script in place of the scenes, which knows by its modules which of the two libraries it runs on."""
    script = tmp_path / "scene.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(genesis_runs, "SCRIPT", script)
    monkeypatch.setattr(genesis_runs, "installed", lambda name, python: "1")
    monkeypatch.setattr(genesis_runs, "SCENES", dict.fromkeys(("same", "apart", "broken")))
    return tmp_path


def test_compares_both_sides_in_processes_of_their_own(stand_in, capsys):
    file, before = stand_in / "table.md", set(sys.modules)
    assert command.main(["genesis", "same", "--python", sys.executable, "--markdown", str(file)]) == 0
    assert "quadrants" not in set(sys.modules) - before
    *_, line = capsys.readouterr().out.strip().splitlines()
    assert line.split() == "same moved 0.0e+00, d place 0.0e+00 step 500 ms 1 s 2.00x agrees".split()
    text = file.read_text()
    assert "32 bits; 1 thread; processor time, medians of 7" in text
    assert "| same | moved 0.0e+00, d place 0.0e+00 | step | 500 ms | 1 s | 2.00x | agrees |" in text


def test_says_which_arrays_differ_and_who_fails(stand_in, capsys):
    assert command.main(["genesis", "apart", "broken", "--python", sys.executable]) == 1
    said = capsys.readouterr().out
    assert "moved 5.0e-01" in said and "differs: moved\n" in said
    assert "stackgrad fails: ValueError: no such thing" in said


def test_difference_is_relative_to_the_greatest_value():
    assert genesis_runs.difference(np.array([3.0, 8.5]), np.array([3.0, 8.0])) == 0.0625
    assert genesis_runs.difference(np.zeros(2), np.zeros(2)) == 0
    for wrong in (np.array([1.0]), np.array([np.nan, 1.0])):
        assert genesis_runs.difference(wrong, np.array([1.0, 1.0])) == float("inf")
    assert genesis_runs.difference(np.array([1.0]), np.array([0.0])) == float("inf")


@pytest.mark.parametrize(("precision", "apart", "said"), [("32", 3e-4, "agrees"), ("64", 3e-4, "differs: a")])
def test_half_of_the_digits_must_agree(precision, apart, said):
    assert genesis_runs.verdict({"a": apart, "b": 0.0}, precision) == said


def test_nan_differs():
    assert genesis_runs.verdict({"a": float("nan")}, "32") == "differs: a"


def test_a_time_of_one_side_alone_is_shown():
    runs = {OURS: SideRun(times={"step": 0.25}, arrays={}), THEIRS: SideRun(problem="ran past the time limit")}
    (row,) = genesis_runs.rows("s", runs, "32")
    assert row == ("s", "", "step", "250 ms", "", "", "Quadrants fails: ran past the time limit")


def test_how_a_process_ended(tmp_path):
    def reason(text: str, limit: float = 60) -> str:
        return children.run([sys.executable, "-c", text], limit, tmp_path).reason

    assert reason("") == ""
    assert reason("import os; os.abort()") == "ended by signal SIGABRT"
    assert reason("raise SystemExit(3)") == "ended with status 3"
    assert reason("import time; time.sleep(60)", 0.5) == "ran past the time limit"
    assert reason("1 / 0") == "ZeroDivisionError: division by zero"
    assert reason("raise ValueError('a\\nb' + 'c' * 500)").startswith("ValueError: a bccc")
    assert len(reason("raise ValueError('c' * 500)")) == 160


def test_tables():
    assert table.plain(("a", "b"), [("long", "x")]) == "a     b\nlong  x"
    assert table.markdown(("a", "b"), [("x|y", "")]) == "| a | b |\n| --- | --- |\n| x\\|y |  |"


def test_a_page_keeps_its_prose_and_other_rows(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Scenes\n\n<!-- a -->\n<!-- end of a -->\n\nAfter.\n")
    table.store(page, "a", "one", ("s", "t"), [("x", "1|2"), ("", "2"), ("y", "3")])
    table.store(page, "a", "two", ("s", "t"), [("y", "4"), ("z", "5")])
    table.store(page, "b", "other", ("s",), [("x",)])
    told = "| s | t |\n| --- | --- |\n| x | 1\\|2 |\n|  | 2 |\n| y | 4 |\n| z | 5 |"
    begin = f"# Scenes\n\n<!-- a -->\ntwo\n\n{told}\n<!-- end of a -->\n\nAfter.\n"
    assert page.read_text() == f"{begin}<!-- b -->\nother\n\n| s |\n| --- |\n| x |\n<!-- end of b -->\n"


TESTS = """
import pytest
import quadrants as qd
from tests import helper

def test_gradient():
    qd.init(arch=qd.cpu)
    x = qd.field(qd.f32, shape=(), needs_grad=True)
    y = qd.field(qd.f32, shape=(), needs_grad=True)

    @qd.kernel
    def square():
        y[None] = x[None] ** 2

    x[None] = helper.START
    with qd.ad.Tape(y):
        square()
    assert x.grad[None] == 6

def test_wrong():
    assert 1 == 2

@pytest.mark.skip(reason="not now")
def test_later():
    pass

@pytest.mark.xfail(strict=True, reason="known")
def test_known():
    assert 3 == 4

@pytest.mark.xfail(strict=True, reason="thought to be known")
def test_cured():
    pass
"""


@pytest.fixture
def checkout(tmp_path):
    """Make a folder that is laid out like a checkout of Quadrants."""
    folder = tmp_path / "checkout"
    (folder / "tests" / "python").mkdir(parents=True)
    (folder / "tests" / "__init__.py").touch()
    (folder / "tests" / "helper.py").write_text("START = 3.0\n")
    (folder / "tests" / "python" / "test_ad_one.py").write_text(TESTS)
    (folder / "tests" / "python" / "test_other.py").write_text("def test_it(): pass\n")
    (folder / "tests" / "python" / "test_ad_two.py").write_text("import no_such_module\n")
    return folder


@pytest.mark.expensive
def test_runs_the_tests_of_a_checkout(checkout, capsys):
    assert command.main(["quadrants-tests", str(checkout), "--python", sys.executable]) == 1
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    outcomes = {line[0]: line[1:] for line in lines}
    assert outcomes["test_ad_one.py::test_gradient"] == ["passed"]
    assert outcomes["test_ad_one.py::test_wrong"] == ["failed", "assert 1 == 2"]
    assert outcomes["test_ad_one.py::test_later"] == ["skipped", "not now"]
    assert outcomes["test_ad_one.py::test_known"] == ["xfailed", "known"]
    assert outcomes["test_ad_one.py::test_cured"] == ["failed", "[XPASS(strict)] thought to be known"]
    (broken,) = [rest for name, rest in outcomes.items() if "two" in name]
    assert broken == ["error", "collection failure: ModuleNotFoundError: No module named 'no_such_module'"]
    assert not any("other" in name for name in outcomes)


@pytest.mark.expensive
def test_runs_files_by_name(checkout, capsys):
    assert command.main(["quadrants-tests", str(checkout), "test_other", "--python", sys.executable]) == 0
    assert "test_other.py::test_it  passed" in capsys.readouterr().out


def test_says_that_a_checkout_has_no_tests(tmp_path, checkout, capsys):
    assert command.main(["quadrants-tests", str(tmp_path / "nowhere")]) == 2
    assert "has no test_ad*.py" in capsys.readouterr().out
    assert command.main(["quadrants-tests", str(checkout), "test_ad_three"]) == 2
    assert "has no file test_ad_three" in capsys.readouterr().out


PROGRAM = """
import sys
import cv2
import matplotlib.pyplot as plt
import taichi as ti

ti.init(arch=ti.cpu)
gui = ti.GUI("springs", (512, 512))
x = ti.field(ti.f32, shape=(), needs_grad=True)
loss = ti.field(ti.f32, shape=(), needs_grad=True)

@ti.kernel
def compute():
    loss[None] = (x[None] - 1) ** 2

for _ in range(20):
    with ti.ad.Tape(loss):
        compute()
    x[None] -= 0.25 * x.grad[None]
    gui.circle((0.5, x[None]), radius=3)
    gui.show()
    cv2.imshow("img", x.to_numpy())
plt.plot([1, 2])
plt.show()
print(f"x = {x[None]:.3f}", *sys.argv[1:])
"""


@pytest.fixture
def programs(tmp_path):
    """Make a folder that is laid out like a checkout of DiffTaichi."""
    folder = tmp_path / "programs" / "examples"
    folder.mkdir(parents=True)
    (folder / "springs.py").write_text(PROGRAM)
    (folder / "config.py").write_text("number = 3\n")
    (folder / "broken.py").write_text("import taichi as ti\nti.init()\nti.no_such_name\n")
    (folder / "endless.py").write_text(
        "import taichi as ti\nti.init()\nprint('at work', flush=True)\nwhile True: pass\n"
    )
    return folder.parent


@pytest.mark.expensive
def test_runs_programs_without_a_display(programs, capsys):
    options = ["--python", sys.executable]
    assert command.main(["difftaichi", str(programs), "springs", "--arguments", "fast", *options]) == 0
    assert "springs  ended    x = 1.000 fast" in capsys.readouterr().out
    assert command.main(["difftaichi", str(programs), "broken", *options]) == 1
    assert "module 'taichi' has no attribute 'no_such_name'" in capsys.readouterr().out


def test_a_program_that_optimizes_for_long_does_not_fail(programs, monkeypatch, capsys):
    monkeypatch.setattr(children, "run", lambda *given: children.Ended(None, "loss 2\nloss 1\n"))
    assert command.main(["difftaichi", str(programs), "endless", "--limit", "10"]) == 0
    assert "endless  runs on  after 10 s: loss 1" in capsys.readouterr().out


@pytest.mark.expensive
def test_a_program_is_stopped_after_a_number_of_gradients(programs, capsys):
    options = ["--python", sys.executable, "--iterations", "3"]
    assert command.main(["difftaichi", str(programs), "springs", *options]) == 0
    assert "springs  ended    stopped after 3 gradients" in capsys.readouterr().out


def test_a_program_reads_the_files_beside_it(programs, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    (programs / "examples" / "words.txt").write_text("hello")
    (programs / "examples" / "reader.py").write_text(
        "import taichi as ti\nti.init()\nprint(open('words.txt').read())\nopen('made.txt', 'w').close()\n"
    )
    assert command.main(["difftaichi", str(programs), "reader", "--python", sys.executable]) == 0
    assert "reader   ended    hello" in capsys.readouterr().out
    assert not (programs / "examples" / "made.txt").exists()


def test_names_the_programs_that_there_are(programs, capsys):
    assert command.main(["difftaichi", str(programs), "config"]) == 2
    assert "has no program config; there are: broken, endless, springs" in capsys.readouterr().out


def test_a_scene_reads_its_result():
    text = json.dumps({"arrays": {"moved": [1, 2]}, "times": {"step": 1}})
    assert genesis_runs.read_result(text).arrays["moved"].tolist() == [1, 2]
    assert Path(genesis_runs.SCRIPT).exists()


def test_an_interpreter_is_found_by_its_path_from_here(tmp_path, monkeypatch):
    (tmp_path / "python").symlink_to(sys.executable)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    assert children.run(["./python", "-c", "print(1)"], 60.0, tmp_path / "elsewhere").output == "1\n"
