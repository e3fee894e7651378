# ruff: noqa - a script has written this file
"""Tell type checkers and editors the public names of the package; at run time it finds them at first use.

Operands are Any: in a kernel one function takes numbers, vectors and matrices of every type. A scalar type is the
Python number that it stands for, so that `n: sg.i32` declares a parameter and `sg.field(sg.f32)` a field: as an object
it is a `Scalar`, which no annotation can name. A parameter that is a template may be anything. The file is made by
`python tests/docs/language_stub.py` from the table of names and from the manual of the kernel language.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

from .compiler.frontend.refused_names import RefusedName
from . import ad as ad, capture as capture, jax as jax, linalg as linalg, math as math, torch as torch, types as types
from .runtime.session import (
    init as init,
    reset as reset,
    sync as sync,
)
from .data.fields import (
    Backend as Backend,
    Field as Field,
    Layout as Layout,
    MatrixField as MatrixField,
    MatrixNdarray as MatrixNdarray,
    Ndarray as Ndarray,
    ScalarField as ScalarField,
    ScalarNdarray as ScalarNdarray,
    StructField as StructField,
    Tensor as Tensor,
    field as field,
    wrap as wrap,
)
from .data.names import (
    VectorNdarray as VectorNdarray,
    VectorTensor as VectorTensor,
    MatrixTensor as MatrixTensor,
)
from .data.ndarrays import (
    ndarray as ndarray,
    tensor as tensor,
    from_dlpack as from_dlpack,
)
from .data.values import (
    Matrix as Matrix,
    Struct as Struct,
    Vector as Vector,
)
from .data.snodes import (
    i as i,
    ij as ij,
    ijk as ijk,
    ijkl as ijkl,
    ijl as ijl,
    ik as ik,
    ikl as ikl,
    il as il,
    j as j,
    jk as jk,
    jkl as jkl,
    jl as jl,
    k as k,
    kl as kl,
    l as l,
    axes as axes,
    FieldsBuilder as FieldsBuilder,
    root as root,
)
from .types import (
    dataclass as dataclass,
)
from .launch.kernels import (
    kernel as kernel,
    Kernel as Kernel,
    TextKernel as TextKernel,
    KernelStats as KernelStats,
    KernelWarning as KernelWarning,
    kernel_from_text as kernel_from_text,
)
from .launch.classes import (
    data_oriented as data_oriented,
    pyfunc as pyfunc,
)
from .runtime.report import (
    adstack_report as adstack_report,
    AdstackReport as AdstackReport,
)
from .runtime.profiling import (
    profile as profile,
    Profile as Profile,
    KernelProfile as KernelProfile,
    TaskProfile as TaskProfile,
)
from .linalg import (
    eig as eig,
    make_spd as make_spd,
    outer as outer,
    polar_decompose as polar_decompose,
    solve as solve,
    svd as svd,
    sym_eig as sym_eig,
)
from .runtime.streams import (
    Event as Event,
    Stream as Stream,
    create_event as create_event,
    create_stream as create_stream,
)
from .backends.disk_cache import (
    CacheWarning as CacheWarning,
)
from .runtime.gpu import (
    cuda as cuda,
    Cuda as Cuda,
)
from .launch.graphs import (
    graph as graph,
    RecordedGraph as RecordedGraph,
)
from .launch.dispatch import (
    perf_dispatch as perf_dispatch,
)
from .data.views import (
    BufferView as BufferView,
)
from .compiler.errors import (
    AdstackOverflow as AdstackOverflow,
    CallError as CallError,
    DeviceError as DeviceError,
    DivisionByZero as DivisionByZero,
    InternalError as InternalError,
    KernelAssertionError as KernelAssertionError,
    KernelIndexError as KernelIndexError,
    KernelNameError as KernelNameError,
    KernelSyntaxError as KernelSyntaxError,
    KernelTypeError as KernelTypeError,
    NotDifferentiable as NotDifferentiable,
    OutOfBounds as OutOfBounds,
    ParseError as ParseError,
    StackgradError as StackgradError,
    Unsupported as Unsupported,
    VerifyError as VerifyError,
)
from .runtime.usage_errors import (
    ArgumentError as ArgumentError,
    FieldError as FieldError,
    GradientError as GradientError,
    MatrixError as MatrixError,
    OptionError as OptionError,
    StaleFieldError as StaleFieldError,
    StructError as StructError,
    TapeError as TapeError,
    UsageError as UsageError,
    ViewError as ViewError,
)

_F = TypeVar("_F", bound=Callable[..., Any])

BitpackedFields: RefusedName
"""Raise `Unsupported` when it is used: `sg.BitpackedFields`: quantized types are not supported: every element is a whole scalar.

Instead, use sg.f16, sg.i8 or another scalar type.
"""

CRITICAL: str
"""Name the least detailed level of the log, for `sg.init(log_level=sg.CRITICAL)`.

The runtime keeps no log; the level is accepted for programs of the dialect.
"""

DEBUG: str
"""Name the second most detailed level of the log, for `sg.init(log_level=sg.DEBUG)`.

The runtime keeps no log; the level is accepted for programs of the dialect.
"""

ERROR: str
"""Name the error level of the log, for `sg.init(log_level=sg.ERROR)`.

The runtime keeps no log; the level is accepted for programs of the dialect.
"""

GUI: RefusedName
"""Raise `Unsupported` when it is used: `sg.GUI`: windows, textures and drawing are not supported.

Instead, copy with `to_numpy()` and draw with another package.
"""

INFO: str
"""Name the ordinary level of the log, for `sg.init(log_level=sg.INFO)`.

The runtime keeps no log; the level is accepted for programs of the dialect.
"""

Mesh: RefusedName
"""Raise `Unsupported` when it is used: `sg.Mesh`: meshes are not supported.

Instead, keep vertices in fields and the connectivity in integer fields, and loop.
"""

MeshInstance: RefusedName
"""Raise `Unsupported` when it is used: `sg.MeshInstance`: meshes are not supported.

