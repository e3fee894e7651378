"""Define `sg.math`: constants, short vector types, and functions on numbers, vectors and matrices.

Invariant: every function is written in the kernel language, so that it is differentiable where its formula is, and
gives the same result on each executor. Outside of kernels it works on Python numbers and on host vectors. Element-wise
functions take numbers, vectors or matrices. A function raises an error only for shapes that do not fit.
"""

from __future__ import annotations

import math as _python
from typing import Any

from ..compiler.frontend.functions import EXPORTS, func
from ..compiler.ir.types import u32
from ..data.values import Matrix as _Matrix
from ..data.values import Vector as _Vector
from ..types import matrix, vector

_FUNCTIONS: Any = EXPORTS
acos, asin, atan2, ceil, cos = (_FUNCTIONS[name] for name in ("acos", "asin", "atan2", "ceil", "cos"))
clz, exp, ffs, floor, isinf, isnan = (_FUNCTIONS[name] for name in ("clz", "exp", "ffs", "floor", "isinf", "isnan"))
log, max, min, popcnt, pow = (_FUNCTIONS[name] for name in ("log", "max", "min", "popcnt", "pow"))  # noqa: A001
round, sin, sqrt, tan, tanh = (_FUNCTIONS[name] for name in ("round", "sin", "sqrt", "tan", "tanh"))  # noqa: A001
abs = _FUNCTIONS["abs"]  # noqa: A001
cast, sgn = (_FUNCTIONS[name] for name in ("cast", "sgn"))

Matrix: Any = _Matrix
Vector: Any = _Vector

e = _python.e
"""Euler's number e = 2.71828..."""
pi = _python.pi
"""The number π = 3.14159..."""
tau = _python.tau
"""The number 2π = 6.28318..."""
inf = _python.inf
"""Positive infinity."""
nan = _python.nan
"""Not a number, which is the result of an operation without a meaning."""

vec2, vec3, vec4 = vector(2, float), vector(3, float), vector(4, float)
ivec2, ivec3, ivec4 = vector(2, int), vector(3, int), vector(4, int)
uvec2, uvec3, uvec4 = vector(2, u32), vector(3, u32), vector(4, u32)
mat2, mat3, mat4 = matrix(2, 2, float), matrix(3, 3, float), matrix(4, 4, float)

_DEGREES, _RADIANS, _LN2 = 180.0 / pi, pi / 180.0, 0.6931471805599453

__all__ = [
    "abs",
    "acos",
    "asin",
    "atan2",
    "cconj",
    "cdiv",
    "ceil",
    "cexp",
    "cinv",
    "clamp",
    "clog",
    "clz",
    "cmul",
    "cos",
    "cpow",
    "cross",
    "csqrt",
    "degrees",
    "determinant",
    "distance",
    "dot",
    "e",
    "exp",
    "eye",
    "ffs",
    "floor",
    "fract",
    "inf",
    "inverse",
    "isinf",
    "isnan",
    "ivec2",
    "ivec3",
    "ivec4",
    "length",
    "log",
    "log2",
    "mat2",
    "mat3",
    "mat4",
    "max",
    "min",
    "mix",
    "mod",
    "nan",
    "normalize",
    "pi",
    "popcnt",
    "pow",
    "radians",
    "reflect",
    "refract",
    "rot_by_axis",
    "rot_yaw_pitch_roll",
    "rotation2d",
    "rotation3d",
    "round",
    "scale",
    "sign",
    "sin",
    "smoothstep",
    "sqrt",
    "step",
    "tan",
    "tanh",
    "tau",
    "translate",
    "uvec2",
    "uvec3",
    "uvec4",
    "vdir",
    "vec2",
    "vec3",
    "vec4",
]

# ---- element-wise ---------------------------------------------------------------------------------------------------


@func
def clamp(x: Any, xmin: Any, xmax: Any) -> Any:
    """Return min(xmax, max(xmin, x)). At a bound the derivative is that of `x`."""
    return min(xmax, max(xmin, x))


@func
def mix(x: Any, y: Any, a: Any) -> Any:
    """Return the linear interpolation x·(1 - a) + y·a."""
    return x * (1.0 - a) + y * a


