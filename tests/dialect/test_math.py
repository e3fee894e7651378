"""`sg.math`: values against NumPy, gradients against central differences, on each executor, and on the host."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from gradients import check_function
from stackgrad import math as m

# ---- functions of numbers -------------------------------------------------------------------------------------------


@sg.func
def clamped(x):
    return m.clamp(x, 0.0, 1.0)


@sg.func
def smooth(x):
    return m.smoothstep(-1.0, 2.0, x)


NUMBERS: list[tuple[str, Any, Callable[..., float], tuple[float, ...]]] = [
    ("clamp", clamped, lambda x: min(1.0, max(0.0, x)), (0.25,)),
    ("clamp_above", clamped, lambda x: min(1.0, max(0.0, x)), (1.25,)),
    ("mix", m.mix, lambda x, y, a: x * (1 - a) + y * a, (1.5, -2.0, 0.3)),
    ("step", m.step, lambda edge, x: float(x >= edge), (0.5, 0.7)),
    ("smoothstep", smooth, lambda x: ((x + 1) / 3) ** 2 * (3 - 2 * (x + 1) / 3), (0.4,)),
    ("fract", m.fract, lambda x: x - math.floor(x), (-1.3,)),
    ("sign", m.sign, lambda x: math.copysign(1, x), (-1.3,)),
    ("mod", m.mod, lambda x, y: x - y * math.floor(x / y), (-5.3, 2.0)),
    ("log2", m.log2, math.log2, (3.7,)),
    ("degrees", m.degrees, math.degrees, (0.7,)),
    ("radians", m.radians, math.radians, (33.0,)),
    ("atan2", m.atan2, math.atan2, (0.7, -0.4)),
    ("pow", m.pow, math.pow, (1.7, -0.4)),
    ("tanh", m.tanh, math.tanh, (0.6,)),
    ("sqrt", m.sqrt, math.sqrt, (0.6,)),
    ("exp", m.exp, math.exp, (0.6,)),
    ("log", m.log, math.log, (0.6,)),
    ("sin", m.sin, math.sin, (0.6,)),
    ("cos", m.cos, math.cos, (0.6,)),
    ("tan", m.tan, math.tan, (0.6,)),
    ("acos", m.acos, math.acos, (0.6,)),
    ("asin", m.asin, math.asin, (0.6,)),
    ("min", m.min, min, (0.6, 0.9)),
    ("max", m.max, max, (0.6, 0.9)),
    ("floor", m.floor, math.floor, (-0.6,)),
    ("ceil", m.ceil, math.ceil, (-0.6,)),
    ("round", m.round, round, (2.7,)),
]


@pytest.mark.usefixtures("arch")
@pytest.mark.parametrize(("f", "python", "args"), [pytest.param(*row[1:], id=row[0]) for row in NUMBERS])
def test_functions_of_numbers(f, python, args) -> None:
    check_function(f, args, python(*args))


@pytest.mark.parametrize(("f", "python", "args"), [pytest.param(*row[1:], id=row[0]) for row in NUMBERS])
def test_functions_of_numbers_on_the_host(f, python, args) -> None:
    assert f(*args) == pytest.approx(python(*args), rel=1e-12)


@pytest.mark.usefixtures("arch")
def test_functions_of_numbers_work_by_element() -> None:
    x = np.array([-0.7, 0.3, 1.6])
    check_function(clamped, [x], np.clip(x, 0, 1))
    check_function(m.fract, [x], x - np.floor(x))
    check_function(m.mix, [x, x[::-1], 0.25], 0.75 * x + 0.25 * x[::-1])
    check_function(m.sign, [x], np.sign(x))
    check_function(m.degrees, [x], np.degrees(x))
    check_function(m.sin, [x], np.sin(x))


def test_nan_and_infinity() -> None:
    sg.init(arch="reference", default_fp=sg.f64)
    x, y = sg.field(sg.f64, 3), sg.field(sg.i32, (3, 2))
    x.from_numpy(np.array([m.nan, -m.inf, 1.0]))

    @sg.kernel
    def k():
        for i in x:
            y[i, 0] = m.isnan(x[i])
            y[i, 1] = m.isinf(x[i])

    k()
    assert y.to_numpy().tolist() == [[1, 0], [0, 1], [0, 0]]
    assert (m.pi, m.e) == (math.pi, math.e)


@pytest.mark.usefixtures("arch")
@pytest.mark.parametrize("dtype", ["i32", "u32", "i64", "u64"])
def test_counts_of_bits(dtype) -> None:
    kind = getattr(sg, dtype)
    x, y = sg.field(kind, 4), sg.field(sg.i32, (4, 3))
    values = [0, 1, 40, 2 ** (kind.bits - 1) - 1]
    x.from_numpy(np.array(values, kind.dtype))

    @sg.kernel
    def k():
        for i in x:
            y[i, 0] = m.popcnt(x[i])
            y[i, 1] = m.clz(x[i])
            y[i, 2] = m.ffs(x[i])

    k()
    for row, v in zip(y.to_numpy().tolist(), values):
        assert row == [v.bit_count(), kind.bits - v.bit_length(), (v & -v).bit_length()]


# ---- vectors --------------------------------------------------------------------------------------------------------

U, V = np.array([0.6, -0.48, 0.64]), np.array([1.5, 0.2, -0.7])


@sg.func
def bent(x, n):
    return m.refract(x, n, 0.8)


@sg.func
def reflected_totally(x, n):
    return m.refract(x, n, 5.0)


def refracted(x: np.ndarray, n: np.ndarray, eta: float) -> np.ndarray:
    along = x @ n
    k = 1 - eta**2 * (1 - along**2)
    return eta * x - (eta * along + np.sqrt(k)) * n if k >= 0 else 0 * x


@pytest.mark.usefixtures("arch")
@pytest.mark.parametrize(
    ("f", "python"),
    [
        pytest.param(m.dot, np.dot, id="dot"),
        pytest.param(m.cross, np.cross, id="cross"),
        pytest.param(m.distance, lambda x, y: np.linalg.norm(x - y), id="distance"),
        pytest.param(m.reflect, lambda x, n: x - 2 * (x @ n) * n, id="reflect"),
        pytest.param(bent, lambda x, n: refracted(x, n, 0.8), id="refract"),
        pytest.param(reflected_totally, lambda x, n: refracted(x, n, 5.0), id="refract_nothing"),
    ],
)
def test_functions_of_two_vectors(f, python) -> None:
    check_function(f, [V, U], python(V, U))


@pytest.mark.usefixtures("arch")
def test_functions_of_one_vector() -> None:
    check_function(m.length, [V], np.linalg.norm(V))
    check_function(m.normalize, [V], V / np.linalg.norm(V))
    check_function(m.vdir, [0.7], [math.cos(0.7), math.sin(0.7)])


def test_functions_of_vectors_on_the_host() -> None:
    sg.init(arch="reference", default_fp=sg.f64)
    u, v = sg.Vector(U.tolist()), sg.Vector(V.tolist())
    assert m.dot(u, v) == pytest.approx(U @ V)
    np.testing.assert_allclose(m.reflect(v, u).to_numpy(), V - 2 * (V @ U) * U)
    np.testing.assert_allclose(m.normalize(v).to_numpy(), V / np.linalg.norm(V))
    np.testing.assert_allclose(m.cross(v, u).to_numpy(), np.cross(V, U))
    np.testing.assert_allclose(m.rotation2d(0.3).to_numpy()[0], [math.cos(0.3), -math.sin(0.3)])


# ---- complex numbers ------------------------------------------------------------------------------------------------

Z, W = complex(0.8, -1.3), complex(-0.4, 0.9)


def parts(z: complex) -> list[float]:
    return [z.real, z.imag]


@pytest.mark.usefixtures("arch")
@pytest.mark.parametrize(
    ("f", "python"),
    [
        pytest.param(m.cconj, lambda z: z.conjugate(), id="cconj"),
        pytest.param(m.cinv, lambda z: 1 / z, id="cinv"),
        pytest.param(m.csqrt, cmath.sqrt, id="csqrt"),
        pytest.param(m.cexp, cmath.exp, id="cexp"),
        pytest.param(m.clog, cmath.log, id="clog"),
    ],
)
def test_complex_functions(f, python) -> None:
    check_function(f, [parts(Z)], parts(python(Z)))


@pytest.mark.usefixtures("arch")
def test_complex_operators() -> None:
    check_function(m.cmul, [parts(Z), parts(W)], parts(Z * W))
    check_function(m.cdiv, [parts(Z), parts(W)], parts(Z / W))
    check_function(m.cpow, [parts(Z), 2.5], parts(Z**2.5))


# ---- matrices -------------------------------------------------------------------------------------------------------


@sg.func
def vector_types(x):
    a = m.vec2(x, 1.0)
    b = m.vec3(a, 2.0)
    c = m.vec4(x)
    return m.mat2(a, a.yx) @ b.xy + c.xy + m.vec2(m.ivec2(1, 2)) + m.uvec3(1, 2, 3).xy


@pytest.mark.usefixtures("arch")
def test_types() -> None:
    check_function(vector_types, [0.5], [0.5 * 0.5 + 1 + 0.5 + 2, 0.5 + 0.5 + 0.5 + 4])


A3 = np.array([[2.0, -0.5, 0.3], [0.1, 1.5, 0.7], [-0.4, 0.2, 1.1]])


@pytest.mark.usefixtures("arch")
@pytest.mark.parametrize("n", [2, 3])
def test_determinant_and_inverse(n) -> None:
    a = A3[:n, :n]
    check_function(m.determinant, [a], np.linalg.det(a))
    check_function(m.inverse, [a], np.linalg.inv(a))


def rows(axis: str, angle: float) -> np.ndarray:
    """The rotation about an axis for row vectors, 4×4."""
    c, s, made = math.cos(angle), math.sin(angle), np.eye(4)
    i, j = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
    made[i, i], made[i, j], made[j, i], made[j, j] = c, s, -s, c
    return made


@pytest.mark.usefixtures("arch")
def test_rotations() -> None:
    c, s = math.cos(0.7), math.sin(0.7)
    check_function(m.rotation2d, [0.7], [[c, -s], [s, c]])
    a = V / np.linalg.norm(V)
    k = np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])
    expected = np.eye(4)
    expected[:3, :3] = c * np.eye(3) + (1 - c) * np.outer(a, a) - s * k
    check_function(m.rot_by_axis, [V, 0.7], expected)
    np.testing.assert_allclose(expected @ np.r_[a, 1], np.r_[a, 1])
    turned = rows("z", 0.3) @ rows("x", 0.2) @ rows("y", 0.9)
    check_function(m.rot_yaw_pitch_roll, [0.9, 0.2, 0.3], turned)


@pytest.mark.usefixtures("arch")
def test_rotation_about_three_axes_takes_the_angles_in_the_order_of_the_dialect() -> None:
    """The documented example of the dialect, to its eight digits."""
    check_function(
        m.rotation3d,
        [0.52, -0.785, 1.046],
        [
            [0.05048351, -0.61339645, -0.78816002, 0.0],
            [0.65833154, 0.61388511, -0.4355969, 0.0],
            [0.75103329, -0.49688014, 0.4348093, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ],
        rtol=1e-7,
    )


@sg.func
def identity_of_three(x):
    return x * m.eye(3)


@pytest.mark.usefixtures("arch")
def test_affine_maps() -> None:
    moved = np.eye(4)
    moved[:3, 3] = 1.0, 2.0, 3.0
    check_function(m.translate, [1.0, 2.0, 3.0], moved)
    check_function(m.scale, [1.0, 2.0, 3.0], np.diag([1.0, 2.0, 3.0, 1.0]))
    check_function(identity_of_three, [2.0], 2 * np.eye(3))
