"""Test derivatives at singular points: each line of the table in docs/ad.md, on every executor and in both modes.

Also test that a branch that was not taken gives no NaN: every kind of branch of the language around every operation
with an infinite slope.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)

import singular_rows as rows  # noqa: E402

EACH = pytest.mark.parametrize("executor", rows.EXECUTORS, ids="-".join)


def kernels(folder, expressions):
    """Return, for each expression, a function that makes the kernel c[0] = expression of x = a[0] and y = b[0]."""
    made = [
        f"    @sg.kernel\n    def row_{k}():\n        for i in range(1):\n            x = a[i]\n"
        f"            y = b[i]\n            c[i] = {expression}\n    out.append(row_{k})\n"
        for k, expression in enumerate(expressions)
    ]
    text = "import stackgrad as sg\ndef make(a, b, c):\n    out = []\n" + "".join(made) + "    return out\n"
    return rows.module(folder, text).make


def same(found, wanted):
    """Return True if two values are equal but for a few roundings, or both NaN; anything equals "void"."""
    if wanted == "void":
        return True
    wanted = float(wanted)
    return math.isnan(found) and math.isnan(wanted) or found == pytest.approx(wanted, rel=2e-6, abs=0.0)


def derivative(kernel, by, other, out, mode):
    """Return the derivative by one field of one element, while the other field has no adjoint and no tangent."""
    if mode == "reverse":
        kernel()
        by.grad.fill(0)
        out.grad.fill(1.0)
        kernel.grad()
        return by.grad[0]
    with sg.ad.FwdMode(out, by, seed=[1.0]):
        kernel()
    return out.dual[0]


@pytest.mark.rotating
@EACH
@pytest.mark.parametrize("by", [0, 1], ids=["dx", "dy"])
def test_operations(executor, by, monkeypatch, tmp_path):
    fp = rows.start(monkeypatch, executor)
    table = rows.table("Operations")
    assert len(table) > 50 and all(len(row) == 7 for row in table)
    assert all(row[5] == "0.0" for row in table if "y" not in row[0])
    table = [row for row in table if by == 0 or "y" in row[0]]
    fields = [sg.field(fp, 1, needs_grad=k == by) for k in range(2)]
    out = sg.field(fp, 1, needs_grad=True)
    wrong = []
    for kernel, row in zip(kernels(tmp_path, [row[0] for row in table])(*fields, out), table):
        for field, value in zip(fields, row[1:3]):
            field[0] = float(value)
        for mode in ("reverse", "forward") if executor[1] == "lean" else ("reverse",):
            found = derivative(kernel, fields[by], fields[1 - by], out, mode) if row[4 + by] != "void" else kernel()
            if not same(out[0], row[3]) or not same(found, row[4 + by]):
                wrong.append((row, mode, out[0], found))
    assert not wrong, "\n".join(map(str, wrong))


@EACH
def test_where_the_modes_differ(executor, monkeypatch, tmp_path):
    fp = rows.start(monkeypatch, executor)
    table = rows.table("Where the two modes differ")
    a, b, c = sg.field(fp, 1, needs_grad=True), sg.field(fp, 1), sg.field(fp, 1, needs_grad=True)
    assert len(table) == 3
    for kernel, row in zip(kernels(tmp_path, [row[0] for row in table])(a, b, c), table):
        a[0] = float(row[1])
        assert same(derivative(kernel, a, b, c, "reverse"), row[3]), row
        assert same(c[0], row[2]), row
        if executor[1] == "lean":
            assert same(derivative(kernel, a, b, c, "forward"), row[4]), row


@pytest.mark.rotating
@EACH
def test_atomics(executor, monkeypatch, tmp_path):
    fp = rows.start(monkeypatch, executor)
    for statement, elements, before, after, of_a, of_m in rows.table("Atomics"):
        (given,) = rows.numbers(elements)
        a, m = sg.field(fp, len(given), needs_grad=True), sg.field(fp, (), needs_grad=True)
        text = f"import stackgrad as sg\ndef make(a, m):\n    @sg.kernel\n    def update():\n        for i in a:\n            {statement}\n    return update\n"  # noqa: E501
        kernel = rows.module(tmp_path, text).make(a, m)
        a.from_numpy(np.array(given, fp.dtype))
        m[None] = float(before)
        kernel()
        assert m[None] == float(after)
        m.grad[None] = 1.0
        kernel.grad()
        assert a.grad.to_numpy().tolist() in rows.numbers(of_a), (statement, a.grad.to_numpy())
        assert m.grad[None] == float(of_m), statement
        if executor[1] == "lean" and "add" not in statement:
            assert forward_of(kernel, a, m, given, float(before)) in rows.numbers(of_a), statement


def forward_of(kernel, a, m, given, before):
    """Return the gradient by the array a, computed in forward mode one direction after the other."""
    found = []
    for k in range(len(given)):
        m[None] = before
        with sg.ad.FwdMode(m, a, seed=np.eye(len(given))[k]):
            kernel()
        found.append(m.dual[None])
    return found


# ---- guards ---------------------------------------------------------------------------------------------------------

SINGULAR = {
    "sqrt": ("sg.sqrt(v)", lambda v: 0.5 / np.sqrt(v)),
    "log": ("sg.log(v)", lambda v: 1 / v),
    "pow": ("v ** 0.5", lambda v: 0.5 / np.sqrt(v)),
    "pow by a field": ("v ** w[i, k]", lambda v: 0.5 / np.sqrt(v)),
    "inverse": ("1.0 / v", lambda v: -1 / v**2),
    "asin": ("sg.asin(1.0 - v)", lambda v: -1 / np.sqrt(1 - (1 - v) ** 2)),
    "acos": ("sg.acos(1.0 - v)", lambda v: 1 / np.sqrt(1 - (1 - v) ** 2)),
    "atan2": ("sg.atan2(v, 2.0 * v)", lambda v: 0 * v),
    "rsqrt": ("sg.rsqrt(v)", lambda v: -0.5 * v**-1.5),
    "normalized": ("v * sg.Vector([v, v]).normalized()[0]", lambda v: np.sqrt(0.5) + 0 * v),
    "division": ("v / (v + abs(v))", lambda v: 0 * v),
}
"""Operations of v that are singular at 0 or below it, and their derivatives above."""

GUARDS = {
    "if": """
