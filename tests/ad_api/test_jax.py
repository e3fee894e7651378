"""Test `sg.jax.wrap`: kernels under JAX's grad, jit and vmap, against the same functions written in JAX."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stackgrad as sg

sys.path.append(str(Path(__file__).parent))
from wrapped_kernels import Scaled, gather, in_place, noise, numbers, recurrence  # noqa: E402

jax.config.update("jax_enable_x64", True)
X, W = jnp.array([0.1, 0.5, 0.9]), jnp.array([1.1, 0.9, 0.7])


def plain(x: Any, w: Any, n: int) -> Any:
    for k in range(n):
        x = jnp.sin(x * w[k])
    return x


def test_value_and_gradient() -> None:
    f = sg.jax.wrap(recurrence, out="y")
    np.testing.assert_allclose(f(X, W, 3), plain(X, W, 3), 1e-13)
    found = jax.grad(lambda x, w: (f(x, w, 3) ** 2).sum(), (0, 1))(X, W)
    want = jax.grad(lambda x, w: (plain(x, w, 3) ** 2).sum(), (0, 1))(X, W)
    for a, b in zip(found, want):
        np.testing.assert_allclose(a, b, 1e-12)


def test_jit_and_vmap() -> None:
    f = sg.jax.wrap(recurrence, out=["y"])
    step = jax.jit(jax.grad(lambda x: f(x, W, n=2).sum()))
    np.testing.assert_allclose(step(X), jax.grad(lambda x: plain(x, W, 2).sum())(X), 1e-12)
    many = jnp.stack([X, 2 * X])
    np.testing.assert_allclose(jax.vmap(lambda x: f(x, W, 3))(many), plain(many, W, 3), 1e-13)


def test_chained_with_other_functions() -> None:
    f = sg.jax.wrap(recurrence, out="y")
    found = jax.grad(lambda x: jnp.exp(f(jnp.cos(x), W, 2)).sum())(X)
    np.testing.assert_allclose(found, jax.grad(lambda x: jnp.exp(plain(jnp.cos(x), W, 2)).sum())(X), 1e-12)


def test_integers_and_several_results() -> None:
    at = jnp.array([2, 0, 2, 1], jnp.int32)
    f = sg.jax.wrap(gather, out={"y": lambda x, at: (at.shape, x.dtype), "z": lambda x, at: ((len(at), 2), sg.f64)})
    y, z = f(X, at)
    np.testing.assert_allclose(y, X[at] ** 2)
    np.testing.assert_allclose(z, jnp.stack([3 * X[at], jnp.ones(4)], 1))
    found = jax.grad(lambda x: (f(x, at)[0] * jnp.arange(4.0)).sum() + f(x, at)[1].sum())(X)
    want = jax.grad(lambda x: (x[at] ** 2 * jnp.arange(4.0)).sum() + 3 * x[at].sum())(X)
    np.testing.assert_allclose(found, want, 1e-12)


def test_single_precision() -> None:
    f = sg.jax.wrap(recurrence, out="y")
    x, w = X.astype(jnp.float32), W.astype(jnp.float32)
    assert f(x, w, 2).dtype == jnp.float32
    want = jax.grad(lambda x: plain(x, w, 2).sum())(x)
    np.testing.assert_allclose(jax.grad(lambda x: f(x, w, 2).sum())(x), want, 1e-5)


def test_methods() -> None:
    s = Scaled(4.0)
    f = sg.jax.wrap(s.apply, out="y")
    np.testing.assert_allclose(f(X), 4 * X)
    np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(X), [4, 4, 4])


def test_mistakes() -> None:
    with pytest.raises(sg.ArgumentError, match="no parameter 'z'"):
        sg.jax.wrap(recurrence, out="z")
    with pytest.raises(sg.ArgumentError, match="has no results"):
        sg.jax.wrap(recurrence, out=[])
    with pytest.raises(sg.ArgumentError, match="is no kernel"):
        sg.jax.wrap(plain, out="y")
    with pytest.raises(sg.ArgumentError, match=r"it takes x, w, n, and returns y"):
        sg.jax.wrap(recurrence, out="y")(X, W)


@pytest.mark.parametrize(("kernel", "words"), [(noise, "draws random numbers"), (in_place, "stores to its argument x")])
def test_kernels_that_are_no_functions(kernel: Any, words: str) -> None:
    with pytest.raises(Exception, match=words):
        jax.block_until_ready(sg.jax.wrap(kernel, out="y")(X))


def test_kernels_without_arrays() -> None:
    with pytest.raises(sg.ArgumentError, match="nothing says which shape n has"):
        sg.jax.wrap(numbers, out="n")()


def test_a_kernel_of_no_grad_has_the_gradient_zero() -> None:
    @sg.kernel
    def double(a: sg.types.ndarray(sg.f64, 1), b: sg.types.ndarray(sg.f64, 1)):
        for i in a:
            b[i] = 2.0 * a[i]

    for kernel, slope in ((double, 2.0), (sg.ad.no_grad(double), 0.0)):
        f = sg.jax.wrap(kernel, out="b")
        assert np.asarray(f(jnp.ones(3))).tolist() == [2.0] * 3
        assert np.asarray(jax.grad(lambda a, f=f: f(a).sum())(jnp.ones(3))).tolist() == [slope] * 3