Instead, keep vertices in fields and the connectivity in integer fields, and loop.
"""

TRACE: str
"""Name the most detailed level of the log, for `sg.init(log_level=sg.TRACE)`.

The runtime keeps no log; the level is accepted for programs of the dialect.
"""

Template: TypeAlias = Any
"""Represent the annotation `sg.template()` or `sg.Template` of a parameter of a kernel or func.

A parameter of a kernel with this annotation is known when the kernel is traced. A parameter of a func with this
annotation takes memory by reference.
"""

TetMesh: RefusedName
"""Raise `Unsupported` when it is used: `sg.TetMesh`: meshes are not supported.

Instead, keep vertices in fields and the connectivity in integer fields, and loop.
"""

Texture: RefusedName
"""Raise `Unsupported` when it is used: `sg.Texture`: windows, textures and drawing are not supported.

Instead, copy with `to_numpy()` and draw with another package.
"""

Tile16x16: RefusedName
"""Raise `Unsupported` when it is used: `sg.Tile16x16` multiplies tiles with the matrix units of a GPU, which kernels here do not address.

Instead, write the product as loops over elements, or use `sg.Matrix` locals.
"""

TriMesh: RefusedName
"""Raise `Unsupported` when it is used: `sg.TriMesh`: meshes are not supported.

Instead, keep vertices in fields and the connectivity in integer fields, and loop.
"""

WARN: str
"""Name the warning level of the log, for `sg.init(log_level=sg.WARN)`.

The runtime keeps no log; the level is accepted for programs of the dialect.
"""

def abs(x: Any, /) -> Any:
    """Return the absolute value of x, in the type of x.

    Derivative: `d abs(x) = sgn(x) * dx`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: abs(-0.0) is 0.0; the least integer maps to itself; derivative 0 at 0.

    Args:
        x: A number, or a vector or matrix of numbers.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

def acos(x: Any, /) -> Any:
    """Return the arccosine of x in radians, from 0 to π.

    Derivative: `d acos(x) = -dx / sqrt(1 - x**2)`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: NaN outside [-1, 1]; derivative infinite at ±1. A result of f32 or f64 is off by at most 4 units in
    the last place.

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

activate: RefusedName
"""Raise `Unsupported` when it is used: `sg.activate`: sparse fields are not supported: every element of a field exists.

Instead, use a dense field, with a field of flags or an integer field of indices for the active elements.
"""

aot: RefusedName
"""Raise `Unsupported` when it is used: `sg.aot`: modules compiled ahead of time are not supported.

Instead, compile when the program runs.
"""

append: RefusedName
"""Raise `Unsupported` when it is used: `sg.append`: sparse fields are not supported: every element of a field exists.

Instead, use a dense field, with a field of flags or an integer field of indices for the active elements.
"""

def asin(x: Any, /) -> Any:
    """Return the arcsine of x in radians, from -π/2 to π/2.

    Derivative: `d asin(x) = dx / sqrt(1 - x**2)`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: NaN outside [-1, 1]; derivative infinite at ±1. A result of f32 or f64 is off by at most 4 units in
    the last place.

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

def assume_in_range(val: Any, base: Any, low: Any, high: Any) -> Any:
    """Return a number, and promise that base + low <= val < base + high.

    Derivative: `d assume_in_range(val, base, low, high) = dval`.

    Under `sg.init(debug=True)` the promise is asserted; otherwise nothing is assumed because of it.

    Args:
        val: The number.
        base: The number that the limits are relative to.
        low: The lower limit, included.
        high: The upper limit, excluded.

    Raises:
        KernelAssertionError: Under debug, the number is not in its range.
    """

def assume_unique(*indices: Any) -> Any:
    """Return indices, and claim that no two iterations of the parallel loop have the same ones.

    Write `j = sg.assume_unique(p[i])`, or `a, b = sg.assume_unique(p[i], q[i])`, where the pair is different in
    each iteration. The gradient then does not look for iterations that share elements. A false claim makes the
    gradient undefined; `sg.init(debug=True)` finds it at each launch.

    Args:
        *indices: One or more integers.

    Returns:
        The index, or a tuple of the indices if several are given.

    Raises:
        KernelTypeError: In a kernel, an argument is no integer, or none is given.
    """

