"""Every refusal of a gradient: a program that provokes it, what its message says, and the program that its cure makes.

The cases are in the files refused_*.py. A test reads the sources of reverse and forward mode and of tapes: a refusal
without a case fails it.
"""

from __future__ import annotations

import re
from importlib import import_module

import pytest
import refusals_in_sources as sources
import stackgrad as sg
from refusal_support import CASES, V, check_place, field

for name in ("state", "atomics", "arrays", "tapes", "functions"):
    import_module(f"refused_{name}")
MISUSES = import_module("refused_modes").MISUSES


@pytest.mark.parametrize("reason", MISUSES)
def test_misuse(reason):
    sg.init(arch=sg.reference, default_fp=sg.f64)
    call, cure = MISUSES[reason]
    x, n = field(3, "x", V), field((), "n", 1, sg.i32)
    with pytest.raises(sg.TapeError, match=reason.removesuffix(", in forward mode")) as caught:
        call(x, n)
    text = str(caught.value)
    first, second = text.splitlines()[0], text.splitlines()[1].strip()
    assert re.match(r".*refused_modes.py:\d+:\d+: ", first) and "sg.ad." in second and "^" in text
    assert cure in text.split("cure:")[1]


@pytest.mark.rotating
@pytest.mark.parametrize("arch", ["reference", "cpu"])
@pytest.mark.parametrize("name", CASES)
def test_refusal(name, arch):
    function, kind, reason, names, cure = CASES[name]
    sg.init(arch=getattr(sg, arch), default_fp=sg.f64)
    program = function()
    refused = next(program)
    with pytest.raises(kind, match=f"(?s){reason}") as caught:
        refused()
    text = str(caught.value)
    assert "cure:" in text and cure in text.split("cure:")[1], text
    assert all(one in text for one in names), text
    check_place(function, text)
    assert next(program, None) is None, "what the cure says is run to its end"


def messages():
    """What the cases are told."""
    for function, *_ in CASES.values():
        sg.init(arch=sg.reference, default_fp=sg.f64)
        program = function()
        with pytest.raises(sg.StackgradError) as caught:
            next(program)()
        program.close()
        yield str(caught.value)
    sg.init(arch=sg.reference, default_fp=sg.f64)
    for call, _ in MISUSES.values():
        with pytest.raises(sg.TapeError) as caught:
            call(field(3, "x", V), field((), "n", 1, sg.i32))
        yield str(caught.value)


def test_each_refusal_has_a_case():
    said, found = list(messages()), sources.refusals()
    assert len(found) > 40
    left = [r for r in found if r.text not in sources.ELSEWHERE and not any(r.is_in(text) for text in said)]
    assert not left, "\n".join(map(str, left))
    gone = set(sources.ELSEWHERE) - {r.text for r in found}
    assert not gone, f"said to be tested elsewhere, but no longer there: {gone}"
