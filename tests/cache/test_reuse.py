"""Test that a process loads what an earlier one compiled: nothing is lowered again, and all messages are the same.

`sg.init` drops all compiled code, so that in these tests it stands for the start of another process; two tests start
real processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.backends.cpu import stacks, variants
from stackgrad.backends.host import jit
from stackgrad.backends.llvm import module
from stackgrad.compiler import driver

_HERE = Path(__file__).parent
if str(_HERE) not in sys.path:
    sys.path.append(str(_HERE))

from programs import Sums  # noqa: E402

Refuse = Callable[..., None]


@pytest.fixture
def nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes every later lowering, code generation or compilation an error."""

    def now() -> None:
        for owner, name in ((driver, "prepare_forward"), (driver, "prepare_reverse"), (jit, "_emitted")):
            replace(monkeypatch, owner, name)

    return now


def replace(monkeypatch: pytest.MonkeyPatch, owner: ModuleType, name: str) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError(f"{name} was called")

    refuse.__name__ = name
    monkeypatch.setattr(owner, name, refuse)


def test_the_next_process_makes_nothing(folder: Path, nothing_is_made: Callable[[], None]) -> None:
    sg.init(arch=sg.cpu)
    first = Sums().gradient()
    kept = sorted(folder.iterdir())
    assert len(kept) >= 4  # two lowerings, forward and reverse code
    nothing_is_made()
    sg.init(arch=sg.cpu)
    assert Sums().gradient() == first
    assert sorted(folder.iterdir()) == kept


def test_masked_code_is_kept_too(
    folder: Path, nothing_is_made: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load(generated: Any, effort: int, exports: list[str]) -> jit.NativeCode:
        loaded.extend(exports)
        return jit.NativeCode(generated, effort, exports)

    monkeypatch.setattr(variants, "NativeCode", load)
    sg.init(arch=sg.cpu)
    first = Sums(64).gradient()
    assert loaded and {name.partition(".")[0] for name in loaded} == {"masked"}
    nothing_is_made()
    sg.init(arch=sg.cpu)
    count = len(loaded)
    assert Sums(64).gradient() == first and len(loaded) == 2 * count


def test_text_is_not_even_generated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sg.init(arch=sg.cpu)
    first = Sums().gradient()
    replace(monkeypatch, module, "launch_function")
    sg.init(arch=sg.cpu)
    assert Sums().gradient() == first


def run(folder: Path, **variables: str) -> str:
    found = subprocess.run(
        [sys.executable, "-W", "error", str(_HERE / "programs.py")],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "STACKGRAD_CACHE": "1", "STACKGRAD_CACHE_DIR": str(folder), **variables},
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.expensive
def test_processes_agree_on_keys(folder: Path) -> None:
    """Nothing in a key, or in what it stands for, depends on the order of hashes."""
    first = run(folder, PYTHONHASHSEED="1")
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert kept
    assert run(folder, PYTHONHASHSEED="2") == first
    assert {file.name for file in folder.iterdir()} == {*kept}
    for file in folder.iterdir():
        file.unlink()
    assert run(folder, PYTHONHASHSEED="3") == first
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == kept


@pytest.mark.expensive
def test_eight_processes_start_at_once(folder: Path) -> None:
    variables = {**os.environ, "STACKGRAD_CACHE": "1", "STACKGRAD_CACHE_DIR": str(folder)}
    command = [sys.executable, "-W", "error", str(_HERE / "programs.py")]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)
        for _ in range(8)
    ]
    outputs = []
    for process in running:
        output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        outputs.append(output)
    assert len({*outputs}) == 1 and "[" in outputs[0]
    assert not list(folder.glob("*.part")) and list(folder.glob("*.entry"))


def test_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKGRAD_CACHE", "0")
    sg.init(arch=sg.cpu)
    Sums().gradient()
    assert not folder.exists()


