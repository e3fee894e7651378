"""Images go to files and come back; colors are numbers and triples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compat import tools
from stackgrad.compat.colors import hex_to_rgb, rgb_to_hex
from stackgrad.runtime.usage_errors import FieldError, MissingPackage


def test_an_image_comes_back(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    tools.imwrite(image, str(tmp_path / "image.png"))
    assert np.array_equal(tools.imread(str(tmp_path / "image.png")), image)


def test_a_missing_pillow_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(MissingPackage, match="pip install pillow"):
        tools.imwrite(np.zeros((2, 2), np.uint8), str(tmp_path / "image.png"))


def test_values_become_bytes() -> None:
    sg.init()
    field = sg.field(sg.f32, (1, 3))
    field.from_numpy(np.array([[-1.0, 0.5, 2.0]], np.float32))
    assert tools.cook_image_to_bytes(field).tolist() == [[0, 128, 255]]
    assert tools.cook_image_to_bytes(np.array([[0, 65535]], np.uint16)).tolist() == [[0, 255]]
    with pytest.raises(FieldError, match="give \\(width, height\\)"):
        tools.cook_image_to_bytes(np.zeros(3))


def test_an_image_in_another_size() -> None:
    assert tools.imresize(np.array([[1, 2], [3, 4]]), 4, 2).tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]


def test_colors() -> None:
    assert rgb_to_hex(hex_to_rgb(0xFF8001)) == 0xFF8001
    assert rgb_to_hex((np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0.0, 2.0]))).tolist() == [
        0xFF0000,
        0x00FFFF,
    ]
