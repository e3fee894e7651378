"""Folders that others may write to, in which texts and code of a program are asked for: links are replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
import stackgrad as sg
from stackgrad.backends.host import code_map
from stackgrad.runtime.dump import dump_kernels


def one_kernel() -> None:
    """Compile and run one."""
    sg.init(arch=sg.cpu, offline_cache=False)
    x = sg.field(sg.f32, shape=3)

    @sg.kernel
    def double() -> None:
        for i in x:
            x[i] *= 2.0

    double()
    sg.reset()


def test_texts_of_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, place = tmp_path / "mine", tmp_path / "dump"
    mine.write_text("of the user")
    place.mkdir()
    for stage in ("source", "forward"):
        (place / f"double.{stage}.ir").symlink_to(mine)
    monkeypatch.setenv("STACKGRAD_DUMP_IR", str(place))
    one_kernel()
    assert mine.read_text() == "of the user"
    assert "kernel double(" in (place / "double.forward.ir").read_text()
    assert dump_kernels.__doc__


def test_code_for_debuggers(tmp_path: Path) -> None:
    """gdb runs what the script says, so it holds nothing that lay there before."""
    import os

    mine = tmp_path / "mine"
    mine.write_text("of the user")
    names = [f"{os.getpid()}.gdb", f"jit-{os.getpid()}.dump"]
    for name in names:
        (tmp_path / name).symlink_to(mine)
    made = code_map.CodeMap(tmp_path)
    assert mine.read_text() == "of the user" and not any((tmp_path / name).is_symlink() for name in names)
    assert (tmp_path / names[0]).read_text() == "" and made.folder == tmp_path
