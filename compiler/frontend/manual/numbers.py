"""This module describes functions of the kernel language that convert, test or make numbers or work on bits."""

from __future__ import annotations

from .entry import Entry


def _count(name: str, first: str, outside: str) -> Entry:
    """Return the manual's entry on a function that counts bits of an integer, such as `popcnt`."""
    doc = """

    The result is an i32 and has no derivative. Vectors and matrices are taken entry by entry. {edges}

    Outside kernels, {outside}

    Args:
        x: An integer, or a vector or matrix of integers.

    Raises:
        KernelTypeError: In a kernel, x is no integer."""
    return Entry(name, "x, /", first + doc.replace("{outside}", outside))


def _test(name: str, first: str) -> Entry:
    """Return the manual's entry on a predicate of a real number, such as `isnan`."""
    doc = """

    The result is a boolean and has no derivative. It is False for an integer. {entrywise}

    Args:
        x: {number}

    Raises:
        {numbers only}"""
    return Entry(name, "x, /", first + doc)


def _filled(name: str, value: str) -> Entry:
    """Return the manual's entry on the function `zero` or `one`, which fills a value of x's type with a number."""
    first = f"Return the number {value}, or a vector, matrix or struct filled with {value}, in the type of x."
    doc = """

    Args:
        x: A value; only its type is used.

    Raises:
        KernelTypeError: In a kernel, x is no value."""
    return Entry(name, "x, /", first + doc, f"d {name}(x) = 0")


_ENTRIES = (
    Entry(
        "cast",
        "x, dtype",
        """Return x converted to a scalar type, like `sg.f32(x)`.

        A real becomes an integer by dropping its fraction. An integer that does not fit wraps. Vectors and matrices are
        converted entry by entry. The derivative passes between real types, and is 0 if x or dtype is no real type.

        Args:
            x: {number}
            dtype: A scalar type such as `sg.f32`, or float, int or bool for the default types.

        Raises:
            KernelTypeError: In a kernel, dtype is no scalar type, or x is no number.""",
        "d cast(x, dtype) = dx",
    ),
    Entry(
        "bit_cast",
        "x, dtype",
        """Return the number of another scalar type that has the same bits as x.

        Vectors and matrices are converted entry by entry. Outside kernels, a float is taken as f64 if dtype has 64 bits
        and as f32 otherwise, and an int as i64 or i32.

        Args:
            x: {number}
            dtype: A scalar type of the same width.

        Raises:
            KernelTypeError: In a kernel, the widths differ, or dtype is no scalar type.""",
        "d bit_cast(x, dtype) = 0",
    ),
    _count("popcnt", "Return the number of bits of x that are set.", "it counts in the lower 32 bits of x."),
    _count("clz", "Return the number of leading zero bits of x.", "it takes the lower 32 bits of x."),
    _count("ffs", "Return the position of the lowest bit of x that is set, counted from 1.", "x may be of any size."),
    Entry(
        "bit_shr",
        "x, count, /",
        """Return the bits of x shifted to the right, filled with zeros; `x >> count` fills with the sign.

        The count is taken modulo the width of x. The result has no derivative. Vectors and matrices are shifted entry
        by entry. Outside kernels, it takes the lower 32 bits of x.

        Args:
            x: An integer.
            count: Number of bits, an integer.

        Raises:
            KernelTypeError: In a kernel, an argument is no integer.""",
    ),
    _test("isnan", "Return True if x is NaN."),
    _test("isinf", "Return True if x is an infinity."),
    Entry(
        "random",
        "dtype=None",
        """Return a random number: a real from 0 (included) to 1 (excluded), or an integer of random bits.

        {draws}

        Args:
            dtype: A scalar type; None for the default real type.

        Raises:
            KernelTypeError: In a kernel, dtype is no scalar type.""",
        "d random() = 0",
    ),
    Entry(
        "randn",
        "dtype=None",
        """Return a random number of the standard normal distribution, with mean 0 and variance 1.

        It is made of two draws by the method of Box and Muller.

        {draws}

        Args:
            dtype: A real type; None for the default real type.

        Raises:
            KernelTypeError: In a kernel, dtype is no real type.""",
        "d randn() = 0",
    ),
    _filled("zero", "0"),
    _filled("one", "1"),
    Entry(
        "stop_grad",
        "x, /",
        """Return x as a constant: no derivative passes.

        With a field as argument and without use of the result, no derivative passes through any element of the field in
        this kernel.

        Args:
            x: A number, vector, matrix or struct; or a field.

        Raises:
            KernelTypeError: In a kernel, x is neither a value nor a field.""",
        "d stop_grad(x) = 0",
    ),
)

NUMBERS = {entry.name: entry for entry in _ENTRIES}
"""Functions on numbers by name."""
