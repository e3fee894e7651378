"""This module writes a finding as a script that needs only the peer and NumPy and shows if the peer is wrong.

The right gradient stands in the script as numbers. The script also proves it: it differentiates the forward pass of the
peer itself by central differences, and ends with status 2 if the numbers do not agree with these.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....compiler.ir.types import f64
from ..model import Program
from ..model import nodes as m
from ..model.dialects import DIALECTS
from ..model.source import arrays_given, definitions, start_line
from .evidence import Evidence

_JUDGES = {"dual": "dual numbers", "jax": "JAX"}

_HEAD = '''\
"""{title}.

{story}
Run it with Python that has {package} and NumPy. Exit status: 0 the gradient of {package} is right, 1 it is wrong,
2 RIGHT does not agree with central differences of the forward pass of {package}, 3 {package} raised an exception.
"""
import sys
from importlib.metadata import version

import numpy as np
import {package} as {alias}

{start}
'''

_FOOT = '''


def fill(before):
    for name, array in ARRAYS.items():
        array.from_numpy(np.array(before[name], KINDS[name]))


def numbers(array):
    return np.array(array.to_numpy(), float)


def loss(before):
    fill(before)
    launch()
    return sum((np.array(seed) * numbers(ARRAYS[name])).sum() for name, seed in SEEDS.items())


def differences(name, step=1e-5):
    """Of the forward pass alone: (loss(v + step) - loss(v - step)) / 2 step for each number v of the array."""
    found = np.zeros(np.shape(BEFORE[name]))
    for at in np.ndindex(found.shape):
        ends = []
        for h in (step, -step):
            moved = {n: np.array(v, KINDS[n]) for n, v in BEFORE.items()}
            moved[name][at] += h
            ends.append(loss(moved))
        found[at] = (ends[0] - ends[1]) / (2 * step)
    return found


def gradient():
    """What the package says: forward, seeds, backward."""
    fill(BEFORE)
    launch()
    for name in RIGHT:
        seed = np.broadcast_to(SEEDS.get(name, 0.0), np.shape(BEFORE[name]))
        ARRAYS[name].grad.from_numpy(np.array(seed, KINDS[name]))
    launch_backward()
    return {name: numbers(ARRAYS[name].grad) for name in RIGHT}


def close(found, right):
    return np.allclose(found, right, rtol=1e-5, atol=1e-7)


print(PACKAGE, version(PACKAGE))
measured = {name: differences(name) for name in RIGHT}
try:
    found = gradient()
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    sys.exit(3)
status = 0
for name, right in RIGHT.items():
    agrees = close(found[name], right)
    status = max(status, 0 if agrees else 1)
    print(f"d loss / d {name}: right {right}, {PACKAGE} {found[name].tolist()}: {'right' if agrees else 'WRONG'}")
    print(f"    central differences: {measured[name].tolist()}")
if not all(close(measured[name], RIGHT[name]) for name in RIGHT):
    print("RIGHT is not what central differences give")
    sys.exit(2)
print("wrong" if status else "right")
sys.exit(status)
'''


def script(program: Program, peer: str, known: Evidence, title: str, version: str) -> str:
    """Return the text of a script that shows a peer's wrong gradient of a program.

    Args:
        program: the program, all of whose reals are in double precision.
        peer: the name of the peer.
        known: the right gradient.
        title: the first line of the script's docstring.
        version: the version of the peer.
    """
    dialect = DIALECTS[peer]
    head = _HEAD.format(
        title=title,
        story=_story(peer, version, known),
        package=dialect.package,
        alias=dialect.alias,
        start=start_line(program, peer).replace(f"getattr({dialect.alias}, arch)", f"{dialect.alias}.cpu"),
    )
    kernel = ["", "", definitions(program, peer), "", *_data(program, peer, known)]
    return "\n".join([head, *_memory(program, peer), *kernel, *_launches(program, peer)]) + _FOOT


def _story(peer: str, version: str, known: Evidence) -> str:
    judges = " and ".join(["the interpreter of stackgrad", *(_JUDGES[j] for j in known.judges)])
    return (
        f"Found and made small by `stackgrad fuzz --peers`, with {peer} {version}. RIGHT is what\n"
        f"{judges} give alike; the script compares it with central differences\n"
        f"of the forward pass of {peer} itself.\n"
    )


def _memory(program: Program, peer: str) -> Iterator[str]:
    a = DIALECTS[peer].alias
    for field in program.fields:
        form = "ndarray" if field.argument else "field"
        grad = ", needs_grad=True" if field.grad else ""
        end = f"{a}.{field.dtype}, shape={field.shape}{grad})"
        if field.argument and field.element:
            kind = "vector" if len(field.element) == 1 else "matrix"
            entries = f"{', '.join(map(str, field.element))}, {a}.{field.dtype}"
            yield f"{field.name} = {a}.ndarray({a}.types.{kind}({entries}), shape={field.shape}{grad})"
        elif not field.element:
            yield f"{field.name} = {a}.{form}({end}"
        else:
            owner = "Vector" if len(field.element) == 1 else "Matrix"
            yield f"{field.name} = {a}.{owner}.{form}({', '.join(map(str, field.element))}, {end}"


def _data(program: Program, peer: str, known: Evidence) -> Iterator[str]:
    arrays, seeds = program.arrays(), program.seeds()
    yield f'PACKAGE = "{DIALECTS[peer].package}"'
    yield f"ARRAYS = {{{', '.join(f'{_quoted(f.name)}: {f.name}' for f in program.fields)}}}"
    yield f"KINDS = {{{', '.join(f'{_quoted(f.name)}: {_quoted(str(f.dtype.dtype))}' for f in program.fields)}}}"
    yield "# Content before the launch; d loss / d content after it; d loss / d content before it."
    yield f"BEFORE = {_table({f.name: arrays[f.name] for f in program.fields})}"
    yield f"SEEDS = {_table({n: s for n, s in seeds.items() if np.any(s)})}"
    yield f"RIGHT = {_table(known.right)}"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _table(arrays: dict[str, np.ndarray] | object) -> str:
    assert isinstance(arrays, dict)
    return "{" + ", ".join(f"{_quoted(name)}: {a.tolist()!r}" for name, a in arrays.items()) + "}"


def _launches(program: Program, peer: str) -> Iterator[str]:
    given = [*(_given(program, peer, p) for p in program.arguments), *(f.name for f in arrays_given(program))]
    args = ", ".join(given)
    for name, call in (("launch", program.kernel.name), ("launch_backward", f"{program.kernel.name}.grad")):
        yield ""
        yield ""
        yield f"def {name}():"
        yield f"    {call}({args})"


def _given(program: Program, peer: str, param: m.Param) -> str:
    known = program.scalars()
    numbers = [repr(known[entry]) for entry in param.entries]
    a = DIALECTS[peer].alias
    return f"{a}.Vector([{', '.join(numbers)}], {a}.{param.dtype})" if param.shape else numbers[0]


def can_be_written(program: Program) -> bool:
    """Return True if a script can express the finding's program: f64 only, no structs, views or offsets."""
    plain = all(not f.struct and not f.offset and not f.views for f in program.fields)
    return plain and all(not f.dtype.is_real or f.dtype == f64 for f in program.fields)