def atan2(y: Any, x: Any, /) -> Any:
    """Return the angle of the point (x, y) in radians, from -π to π.

    Derivative: `d atan2(y, x) = (x * dy - y * dx) / (x**2 + y**2)`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: Signed zeros choose the branch as in IEEE; derivative undefined at the origin. A result of f32 or
    f64 is off by at most 4 units in the last place.

    Args:
        y: The ordinate. It is the first argument, as in Python's `math.atan2`.
        x: The abscissa. If both are integers, they are converted to the default real type.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

def atomic_add(x: Any, value: Any, /) -> Any:
    """Add a value to x and return the old value, like `x += value`.

    Derivative of the element after the call: `d x = dx + dvalue`.

    The call is one atomic step with respect to all other iterations. The order of the iterations is not fixed, so a
    derivative that flows through the old value needs `sg.ad.Tape`, which keeps the order.

    Args:
        x: An element of a field or array, such as `x[i]`, or a local variable.
        value: A number.

    Raises:
        KernelSyntaxError: The function is called outside a kernel, or with another number of arguments.
        KernelTypeError: x or the value has another type than the function takes.
    """

def atomic_and(x: Any, value: Any, /) -> Any:
    """Store the bitwise `x & value` in x and return the old value.

    The call is one atomic step with respect to all other iterations. The order of the iterations is not fixed, so a
    derivative that flows through the old value needs `sg.ad.Tape`, which keeps the order.

    Args:
        x: An element of a field or array, such as `x[i]`, or a local variable.
        value: An integer.

    Raises:
        KernelSyntaxError: The function is called outside a kernel, or with another number of arguments.
        KernelTypeError: x or the value has another type than the function takes.
    """

def atomic_cas(x: Any, expected: Any, new: Any, /) -> Any:
    """Store a new value in x if x holds an expected value, and return the old value.

    Derivative of the element after the call: `d x = dnew if x == expected else dx`.

    Values are compared by their bits, so NaN equals itself, and 0.0 differs from -0.0.

    The call is one atomic step with respect to all other iterations. The order of the iterations is not fixed, so a
    derivative that flows through the old value needs `sg.ad.Tape`, which keeps the order.

    Args:
        x: An element of a field or array, such as `x[i]`, or a local variable.
        expected: The number that x must hold.
        new: The number to store.

    Raises:
        KernelSyntaxError: The function is called outside a kernel, or with another number of arguments.
        KernelTypeError: x is no number.
    """

def atomic_exchange(x: Any, value: Any, /) -> Any:
    """Store a value in x and return the old value.

    Derivative of the element after the call: `d x = dvalue`.

    The call is one atomic step with respect to all other iterations. The order of the iterations is not fixed, so a
    derivative that flows through the old value needs `sg.ad.Tape`, which keeps the order.

    If several iterations exchange one element, the gradient needs `sg.ad.Tape`.

    Args:
        x: An element of a field or array, such as `x[i]`, or a local variable.
        value: A number.

    Raises:
        KernelSyntaxError: The function is called outside a kernel, or with another number of arguments.
        KernelTypeError: x or the value has another type than the function takes.
    """

def atomic_max(x: Any, value: Any, /) -> Any:
    """Store the greater one of x and a value in x, and return the old value.

    Derivative of the element after the call: `d x = dx if x > value else dvalue`.

    The call is one atomic step with respect to all other iterations. The order of the iterations is not fixed, so a
    derivative that flows through the old value needs `sg.ad.Tape`, which keeps the order.

    If several iterations hold the final value, the first one that reached it gets the whole adjoint. The value
    before the call gets it only if no iteration holds it.

    Args:
        x: An element of a field or array, such as `x[i]`, or a local variable.
        value: A number.

    Raises:
        KernelSyntaxError: The function is called outside a kernel, or with another number of arguments.
        KernelTypeError: x or the value has another type than the function takes.
    """

def atomic_min(x: Any, value: Any, /) -> Any:
    """Store the lesser one of x and a value in x, and return the old value.

    Derivative of the element after the call: `d x = dx if x < value else dvalue`.

    The call is one atomic step with respect to all other iterations. The order of the iterations is not fixed, so a
    derivative that flows through the old value needs `sg.ad.Tape`, which keeps the order.

    If several iterations hold the final value, the first one that reached it gets the whole adjoint. The value
    before the call gets it only if no iteration holds it.

    Args:
        x: An element of a field or array, such as `x[i]`, or a local variable.
        value: A number.

    Raises:
        KernelSyntaxError: The function is called outside a kernel, or with another number of arguments.
        KernelTypeError: x or the value has another type than the function takes.
    """

def atomic_mul(x: Any, value: Any, /) -> Any:
    """Multiply x by a value and return the old value, like `x *= value`.

    Derivative of the element after the call: `d x = value * dx + x * dvalue`.

    The call is one atomic step with respect to all other iterations. The order of the iterations is not fixed, so a
    derivative that flows through the old value needs `sg.ad.Tape`, which keeps the order.

    If several iterations multiply one element, the gradient needs `sg.ad.Tape`.

    Args:
        x: An element of a field or array, such as `x[i]`, or a local variable.
        value: A number.

    Raises:
        KernelSyntaxError: The function is called outside a kernel, or with another number of arguments.
        KernelTypeError: x or the value has another type than the function takes.
    """

def atomic_or(x: Any, value: Any, /) -> Any:
    """Store the bitwise `x | value` in x and return the old value.

    The call is one atomic step with respect to all other iterations. The order of the iterations is not fixed, so a
    derivative that flows through the old value needs `sg.ad.Tape`, which keeps the order.

    Args:
        x: An element of a field or array, such as `x[i]`, or a local variable.
        value: An integer.

    Raises:
        KernelSyntaxError: The function is called outside a kernel, or with another number of arguments.
        KernelTypeError: x or the value has another type than the function takes.
    """

def atomic_sub(x: Any, value: Any, /) -> Any:
    """Subtract a value from x and return the old value, like `x -= value`.

    Derivative of the element after the call: `d x = dx - dvalue`.

    The call is one atomic step with respect to all other iterations. The order of the iterations is not fixed, so a
    derivative that flows through the old value needs `sg.ad.Tape`, which keeps the order.

    Args:
        x: An element of a field or array, such as `x[i]`, or a local variable.
        value: A number.

    Raises:
        KernelSyntaxError: The function is called outside a kernel, or with another number of arguments.
        KernelTypeError: x or the value has another type than the function takes.
    """

def atomic_xor(x: Any, value: Any, /) -> Any:
    """Store the bitwise `x ^ value` in x and return the old value.

    The call is one atomic step with respect to all other iterations. The order of the iterations is not fixed, so a
    derivative that flows through the old value needs `sg.ad.Tape`, which keeps the order.

    Args:
        x: An element of a field or array, such as `x[i]`, or a local variable.
        value: An integer.

    Raises:
        KernelSyntaxError: The function is called outside a kernel, or with another number of arguments.
        KernelTypeError: x or the value has another type than the function takes.
    """

def bit_cast(x: Any, dtype: Any) -> Any:
    """Return the number of another scalar type that has the same bits as x.

    Derivative: `d bit_cast(x, dtype) = 0`.

    Vectors and matrices are converted entry by entry. Outside kernels, a float is taken as f64 if dtype has 64 bits
    and as f32 otherwise, and an int as i64 or i32.

    Args:
        x: A number, or a vector or matrix of numbers.
        dtype: A scalar type of the same width.

    Raises:
        KernelTypeError: In a kernel, the widths differ, or dtype is no scalar type.
    """

def bit_shr(x: Any, count: Any, /) -> Any:
    """Return the bits of x shifted to the right, filled with zeros; `x >> count` fills with the sign.

    The count is taken modulo the width of x. The result has no derivative. Vectors and matrices are shifted entry
    by entry. Outside kernels, it takes the lower 32 bits of x.

    Args:
        x: An integer.
        count: Number of bits, an integer.

    Raises:
        KernelTypeError: In a kernel, an argument is no integer.
    """

def block_local(*args: Any) -> None:
    """Accept arrays that a program of the dialect keeps in memory of a GPU block; the call changes no result.

    Args:
        *args: Fields, arrays or views.

    Raises:
        KernelTypeError: In a kernel, an argument is no array.
    """

def cache_read_only(*args: Any) -> None:
    """Accept arrays that a program of the dialect keeps in a cache for reading; the call changes no result.

    Args:
        *args: Fields, arrays or views.

    Raises:
        KernelTypeError: In a kernel, an argument is no array.
    """

def cast(x: Any, dtype: Any) -> Any:
    """Return x converted to a scalar type, like `sg.f32(x)`.

    Derivative: `d cast(x, dtype) = dx`.

    A real becomes an integer by dropping its fraction. An integer that does not fit wraps. Vectors and matrices are
    converted entry by entry. The derivative passes between real types, and is 0 if x or dtype is no real type.

    Args:
        x: A number, or a vector or matrix of numbers.
        dtype: A scalar type such as `sg.f32`, or float, int or bool for the default types.

    Raises:
        KernelTypeError: In a kernel, dtype is no scalar type, or x is no number.
    """

def ceil(x: Any, dtype: Any=None) -> Any:
    """Return the least whole number that is at least x.

    Derivative: `d ceil(x) = 0`.

    Reals stay reals, and integers are returned unchanged. Vectors and matrices are taken entry by entry, in kernels
    and, as host vectors, outside.

    Edge cases: Toward plus infinity; ceil(-0.5) is -0.0.

    Args:
        x: A number, or a vector or matrix of numbers.
        dtype: A scalar type to convert the result to, such as `sg.i32`; None to keep the type of x.

    Raises:
        KernelTypeError: In a kernel, x is a boolean or no number, or dtype is no scalar type.
    """

def clz(x: Any, /) -> Any:
    """Return the number of leading zero bits of x.

    The result is an i32 and has no derivative. Vectors and matrices are taken entry by entry. Edge cases: Leading
    zero bits, as i32; the width at 0.

    Outside kernels, it takes the lower 32 bits of x.

    Args:
        x: An integer, or a vector or matrix of integers.

    Raises:
        KernelTypeError: In a kernel, x is no integer.
    """

def cos(x: Any, /) -> Any:
    """Return the cosine of x, an angle in radians.

    Derivative: `d cos(x) = -sin(x) * dx`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: NaN at infinities; cos(±0) is 1. A result of f32 or f64 is off by at most 4 units in the last place.

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

