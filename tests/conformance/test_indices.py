"""Indices outside of fields, as programs of the dialect catch them."""

from __future__ import annotations

import pytest
import stackgrad as sg


def test_an_index_outside_is_an_assertion_error(arch) -> None:
    sg.init(arch=arch, debug=True)
    x = sg.field(sg.f32, 3)

    @sg.kernel
    def k(i: sg.i32):
        x[i] = 1.0

    k(2)
    for error in (AssertionError, IndexError):
        with pytest.raises(error, match="index 7"):
            k(7)
    assert x.to_numpy().tolist() == [0, 0, 1]
