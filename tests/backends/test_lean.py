"""Test sin and cos for GPUs: their errors, measured on the host, and their code."""

from __future__ import annotations

import math

import numpy as np
import pytest
from lanes_support import TOGETHER, evaluate
from stackgrad.backends.base import Options
from stackgrad.backends.codegen.polynomials.gpu_trigonometric import FORMS, LEAN, form_within
from stackgrad.backends.cuda import ptx
from stackgrad.compiler.ir.ops import OPS
from stackgrad.compiler.ir.parser import parse_kernel

each = pytest.mark.parametrize("name", sorted(LEAN))
RIGHT = {"sin": np.sin, "cos": np.cos}


def results(name: str, x: np.ndarray, reach: float = math.inf) -> np.ndarray:
    return evaluate(name, x, lanes=0, fused=True, short=True, reach=reach)


def ulps(name: str, x: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Return the errors of results in ulps."""
    want = RIGHT[name](x.astype(np.float64)).astype(np.longdouble)
    found = np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))
    found[want == 0] = np.where(got[want == 0] == 0, 0, np.inf)
    return found


def arguments(most: float) -> np.ndarray:
    """Return arguments up to `most`: uniform ones, some of each magnitude, and the neighbors of multiples of pi/2."""
    rng = np.random.default_rng(8)
    near = np.arange(0, min(most, 47000), np.pi / 2).astype(np.float32)
    positive = np.concatenate(
        [
            rng.uniform(0, most, 1 << 18),
            rng.uniform(0, 7, 1 << 18),
            most * 10.0 ** rng.uniform(-40, 0, 1 << 16),
            near,
            np.nextafter(near, np.float32(0)),
            np.nextafter(near, np.float32(np.inf)),
            [0.0, most],
        ]
    ).astype(np.float32)
    positive = positive[positive <= most]
    return np.concatenate([positive, -positive])


@each
@pytest.mark.parametrize("most", [float(2**15), float(2**22), 3.4e38])
def test_errors_are_within_those_of_the_table(name, most):
    x = arguments(most)
    got = results(name, x)
    errors = ulps(name, x, got)
    assert float(errors.max()) <= OPS[name].ulps, x[errors.argmax()]
    assert np.abs(got).max() <= 1


ALL_FORMS = [(name, form) for name in sorted(FORMS) for form in FORMS[name]]


@pytest.mark.rotating
@pytest.mark.parametrize("name, form", ALL_FORMS, ids=[f"{name} {form.name}" for name, form in ALL_FORMS])
def test_forms_are_right_up_to_their_limits(name, form):
    """Every 11th number of the upper octaves, all near the limit, and the small ones."""
    top = np.float32(form.limit).view(np.int32)
    assert np.float32(form.limit) <= form.limit
    bits = np.concatenate([np.arange(top - (5 << 23), top, 11), np.arange(top - 4096, top + 1)])
    x = np.concatenate([bits.astype(np.int32).view(np.float32), arguments(float(np.float32(form.limit)))])
    x = np.concatenate([x, -x])
    got = results(name, x, form.limit)
    errors = ulps(name, x, got)
    assert float(errors.max()) <= OPS[name].ulps, x[errors.argmax()]
    assert np.abs(got).max() <= 1
    ends = results(name, np.array([np.nan, 0.0, -0.0], np.float32), form.limit)
    assert np.isnan(ends[0]) and (ends[1:] == RIGHT[name](0.0)).all()
    assert name == "cos" or list(np.signbit(ends[1:])) == [False, True]


@pytest.mark.parametrize("together", TOGETHER)
@pytest.mark.parametrize("most, reach", [(float(2**15), float(2**15)), (float(2**15), math.inf), (3.4e38, math.inf)])
def test_both_together_are_as_right(together, most, reach):
    name = together.split()[0]
    x = arguments(most)
    got = results(together, x, reach)
    errors = ulps(name, x, got)
    assert float(errors.max()) <= OPS[name].ulps, x[errors.argmax()]
    assert np.abs(got).max() <= 1
    ends = results(together, np.array([np.nan, 0.0, -0.0], np.float32), reach)
    assert np.isnan(ends[0]) and (ends[1:] == RIGHT[name](0.0)).all()
    assert name == "cos" or list(np.signbit(ends[1:])) == [False, True]


def test_the_shortest_form_is_taken():
    for name, forms in FORMS.items():
        for form in forms:
            assert form_within(name, form.limit) is form
            assert form_within(name, form.limit * 1.001) is not form
        assert form_within(name, math.inf) is None


@each
def test_what_has_no_sine(name):
    """NaN for infinities; the sign of zero is kept."""
    ends = results(name, np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32))
    assert np.isnan(ends[:3]).all() and (ends[3:] == RIGHT[name](0.0)).all()
    assert name == "cos" or list(np.signbit(ends[3:])) == [False, True]


@each
def test_the_library_stands_behind_a_call(name):
    """Its code takes no registers and no room where it is not needed."""
    kernel = parse_kernel(f"""kernel k(x: f32[1]) {{
      serial {{
        %0: i32 = const 0
        %1: f32 = load x[%0]
        %2: f32 = {name} %1
        store x[%0], %2
      }}
    }}""")
    lean, precise = (ptx.ptx(kernel, options=Options(precise=exact, bounds=False)) for exact in (False, True))
    entry = lean[lean.index(".entry") :]
    entry = entry[: entry.index("\n}")]
    assert entry.count("call.uni") == 1 and ".local" not in entry
    assert "call.uni" not in precise and ".local" in precise