deactivate: RefusedName
"""Raise `Unsupported` when it is used: `sg.deactivate`: sparse fields are not supported: every element of a field exists.

Instead, use a dense field, with a field of flags or an integer field of indices for the active elements.
"""

deactivate_all_snodes: RefusedName
"""Raise `Unsupported` when it is used: `sg.deactivate_all_snodes`: sparse fields are not supported: every element of a field exists.

Instead, use a dense field, with a field of flags or an integer field of indices for the active elements.
"""

def exp(x: Any, /) -> Any:
    """Return e to the power x.

    Derivative: `d exp(x) = exp(x) * dx`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: Overflows to +inf, underflows to 0. A result of f32 or f64 is off by at most 2 units in the last
    place.

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

f16: TypeAlias = float
"""Represent real numbers of 16 bits (IEEE 754) with 3 decimal digits and an absolute value of at most 6.55e+04.

It has infinities and NaN. A call `sg.f16(x)` converts x to it.
"""

f32: TypeAlias = float
"""Represent real numbers of 32 bits (IEEE 754) with 6 decimal digits and an absolute value of at most 3.4e+38.

It has infinities and NaN. A call `sg.f32(x)` converts x to it.
"""

f64: TypeAlias = float
"""Represent real numbers of 64 bits (IEEE 754) with 15 decimal digits and an absolute value of at most 1.8e+308.

It has infinities and NaN. A call `sg.f64(x)` converts x to it.
"""

def ffs(x: Any, /) -> Any:
    """Return the position of the lowest bit of x that is set, counted from 1.

    The result is an i32 and has no derivative. Vectors and matrices are taken entry by entry. Edge cases: 1-based
    position of the lowest set bit, as i32; 0 at 0.

    Outside kernels, x may be of any size.

    Args:
        x: An integer, or a vector or matrix of integers.

    Raises:
        KernelTypeError: In a kernel, x is no integer.
    """

float16: TypeAlias = float
"""Represent real numbers of 16 bits (IEEE 754) with 3 decimal digits and an absolute value of at most 6.55e+04.

It has infinities and NaN. A call `sg.f16(x)` converts x to it.
"""

float32: TypeAlias = float
"""Represent real numbers of 32 bits (IEEE 754) with 6 decimal digits and an absolute value of at most 3.4e+38.

It has infinities and NaN. A call `sg.f32(x)` converts x to it.
"""

float64: TypeAlias = float
"""Represent real numbers of 64 bits (IEEE 754) with 15 decimal digits and an absolute value of at most 1.8e+308.