r = 3.0 * v
if v > 0.0:
    r = {op}""",
    "else": """
r = 0.0
if v <= 0.0:
    r = 3.0 * v
else:
    r = {op}""",
    "elif": """
r = 0.0
if v < -5.0:
    r = 1.0
elif v > 0.0:
    r = {op}
else:
    r = 3.0 * v""",
    "ternary": """
r = {op} if v > 0.0 else 3.0 * v""",
    "and": """
r = 3.0 * v
if v > 0.0 and {op} > -1000.0:
    r = {op}""",
    "or": """
r = {op} if not (v <= 0.0 or {op} < -1000.0) else 3.0 * v""",
    "while": """
r = 3.0 * v
n = 0
while v > 0.0 and n < 1:
    r = {op}
    n += 1""",
    "while, value carried": """
r = 3.0 * v
u = v
while u > 0.0:
    r = {op}
    u = u - 100.0""",
    "range": """
r = 3.0 * v
for _ in range(1 if v > 0.0 else 0):
    r = {op}""",
    "break": """
r = 3.0 * v
for _ in range(3):
    if v <= 0.0:
        break
    r = {op}""",
    "continue": """
r = 3.0 * v
for _ in range(2):
    if v <= 0.0:
        continue
    r = {op}""",
    "return of a function": """
r = guarded_{n}(v, i, k)""",
    "nested": """
r = 3.0 * v
for _ in range(2):
    if v > -9.0:
        if not v > 0.0:
            pass
        else:
            r = {op}""",
}
"""How a program avoids an operation; 3 v where it does."""

LEAVING = {
    "continue of the parallel loop": """
c[i, k] = 3.0 * v
if v <= 0.0:
    continue
c[i, k] = {op}"""
}
POINTS = np.array([0.0, -0.0, -1.0, 0.25, 0.75])


def indented(text, by):
    return "".join(f"{' ' * by}{line}\n" for line in text.strip().splitlines())


def guard_kernel(folder, guard):
    """Return a kernel with a parallel loop for each operation, which runs inside the branch `guard`."""
    text = "import stackgrad as sg\ndef make(x, w, c):\n"
    body = ""
    for k, (op, _) in enumerate(SINGULAR.values()):
        text += f"    @sg.func\n    def guarded_{k}(v, i, k):\n        if v <= 0.0:\n            return 3.0 * v\n"
        text += f"        return {op}\n"
        inner = (GUARDS | LEAVING)[guard].format(op=op, n=k)
        body += f"        for i in range({len(POINTS)}):\n            k = {k}\n            v = x[i, k]\n"
        body += indented(inner, 12)
        body += "            c[i, k] = r\n" if guard in GUARDS else ""
    return rows.module(folder, f"{text}    @sg.kernel\n    def run():\n{body}    return run\n").make


@pytest.mark.rotating
@pytest.mark.parametrize("guard", [*GUARDS, *LEAVING])
@pytest.mark.parametrize("executor", rows.GUARDED, ids="-".join)
def test_nan_crosses_no_guard(executor, guard, monkeypatch, tmp_path):
    fp = rows.start(monkeypatch, executor)
    shape = (len(POINTS), len(SINGULAR))
    x, c = (sg.field(fp, shape, needs_grad=True) for _ in range(2))
    w = sg.field(fp, shape)
    w.fill(0.5)
    x.from_numpy(np.repeat(POINTS[:, None], shape[1], axis=1).astype(fp.dtype))
    run = guard_kernel(tmp_path, guard)(x, w, c)
    above = np.maximum(POINTS, 0.1)
    wanted = np.stack([np.where(POINTS > 0, slope(above), 3.0) for _, slope in SINGULAR.values()], axis=1)
    run()
    c.grad.fill(1.0)
    run.grad()
    check(x.grad.to_numpy(), wanted, fp)
    if executor[1] == "lean":
        with sg.ad.FwdMode(c, x, seed=np.ones(shape)):
            run()
        check(c.dual.to_numpy(), wanted, fp)


def check(found, wanted, fp):
    assert np.isfinite(found).all(), found
    assert np.allclose(found, wanted, rtol=1e4 * np.finfo(fp.dtype).eps, atol=1e2 * np.finfo(fp.dtype).eps), found
