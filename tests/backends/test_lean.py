"""sin and cos for GPUs: their errors, run on the host; what becomes of huge arguments; no branch in their code."""
from __future__ import annotations

import numpy as np
import pytest
from lanes_support import evaluate
from stackgrad.backends.base import Options
from stackgrad.backends.cuda import ptx
from stackgrad.backends.llvm.polynomials.lean import EXACT, LEAN
from stackgrad.compiler.ir.ops import OPS
from stackgrad.compiler.ir.parser import parse_kernel

each = pytest.mark.parametrize("name", sorted(LEAN))
RIGHT = {"sin": np.sin, "cos": np.cos}


def results(name: str, x: np.ndarray) -> np.ndarray:
    return evaluate(name, x, lanes=0, fused=True, short=True)


def arguments(most: float) -> np.ndarray:
    """Uniform, by magnitude, and the neighbours of multiples of pi/2."""
    rng = np.random.default_rng(8)
    near = np.arange(0, most, np.pi / 2)[:30000].astype(np.float32)
    positive = np.concatenate([
        rng.uniform(0, most, 1 << 18), rng.uniform(0, 7, 1 << 18), most * 10.0 ** rng.uniform(-40, 0, 1 << 16), near,
        np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf)), [0.0, most],
    ]).astype(np.float32)  # fmt: skip
    positive = positive[positive <= most]
    return np.concatenate([positive, -positive])


@each
def test_errors_are_within_those_of_the_table(name):
    x = arguments(EXACT)
    got, want = results(name, x), RIGHT[name](x.astype(np.longdouble))
    ulps = np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))
    ulps[want == 0] = np.where(got[want == 0] == 0, 0, np.inf)
    assert float(ulps.max()) <= OPS[name].ulps, x[ulps.argmax()]
    assert np.abs(got).max() <= 1


@each
def test_beyond_it_is_of_an_argument_within_an_ulp(name):
    """Its phase is off by less than an ulp of x, and by what 4 ulps of 1 mean."""
    x = arguments(float(2**22))
    x = x[np.abs(x) > EXACT]
    error = np.abs(results(name, x) - RIGHT[name](x.astype(np.longdouble)))
    assert np.all(error <= np.spacing(np.abs(x)))


@each
def test_whatever_the_argument(name):
    """All results lie in [-1, 1]; NaN for what has no sine; the sign of zero is kept."""
    x = np.arange(0, 1 << 32, 1 << 12, dtype=np.uint64).astype(np.uint32).view(np.float32)
    got = results(name, x)
    assert np.all(np.isnan(got) == ~np.isfinite(x))
    assert np.nanmax(np.abs(got)) <= 1
    ends = results(name, np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32))
    assert np.isnan(ends[:3]).all() and (ends[3:] == RIGHT[name](0.0)).all()
    assert name == "cos" or list(np.signbit(ends[3:])) == [False, True]


@each
def test_there_is_no_branch_and_no_library(name):
    kernel = parse_kernel(f"""kernel k(x: f32[1]) {{
      serial {{
        %0: i32 = const 0
        %1: f32 = load x[%0]
        %2: f32 = {name} %1
        store x[%0], %2
      }}
    }}""")
    lean, precise = (ptx.ptx(kernel, options=Options(precise=exact)) for exact in (False, True))
    assert "call" not in lean and ".local" not in lean
    assert lean.count("bra") < precise.count("bra")  # what is left looks whether the kernel may run