It has infinities and NaN. A call `sg.f64(x)` converts x to it.
"""

def floor(x: Any, dtype: Any=None) -> Any:
    """Return the greatest whole number that is at most x.

    Derivative: `d floor(x) = 0`.

    Reals stay reals, and integers are returned unchanged. Vectors and matrices are taken entry by entry, in kernels
    and, as host vectors, outside.

    Edge cases: Toward minus infinity; keeps -0.0, NaN and infinities.

    Args:
        x: A number, or a vector or matrix of numbers.
        dtype: A scalar type to convert the result to, such as `sg.i32`; None to keep the type of x.

    Raises:
        KernelTypeError: In a kernel, x is a boolean or no number, or dtype is no scalar type.
    """

def frexp(x: Any, /) -> Any:
    """Return the mantissa m and the exponent e of x, with x = m·2^e and 0.5 <= |m| < 1.

    Derivative: `d frexp(x)[0] = dx / 2**frexp(x)[1]`.

    In a kernel write `m, e = sg.frexp(x)`. m has the type of x, and e is an i32. Zero, NaN and infinities have
    themselves as mantissa, and the exponent 0. The exponent has no derivative.

    Args:
        x: A number. An integer is converted to the default real type.

    Raises:
        KernelTypeError: In a kernel, x is a boolean or no number.
    """

def func(function: _F) -> _F:
    """Decorate a function so that kernels can call it; it is inlined there and its arguments are passed by value.

    The result is a `Func`, which is called like the function. The annotation keeps the signature for type checkers.
    """

get_addr: RefusedName
"""Raise `Unsupported` when it is used: `sg.get_addr`: sparse fields are not supported: every element of a field exists.

Instead, use a dense field, with a field of flags or an integer field of indices for the active elements.
"""

def graph_do_while(flag: Any, /) -> bool:
    """Repeat the body of `while sg.graph.do_while(flag):` in a kernel until the flag is 0.

    The body runs at least once. Its loops are serial.

    Args:
        flag: A 0-d integer field, or a number.

    Raises:
        KernelSyntaxError: The call stands elsewhere than after `while` in a kernel, or has other arguments.
    """

def graph_parallel() -> AbstractContextManager[None]:
    """Mark a block of a graph that may run at the same time as blocks beside it.

    Inside a kernel it stands after `with`, without arguments and without `as`. Here the blocks run one after
    another, which is one of the allowed orders, so the `with` changes no result.

    Returns:
        A context manager.

    Raises:
        KernelSyntaxError: In a kernel, the call stands elsewhere, or has arguments.
    """

def graph_parallel_context() -> AbstractContextManager[None]:
    """Mark a block whose parts a graph may run at the same time.

    Inside a kernel it stands after `with`, without arguments and without `as`. Here the blocks run one after
    another, which is one of the allowed orders, so the `with` changes no result.

    Returns:
        A context manager.

    Raises:
        KernelSyntaxError: In a kernel, the call stands elsewhere, or has arguments.
    """

def grouped(domain: Any, /) -> Iterator[Any]:
    """Return a domain whose indices are one vector: `for I in sg.grouped(x):` with `x[I]` as the element.

    Args:
        domain: A field, an array, or `sg.ndrange(...)`.

    Raises:
        KernelSyntaxError: In a kernel, the call stands elsewhere than after `in` of a loop.
        KernelTypeError: In a kernel, the domain is a range with a step.
    """

i16: TypeAlias = int
"""Represent signed integers of 16 bits, from -32768 to 32767.

Results out of this range wrap. A call `sg.i16(x)` converts x to it.
"""

i32: TypeAlias = int
"""Represent signed integers of 32 bits, from -2147483648 to 2147483647.

Results out of this range wrap. A call `sg.i32(x)` converts x to it.
"""

i64: TypeAlias = int
"""Represent signed integers of 64 bits, from -9223372036854775808 to 9223372036854775807.

Results out of this range wrap. A call `sg.i64(x)` converts x to it.
"""

i8: TypeAlias = int
"""Represent signed integers of 8 bits, from -128 to 127.

Results out of this range wrap. A call `sg.i8(x)` converts x to it.
"""

int16: TypeAlias = int
"""Represent signed integers of 16 bits, from -32768 to 32767.

Results out of this range wrap. A call `sg.i16(x)` converts x to it.
"""

int32: TypeAlias = int
"""Represent signed integers of 32 bits, from -2147483648 to 2147483647.

Results out of this range wrap. A call `sg.i32(x)` converts x to it.
"""

int64: TypeAlias = int
"""Represent signed integers of 64 bits, from -9223372036854775808 to 9223372036854775807.

Results out of this range wrap. A call `sg.i64(x)` converts x to it.
"""

int8: TypeAlias = int
"""Represent signed integers of 8 bits, from -128 to 127.

Results out of this range wrap. A call `sg.i8(x)` converts x to it.
"""

def inv(x: Any, /) -> Any:
    """Return the reciprocal 1/x.

    Derivative: `d inv(x) = -dx / x**2`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: 1/x: signed infinity at signed zero.

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

is_active: RefusedName
"""Raise `Unsupported` when it is used: `sg.is_active`: sparse fields are not supported: every element of a field exists.

Instead, use a dense field, with a field of flags or an integer field of indices for the active elements.
"""

def isinf(x: Any, /) -> Any:
    """Return True if x is an infinity.

    The result is a boolean and has no derivative. It is False for an integer. Vectors and matrices are taken entry
    by entry, in kernels and, as host vectors, outside.

    Args:
        x: A number, or a vector or matrix of numbers.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

def isnan(x: Any, /) -> Any:
    """Return True if x is NaN.

    The result is a boolean and has no derivative. It is False for an integer. Vectors and matrices are taken entry
    by entry, in kernels and, as host vectors, outside.

    Args:
        x: A number, or a vector or matrix of numbers.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

lang: RefusedName
"""Raise `Unsupported` when it is used: `sg.lang` reaches into another compiler.

Instead, remove it: what programs ask of it there is not needed here.
"""

length: RefusedName
"""Raise `Unsupported` when it is used: `sg.length`: sparse fields are not supported: every element of a field exists.

Instead, use a dense field, with a field of flags or an integer field of indices for the active elements.
"""