def test_options_of_init(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STACKGRAD_CACHE_DIR")
    own = tmp_path / "own"
    sg.init(arch=sg.cpu, offline_cache=False, offline_cache_file_path=own)
    Sums().gradient()
    assert not own.exists()
    sg.init(arch=sg.cpu, offline_cache_file_path=str(own))
    Sums().gradient()
    assert list(own.glob("*.entry"))


def test_other_options_are_other_code(folder: Path) -> None:
    counts = []
    for options in ({}, {"precise": True}, {"debug": True}, {"default_fp": sg.f64}, {}):
        sg.init(arch=sg.cpu, **options)
        Sums().gradient()
        counts.append(len(list(folder.iterdir())))
    assert counts[0] < counts[1] < counts[2] < counts[3] == counts[4]


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: data[:-8] + bytes(8)])
def test_damaged_entries_are_made_anew(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    sg.init(arch=sg.cpu)
    first = Sums().gradient()
    kept = {file: file.read_bytes() for file in folder.iterdir()}
    for file, data in kept.items():
        file.write_bytes(damage(data))
    from stackgrad.backends import disk_cache

    disk_cache._CHOICE.known.clear()  # a new process knows of no warning
    sg.init(arch=sg.cpu)
    with pytest.warns(sg.CacheWarning) as caught:
        assert Sums().gradient() == first
    assert len([w for w in caught if w.category is sg.CacheWarning]) == 1
    assert {file: file.read_bytes() for file in folder.iterdir()} == kept


def test_a_folder_that_cannot_be_made(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sg.init(arch=sg.cpu)
    first = Sums().gradient()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STACKGRAD_CACHE_DIR", str(tmp_path / "file"))
    sg.init(arch=sg.cpu)
    with pytest.warns(sg.CacheWarning, match="not a folder"):
        assert Sums().gradient() == first


# ---- what reloaded code says --------------------------------------------------------------------------------


def message(expected: type[Exception], launch: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(expected) as caught:
        launch(*args)
    return str(caught.value)


@pytest.mark.parametrize("size", [5, 64])
def test_an_overflow_names_all_it_named(size: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In branching code, and in masked code, which large tasks have."""
    sg.init(arch=sg.cpu)
    Sums(size).gradient()
    monkeypatch.setattr(stacks, "stack_capacity", lambda stack, sizes: 1)
    said = []
    for _ in range(2):
        sg.init(arch=sg.cpu)
        sums = Sums(size)
        sums.grow()
        said.append(message(sg.AdstackOverflow, sums.grow.grad))
        replace(monkeypatch, driver, "prepare_reverse")
    assert said[0] == said[1]
    for word in ("programs.py:", "kernel grow.grad, task 0", "the history of v", "capacities", "for _ in range(n[i]):"):
        assert word in said[0], said[0]


def test_asserts_indices_and_prints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for _ in range(2):
        sg.init(arch=sg.cpu, debug=True)
        strict = Sums(2).strict
        said.append([message(sg.KernelAssertionError, strict, 7), capsys.readouterr().out])
        said[-1].append(message(sg.OutOfBounds, strict, 2))
        capsys.readouterr()
    assert said[0] == said[1]
    assert "the limit is 3" in said[0][0] and "programs.py:" in said[0][0] and said[0][1] == "limit 7\n"
    assert "index 2 is outside axis 0" in said[0][2]


_TEXT = """
import stackgrad as sg
def make(x, y):
    @sg.kernel
    def cubes() -> None:
        for i in range(3):
            v = x[i]
            for _ in range(2 + y.shape[0]):
                v = v * x[i]
            y[i] = v
    return cubes
"""


def test_a_kernel_that_moved_is_found_and_names_its_new_lines(
    folder: Path, tmp_path: Path, nothing_is_made: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(blank: int, name: str) -> tuple[int, list[int]]:
        file = tmp_path / f"{name}.py"
        file.write_text("\n" * blank + _TEXT)
        names: dict[str, Any] = {}
        exec(compile(file.read_text(), str(file), "exec"), names)
        sg.init(arch=sg.cpu)
        x, y = (sg.field(sg.f32, shape=3, needs_grad=True) for _ in range(2))
        kernel = names["make"](x, y)
        kernel.grad()
        spans = [span.line for span in kernel.lowered_grad().kernel.locations if span]
        return len(list(folder.iterdir())), spans

    count, lines = launch(0, "before")
    nothing_is_made()
    again, moved = launch(10, "after")
    assert (again, moved) == (count, [line + 10 for line in lines])


def test_code_of_another_text_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site table must be the one that the machine code was made with."""
    sg.init(arch=sg.cpu)
    Sums().gradient()
    monkeypatch.setattr(stacks, "stack_capacity", lambda stack, sizes: 1)
    sg.init(arch=sg.cpu)
    sums = Sums()
    sums.grow()
    honest = module.launch_function

    def longer(state: Any) -> Any:
        state.declare("another", module_void(), [])
        return honest(state)

    def module_void() -> Any:
        from stackgrad.backends.codegen.types import VOID

        return VOID

    monkeypatch.setattr(module, "launch_function", longer)
    with pytest.raises(sg.InternalError, match="made of another text"):
        sums.grow.grad()