@func
def step(edge: Any, x: Any) -> Any:
    """Return 1.0 where x >= edge, else 0.0. The derivative is 0."""
    return cast(x >= edge, float)


@func
def smoothstep(edge0: Any, edge1: Any, x: Any) -> Any:
    """Return 3t² - 2t³ with t = (x - edge0)/(edge1 - edge0), clamped to [0, 1]."""
    t = clamp((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


@func
def fract(x: Any) -> Any:
    """Return x - floor(x), which lies in [0, 1). The derivative is 1."""
    return x - floor(x)


@func
def sign(x: Any) -> Any:
    """Return -1.0, 0.0 or 1.0, the sign of x. The derivative is 0."""
    return sgn(x * 1.0)


@func
def mod(x: Any, y: Any) -> Any:
    """Return x - y·floor(x/y), the remainder with the sign of y."""
    return x - y * floor(x / y)


@func
def log2(x: Any) -> Any:
    """Return the logarithm of x to base 2."""
    return log(x) / _LN2


@func
def degrees(x: Any) -> Any:
    """Convert radians to degrees."""
    return x * _DEGREES


@func
def radians(x: Any) -> Any:
    """Convert degrees to radians."""
    return x * _RADIANS


# ---- vectors --------------------------------------------------------------------------------------------------------


@func
def dot(x: Any, y: Any) -> Any:
    """Return the sum of the products of the entries of two vectors."""
    return x.dot(y)


@func
def cross(x: Any, y: Any) -> Any:
    """Return the cross product: a vector for two vectors of 3 entries, a number for two vectors of 2 entries."""
    return x.cross(y)


@func
def length(x: Any) -> Any:
    """Return the Euclidean norm of a vector. Its derivative at the zero vector is NaN."""
    return x.norm()


@func
def distance(x: Any, y: Any) -> Any:
    """Return the Euclidean norm of x - y."""
    return (x - y).norm()


@func
def normalize(v: Any) -> Any:
    """Return v divided by its norm."""
    return v / v.norm()


@func
def reflect(x: Any, n: Any) -> Any:
    """Return the direction x mirrored at a plane with the unit normal n: x - 2(x·n)n."""
    return x - 2.0 * x.dot(n) * n


@func
def refract(x: Any, n: Any, eta: Any) -> Any:
    """Return the direction of a ray after it passes a surface, or zero if all of it is reflected.

    The result is eta·x - (eta(x·n) + √k)n with k = 1 - eta²(1 - (x·n)²).

    Args:
        x: The unit direction of the ray.
        n: The unit normal of the surface.
        eta: The ratio of the refractive indices.
    """
    along = x.dot(n)
    k = 1.0 - eta * eta * (1.0 - along * along)
    result = x * 0.0
    if k >= 0.0:
        result = eta * x - (eta * along + sqrt(k)) * n
    return result


@func
def vdir(ang: Any) -> Any:
    """Return the unit vector (cos, sin) of the plane at an angle in radians."""
    return vec2(cos(ang), sin(ang))


# ---- complex numbers as vectors (re, im) ----------------------------------------------------------------------------


@func
def cconj(z: Any) -> Any:
    """Return the complex conjugate of z."""
    return Vector([z[0], -z[1]])


@func
def cmul(z: Any, w: Any) -> Any:
    """Return the complex product z·w."""
    return Vector([z[0] * w[0] - z[1] * w[1], z[0] * w[1] + z[1] * w[0]])


@func
def cinv(z: Any) -> Any:
    """Return the complex inverse 1/z."""
    return cconj(z) / z.dot(z)


@func
def cdiv(z: Any, w: Any) -> Any:
    """Return the complex quotient z/w."""
    return cmul(z, cconj(w)) / w.dot(w)


@func
def cexp(z: Any) -> Any:
    """Return e to the complex power z."""
    return exp(z[0]) * Vector([cos(z[1]), sin(z[1])])


@func
def clog(z: Any) -> Any:
    """Return the principal logarithm of z, whose imaginary part lies in (-π, π]."""
    return Vector([0.5 * log(z.dot(z)), atan2(z[1], z[0])])


@func
def cpow(z: Any, n: Any) -> Any:
    """Return the principal value of z to a real power n."""
    angle = n * atan2(z[1], z[0])
    return pow(z.norm(), n) * Vector([cos(angle), sin(angle)])


@func
def csqrt(z: Any) -> Any:
    """Return the principal square root of z."""
    return cpow(z, 0.5)


# ---- matrices -------------------------------------------------------------------------------------------------------


@func
def determinant(m: Any) -> Any:
    """Return the determinant of a square matrix of up to 4 rows."""
    return m.determinant()


@func
def inverse(m: Any) -> Any:
    """Return the inverse of a square matrix of up to 4 rows; it is infinite or NaN if the matrix is singular."""
    return m.inverse()


@func
def eye(n: Any) -> Any:
    """Return the identity matrix of n rows; n must be known at compile time."""
    return Matrix.identity(float, n)


@func
def rotation2d(ang: Any) -> Any:
    """Return the 2×2 matrix that turns column vectors counter-clockwise by an angle in radians."""
    c, s = cos(ang), sin(ang)
    return Matrix([[c, -s], [s, c]])


@func
def translate(dx: Any, dy: Any, dz: Any) -> Any:
    """Return the 4×4 matrix that translates homogeneous column vectors by (dx, dy, dz)."""
    return mat4([[1.0, 0.0, 0.0, dx], [0.0, 1.0, 0.0, dy], [0.0, 0.0, 1.0, dz], [0.0, 0.0, 0.0, 1.0]])


@func
def scale(sx: Any, sy: Any, sz: Any) -> Any:
    """Return the 4×4 matrix that scales homogeneous vectors by sx, sy and sz along the axes."""
    return mat4([[sx, 0.0, 0.0, 0.0], [0.0, sy, 0.0, 0.0], [0.0, 0.0, sz, 0.0], [0.0, 0.0, 0.0, 1.0]])


@func
def _homogeneous(x: Any, y: Any, z: Any) -> Any:
    """Return the 4×4 matrix with a 3×3 block of these three rows and without translation."""
    return Matrix([[x[0], x[1], x[2], 0.0], [y[0], y[1], y[2], 0.0], [z[0], z[1], z[2], 0.0], [0.0, 0.0, 0.0, 1.0]])


@func
def rot_by_axis(axis: Any, ang: Any) -> Any:
    """Return the 4×4 matrix of a rotation about an axis, for homogeneous row vectors.

    It is cI + (1-c)aaᵀ - s[a]×, with c and s the cosine and sine of the angle, and [a]× the matrix of the cross product
    with the unit vector a of the axis.

    Args:
        axis: A vector of 3 entries of any length.
        ang: The angle in radians.
    """
    a, c, s = axis / axis.norm(), cos(ang), sin(ang)
    b = (1.0 - c) * a
    return _homogeneous(
        Vector([c + b[0] * a[0], b[0] * a[1] + s * a[2], b[0] * a[2] - s * a[1]]),
        Vector([b[1] * a[0] - s * a[2], c + b[1] * a[1], b[1] * a[2] + s * a[0]]),
        Vector([b[2] * a[0] + s * a[1], b[2] * a[1] - s * a[0], c + b[2] * a[2]]),
    )


@func
def rot_yaw_pitch_roll(yaw: Any, pitch: Any, roll: Any) -> Any:
    """Return the 4×4 matrix Z(roll)·X(pitch)·Y(yaw) of rotations about the axes, for row vectors; see `rot_by_axis`."""
    c, s = cos(roll), sin(roll)
    first = Vector([cos(yaw), 0.0, -sin(yaw)])
    second = Vector([sin(pitch) * sin(yaw), cos(pitch), sin(pitch) * cos(yaw)])
    third = Vector([cos(pitch) * sin(yaw), -sin(pitch), cos(pitch) * cos(yaw)])
    return _homogeneous(c * first + s * second, c * second - s * first, third)


@func
def rotation3d(ang_x: Any, ang_y: Any, ang_z: Any) -> Any:
    """Return `rot_yaw_pitch_roll(ang_z, ang_x, ang_y)`, the 4×4 matrix of rotations about three axes."""
    return rot_yaw_pitch_roll(ang_z, ang_x, ang_y)