def log(x: Any, /) -> Any:
    """Return the natural logarithm of x.

    Derivative: `d log(x) = dx / x`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: -inf at zero of either sign, NaN below zero. A result of f32 or f64 is off by at most 2 units in the
    last place.

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

def loop_config(**options: Any) -> None:
    """Set options of the next loop of the kernel.

    `sg.loop_config(serialize=True)` makes an outermost loop run its iterations one after another, in order. A
    gradient keeps the values of all trips of a serial loop; with `sg.loop_config(checkpoint=k)` it keeps the state
    of every k-th trip, and makes those of k trips at a time again, for less memory and more time. `block_dim` is
    the number of iterations of a block, 1 to 1024, in a loop that uses functions of `sg.simt`; 128 if it is not
    given. The other options are hints of the dialect and change no result. Outside kernels the call does nothing.

    Args:
        **options: serialize, checkpoint, parallelize, block_dim, block_dim_adaptive, bit_vectorize, name; their
            values are known at compile time.

    Raises:
        KernelSyntaxError: In a kernel, an option is unknown, or is given without its name.
        KernelTypeError: In a kernel, `checkpoint` is no integer of at least 2.
    """

def loop_unique(val: Any, covers: Any=None) -> Any:
    """Return an index, which a program of the dialect claims to be different in each iteration.

    Derivative: `d loop_unique(val) = dval`.

    Nothing is assumed because of it. The claim that speeds up gradients is `sg.assume_unique`.

    Args:
        val: The index.
        covers: Accepted without effect.
    """

def max(x: Any, /, *others: Any) -> Any:
    """Return the greatest of the values.

    Derivative: `d max(x, y) = dx if x > y else dy`.

    In a kernel, a single argument is a vector or a sequence of known length, whose entries are compared. Several
    vectors are compared entry by entry; a number stands for a vector of equal entries. The result has the common
    type.

    Edge cases: NaN if an operand is NaN; max(-0.0, 0.0) is 0.0; at a tie the right operand wins the derivative.

    Args:
        x: A number or a vector; or, alone in a kernel, all values.
        *others: More numbers or vectors.

    Raises:
        KernelSyntaxError: In a kernel, fewer than two values are given.
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

mesh_local: RefusedName
"""Raise `Unsupported` when it is used: `sg.mesh_local`: meshes are not supported.

Instead, keep vertices in fields and the connectivity in integer fields, and loop.
"""

mesh_patch_idx: RefusedName
"""Raise `Unsupported` when it is used: `sg.mesh_patch_idx`: meshes are not supported.

Instead, keep vertices in fields and the connectivity in integer fields, and loop.
"""

def min(x: Any, /, *others: Any) -> Any:
    """Return the least of the values.

    Derivative: `d min(x, y) = dx if x < y else dy`.

    In a kernel, a single argument is a vector or a sequence of known length, whose entries are compared. Several
    vectors are compared entry by entry; a number stands for a vector of equal entries. The result has the common
    type.

    Edge cases: NaN if an operand is NaN; min(-0.0, 0.0) is -0.0; at a tie the right operand wins the derivative.

    Args:
        x: A number or a vector; or, alone in a kernel, all values.
        *others: More numbers or vectors.

    Raises:
        KernelSyntaxError: In a kernel, fewer than two values are given.
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

def ndrange(*spans: Any, axes: Any=None) -> Iterator[Any]:
    """Return a box of indices for a loop: `for i, j in sg.ndrange(n, (1, m)):`.

    The outermost loop of a kernel over a box is parallel. One name in place of several, as in `for I in ...`,
    stands for the vector of all indices. Outside kernels, points are visited in row-major order.

    Args:
        *spans: For each axis an extent n, which means 0 to n - 1, or a pair (begin, end) with an exclusive end.
        axes: The number of the axis of each nested loop, outermost first; None for the order of the spans.

    Raises:
        KernelSyntaxError: In a kernel, the call stands elsewhere than after `in` of a loop, or without an axis.
        KernelTypeError: `axes` is no order of the axes; in a kernel, an axis is neither an extent nor a pair.
    """

no_activate: RefusedName
"""Raise `Unsupported` when it is used: `sg.no_activate`: sparse fields are not supported: every element of a field exists.

Instead, use a dense field, with a field of flags or an integer field of indices for the active elements.
"""

def one(x: Any, /) -> Any:
    """Return the number 1, or a vector, matrix or struct filled with 1, in the type of x.

    Derivative: `d one(x) = 0`.

    Args:
        x: A value; only its type is used.

    Raises:
        KernelTypeError: In a kernel, x is no value.
    """

def popcnt(x: Any, /) -> Any:
    """Return the number of bits of x that are set.

    The result is an i32 and has no derivative. Vectors and matrices are taken entry by entry. Edge cases: Number of
    set bits of the two's complement, as i32.

    Outside kernels, it counts in the lower 32 bits of x.

    Args:
        x: An integer, or a vector or matrix of integers.

    Raises:
        KernelTypeError: In a kernel, x is no integer.
    """

def pow(x: Any, y: Any, /) -> Any:
    """Return x to the power y, like `x ** y`.

    Derivative: `d pow(x, y) = y * pow(x, y - 1) * dx + pow(x, y) * log(x) * dy`.

    The result has the common type of x and y, so the power of two integers is an integer. Vectors and matrices are
    taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: IEEE pow for reals (pow(x, 0) is 1); integers wrap, a negative exponent gives 1/x truncated. A
    result of f32 or f64 is off by at most 4 units in the last place.

    At y = 0 the derivative by x is 0, and at x = 0 the derivative by y is 0.

    Args:
        x: The base: a number, or a vector or matrix of numbers.
        y: The exponent, likewise.

    Raises:
        KernelTypeError: In a kernel, an argument is no number.
    """

quant: RefusedName
"""Raise `Unsupported` when it is used: `sg.quant`: quantized types are not supported: every element is a whole scalar.

