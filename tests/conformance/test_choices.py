"""`and` and `or` of numbers give one of their operands, as Python's do."""

from __future__ import annotations

import pytest
import stackgrad as sg

_NUMBERS = (-2, 0, 3)


@pytest.fixture(autouse=True)
def executor(arch) -> str:
    return arch


@pytest.mark.parametrize("b", _NUMBERS)
@pytest.mark.parametrize("a", _NUMBERS)
def test_integers(a: int, b: int) -> None:
    y = sg.field(sg.i32, 6)

    @sg.kernel
    def k(a: sg.i32, b: sg.i32):
        y[0] = a and b
        y[1] = a or b
        y[2] = a and b or 7
        y[3] = (a > 0 and b) or a
        y[4] = True and a
        y[5] = 1 if (a and b) else 0

    k(a, b)
    assert y.to_numpy().tolist() == [a and b, a or b, a and b or 7, (a > 0 and b) or a, a, 1 if (a and b) else 0]


def test_the_right_operand_is_skipped() -> None:
    x, y = sg.field(sg.i32, 2), sg.field(sg.i32, 4)
    x.fill(5)

    @sg.kernel
    def k():
        for i in y:
            y[i] = (i < 2) and x[i]

    sg.init(arch=sg.reference, debug=True)  # an index outside would end the launch
    x, y = sg.field(sg.i32, 2), sg.field(sg.i32, 4)
    x.fill(5)
    k()
    assert y.to_numpy().tolist() == [5, 5, 0, 0]