Instead, use sg.f16, sg.i8 or another scalar type.
"""

def randn(dtype: Any=None) -> Any:
    """Return a random number of the standard normal distribution, with mean 0 and variance 1.

    Derivative: `d randn() = 0`.

    It is made of two draws by the method of Box and Muller.

    A draw depends on the option `random_seed` of `sg.init`, on the number of the launch, the task, the iteration,
    and the number of the draw in its iteration. So two runs with one seed draw the same numbers, on every backend,
    and the gradient of a launch sees the draws of this launch. Outside kernels the draw comes from Python's module
    `random`.

    Args:
        dtype: A real type; None for the default real type.

    Raises:
        KernelTypeError: In a kernel, dtype is no real type.
    """

def random(dtype: Any=None) -> Any:
    """Return a random number: a real from 0 (included) to 1 (excluded), or an integer of random bits.

    Derivative: `d random() = 0`.

    A draw depends on the option `random_seed` of `sg.init`, on the number of the launch, the task, the iteration,
    and the number of the draw in its iteration. So two runs with one seed draw the same numbers, on every backend,
    and the gradient of a launch sees the draws of this launch. Outside kernels the draw comes from Python's module
    `random`.

    Args:
        dtype: A scalar type; None for the default real type.

    Raises:
        KernelTypeError: In a kernel, dtype is no scalar type.
    """

def raw_div(x: Any, y: Any, /) -> Any:
    """Return x/y; the quotient of two integers is rounded toward zero, as in C.

    Derivative: `d raw_div(x, y) = dx / y - x * dy / y**2`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside. A real divided by zero
    is an infinity or NaN. An integer divided by zero is an error under `sg.init(debug=True)`; otherwise the result
    means nothing.

    Args:
        x: The dividend.
        y: The divisor. The result has the common type of x and y.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
        DivisionByZero: An integer is divided by zero under `sg.init(debug=True)`.
    """

def raw_mod(x: Any, y: Any, /) -> Any:
    """Return the remainder of x/y with the sign of x, as in C; `x % y` has the sign of y.

    Derivative: `d raw_mod(x, y) = dx - trunc(x / y) * dy`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside. The remainder of a real
    by zero is NaN. An integer divided by zero is an error under `sg.init(debug=True)`; otherwise the result means
    nothing.

    Args:
        x: The dividend.
        y: The divisor. The result has the common type of x and y.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
        DivisionByZero: An integer is divided by zero under `sg.init(debug=True)`.
    """

def rcp(x: Any, /) -> Any:
    """Return the reciprocal 1/x, which a GPU may approximate.

    Derivative: `d rcp(x) = -dx / x**2`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: Like inv, but a target may approximate. A result of f32 or f64 is off by at most 2 units in the last
    place.

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

real_func: RefusedName
"""Raise `Unsupported` when it is used: `sg.real_func`: functions that are not inlined are not supported: they would have no derivative.

Instead, decorate with `@sg.func`, and write a recursion as a loop.
"""

rescale_index: RefusedName
"""Raise `Unsupported` when it is used: `sg.rescale_index`: sparse fields are not supported: every element of a field exists.

Instead, use a dense field, with a field of flags or an integer field of indices for the active elements.
"""

def round(x: Any, dtype: Any=None) -> Any:
    """Return the whole number next to x; a half goes to the even neighbor.

    Derivative: `d round(x) = 0`.

    Reals stay reals, and integers are returned unchanged. Vectors and matrices are taken entry by entry, in kernels
    and, as host vectors, outside.

    Edge cases: To nearest, halves to even; round(-0.5) is -0.0.

    Args:
        x: A number, or a vector or matrix of numbers.
        dtype: A scalar type to convert the result to, such as `sg.i32`; None to keep the type of x.

    Raises:
        KernelTypeError: In a kernel, x is a boolean or no number, or dtype is no scalar type.
    """

def rsqrt(x: Any, /) -> Any:
    """Return the reciprocal square root 1/√x.

    Derivative: `d rsqrt(x) = -dx / (2 * x * sqrt(x))`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: 1/sqrt(x): +inf at 0.0, -inf at -0.0, NaN below zero. A result of f32 or f64 is off by at most 2
    units in the last place.

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

def select(condition: Any, x: Any, y: Any, /) -> Any:
    """Return x where the condition holds, and y elsewhere.

    Derivative: `d select(condition, x, y) = dx if condition else dy`.

    Edge cases: Both alternatives are evaluated; a NaN in the untaken one does not show. In reverse mode both have
    their slopes computed too; where one of them is infinite, write `x if condition else y`, which computes only
    what it takes.

    In kernels, vectors and matrices are chosen entry by entry. Outside, the condition is one truth value.

    Args:
        condition: A boolean or a number, which holds if it is not 0.
        x: The value where the condition holds.
        y: The value elsewhere. The result has the common type of x and y.

    Raises:
        KernelTypeError: In a kernel, a value is no number.
    """

def sgn(x: Any, /) -> Any:
    """Return the sign of x: -1, 0 or 1 in the type of x.

    Derivative: `d sgn(x) = 0`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: -1, 0 or 1 in the operand's type; sgn(NaN) is NaN, sgn(-0.0) is 0.0.

    Args:
        x: A number, or a vector or matrix of numbers.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

simt: Any
"""Hold the functions on blocks of iterations: shared arrays, barriers, and subgroups of 32 lanes.

`sg.simt.block`, `sg.simt.subgroup`, `sg.simt.grid` and `sg.simt.warp` have the names of the dialect. All work
in the body of a parallel loop, whose blocks have `sg.loop_config(block_dim=...)` iterations.
"""

def sin(x: Any, /) -> Any:
    """Return the sine of x, an angle in radians.

    Derivative: `d sin(x) = cos(x) * dx`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: NaN at infinities; keeps -0.0. A result of f32 or f64 is off by at most 4 units in the last place.

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

sparse_grid: RefusedName
"""Raise `Unsupported` when it is used: `sg.sparse_grid`: sparse fields are not supported: every element of a field exists.

Instead, use a dense field, with a field of flags or an integer field of indices for the active elements.
"""

def sqrt(x: Any, /) -> Any:
    """Return the square root of x.

    Derivative: `d sqrt(x) = dx / (2 * sqrt(x))`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: NaN below zero, sqrt(-0.0) is -0.0; derivative +inf at 0.

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

def static(value: Any, /, *values: Any) -> Any:
    """Return the value of an expression that is evaluated once, when the kernel is compiled.

    The expression is plain Python on the objects that its names mean: numbers, lists, fields, functions. In `for i
    in sg.static(range(3))` the loop is unrolled; in `if sg.static(flag)` only the chosen branch is compiled. What
    it reads is looked at before each launch: if it has changed, the kernel is compiled again. Outside kernels the
    value is returned as it is.

    Args:
        value: The expression.
        *values: More expressions; the result is then a tuple.

    Raises:
        KernelTypeError: In a kernel, the expression reads an element of a field or a value that only the launch
            knows.
    """

def static_assert(condition: Any, message: str='static assertion failed') -> None:
    """Refuse to compile the kernel if a condition does not hold.

    The condition is evaluated like that of `sg.static`, once, when the kernel is compiled.

    Args:
        condition: An expression whose value is known at compile time.
        message: The text of the error.

    Raises:
        KernelSyntaxError: In a kernel, the condition does not hold.
        AssertionError: Outside kernels, the condition does not hold.
    """

def static_print(*values: Any) -> None:
    """Print values once, when the kernel is compiled.

    Args:
        *values: Expressions whose values are known at compile time, as for `sg.static`.
    """

def stop_grad(x: Any, /) -> Any:
    """Return x as a constant: no derivative passes.

    Derivative: `d stop_grad(x) = 0`.

    With a field as argument and without use of the result, no derivative passes through any element of the field in
    this kernel.

    Args:
        x: A number, vector, matrix or struct; or a field.

    Raises:
        KernelTypeError: In a kernel, x is neither a value nor a field.
    """

def stream_parallel() -> AbstractContextManager[None]:
    """Mark a block of loops that may run at the same time as blocks beside it.

    Inside a kernel it stands after `with`, without arguments and without `as`. Here the blocks run one after
    another, which is one of the allowed orders, so the `with` changes no result.

    Returns:
        A context manager.

    Raises:
        KernelSyntaxError: In a kernel, the call stands elsewhere, or has arguments.
    """

def tan(x: Any, /) -> Any:
    """Return the tangent of x, an angle in radians.

    Derivative: `d tan(x) = (1 + tan(x)**2) * dx`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: NaN at infinities; keeps -0.0. A result of f32 or f64 is off by at most 4 units in the last place.

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

def tanh(x: Any, /) -> Any:
    """Return the hyperbolic tangent of x.

    Derivative: `d tanh(x) = (1 - tanh(x)**2) * dx`.

    Vectors and matrices are taken entry by entry, in kernels and, as host vectors, outside.

    Edge cases: ±1 at infinities; keeps -0.0. A result of f32 or f64 is off by at most 4 units in the last place.

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        KernelTypeError: In a kernel, an argument is a boolean or no number.
    """

def template() -> Any:
    """Represent the annotation `sg.template()` or `sg.Template` of a parameter of a kernel or func.

    A parameter of a kernel with this annotation is known when the kernel is traced. A parameter of a func with this
    annotation takes memory by reference.
    """

u1: TypeAlias = int
"""Represent booleans, True and False.

A call `sg.u1(x)` converts x to it.
"""

u16: TypeAlias = int
"""Represent unsigned integers of 16 bits, from 0 to 65535.

Results out of this range wrap. A call `sg.u16(x)` converts x to it.
"""

u32: TypeAlias = int
"""Represent unsigned integers of 32 bits, from 0 to 4294967295.

Results out of this range wrap. A call `sg.u32(x)` converts x to it.
"""

u64: TypeAlias = int
"""Represent unsigned integers of 64 bits, from 0 to 18446744073709551615.

Results out of this range wrap. A call `sg.u64(x)` converts x to it.
"""

u8: TypeAlias = int
"""Represent unsigned integers of 8 bits, from 0 to 255.

Results out of this range wrap. A call `sg.u8(x)` converts x to it.
"""

ui: RefusedName
"""Raise `Unsupported` when it is used: `sg.ui`: windows, textures and drawing are not supported.

Instead, copy with `to_numpy()` and draw with another package.
"""

uint1: TypeAlias = int
"""Represent booleans, True and False.

A call `sg.u1(x)` converts x to it.
"""

uint16: TypeAlias = int
"""Represent unsigned integers of 16 bits, from 0 to 65535.

Results out of this range wrap. A call `sg.u16(x)` converts x to it.
"""

uint32: TypeAlias = int
"""Represent unsigned integers of 32 bits, from 0 to 4294967295.

Results out of this range wrap. A call `sg.u32(x)` converts x to it.
"""

uint64: TypeAlias = int
"""Represent unsigned integers of 64 bits, from 0 to 18446744073709551615.

Results out of this range wrap. A call `sg.u64(x)` converts x to it.
"""

uint8: TypeAlias = int
"""Represent unsigned integers of 8 bits, from 0 to 255.

Results out of this range wrap. A call `sg.u8(x)` converts x to it.
"""

def volatile_load(x: Any, /) -> Any:
    """Return the value of an element.

    Derivative: `d volatile_load(x) = dx`.

    It is a plain load: iterations run in any order, so no iteration can wait for the store of another one.

    Args:
        x: An element of a field or array, or any other value.
    """

def zero(x: Any, /) -> Any:
    """Return the number 0, or a vector, matrix or struct filled with 0, in the type of x.

    Derivative: `d zero(x) = 0`.

    Args:
        x: A value; only its type is used.

    Raises:
        KernelTypeError: In a kernel, x is no value.
    """
