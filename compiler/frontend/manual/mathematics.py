"""This module describes the mathematical functions of the kernel language."""

from __future__ import annotations

from .entry import Entry


def _real(name: str, first: str, derivative: str) -> Entry:
    """Return the manual's entry on a real function of one argument that equals the IR operation of the same name."""
    doc = """

    {entrywise}

    {edges}

    Args:
        x: A real number, or a vector or matrix of them. Integers are converted to the default real type, which is the
            option `default_fp` of `sg.init`.

    Raises:
        {numbers only}"""
    return Entry(name, "x, /", first + doc, f"d {name}(x) = {derivative}")


def _of_any_type(name: str, first: str, derivative: str) -> Entry:
    """Return the manual's entry on a function whose result has the type of its argument."""
    doc = """

    {entrywise}

    {edges}

    Args:
        x: {number}

    Raises:
        {numbers only}"""
    return Entry(name, "x, /", first + doc, f"d {name}(x) = {derivative}")


def _rounding(name: str, first: str) -> Entry:
    """Return the manual's entry on the rounding function `name`, whose first sentence is `first`."""
    doc = """

    Reals stay reals, and integers are returned unchanged. {entrywise}

    {edges}

    Args:
        x: {number}
        dtype: A scalar type to convert the result to, such as `sg.i32`; None to keep the type of x.

    Raises:
        KernelTypeError: In a kernel, x is a boolean or no number, or dtype is no scalar type."""
    return Entry(name, "x, dtype=None", first + doc, f"d {name}(x) = 0")


def _extremum(name: str, first: str, sign: str) -> Entry:
    """Return the manual's entry on the function `name`, `min` or `max`, whose first sentence is `first`."""
    doc = """

    In a kernel, a single argument is a vector or a sequence of known length, whose entries are compared. Several
    vectors are compared entry by entry; a number stands for a vector of equal entries. The result has the common type.

    {edges}

    Args:
        x: A number or a vector; or, alone in a kernel, all values.
        *others: More numbers or vectors.

    Raises:
        KernelSyntaxError: In a kernel, fewer than two values are given.
        {numbers only}"""
    return Entry(name, "x, /, *others", first + doc, f"d {name}(x, y) = dx if x {sign} y else dy")


_ENTRIES = (
    _real("sin", "Return the sine of x, an angle in radians.", "cos(x) * dx"),
    _real("cos", "Return the cosine of x, an angle in radians.", "-sin(x) * dx"),
    _real("tan", "Return the tangent of x, an angle in radians.", "(1 + tan(x)**2) * dx"),
    _real("asin", "Return the arcsine of x in radians, from -π/2 to π/2.", "dx / sqrt(1 - x**2)"),
    _real("acos", "Return the arccosine of x in radians, from 0 to π.", "-dx / sqrt(1 - x**2)"),
    _real("tanh", "Return the hyperbolic tangent of x.", "(1 - tanh(x)**2) * dx"),
    _real("exp", "Return e to the power x.", "exp(x) * dx"),
    _real("log", "Return the natural logarithm of x.", "dx / x"),
    _real("sqrt", "Return the square root of x.", "dx / (2 * sqrt(x))"),
    _real("rsqrt", "Return the reciprocal square root 1/√x.", "-dx / (2 * x * sqrt(x))"),
    _real("inv", "Return the reciprocal 1/x.", "-dx / x**2"),
    _real("rcp", "Return the reciprocal 1/x, which a GPU may approximate.", "-dx / x**2"),
    Entry(
        "atan2",
        "y, x, /",
        """Return the angle of the point (x, y) in radians, from -π to π.

        {entrywise}

        {edges}

        Args:
            y: The ordinate. It is the first argument, as in Python's `math.atan2`.
            x: The abscissa. If both are integers, they are converted to the default real type.

        Raises:
            {numbers only}""",
        "d atan2(y, x) = (x * dy - y * dx) / (x**2 + y**2)",
    ),
    _of_any_type("abs", "Return the absolute value of x, in the type of x.", "sgn(x) * dx"),
    _of_any_type("sgn", "Return the sign of x: -1, 0 or 1 in the type of x.", "0"),
    _rounding("floor", "Return the greatest whole number that is at most x."),
    _rounding("ceil", "Return the least whole number that is at least x."),
    _rounding("round", "Return the whole number next to x; a half goes to the even neighbor."),
    Entry(
        "pow",
        "x, y, /",
        """Return x to the power y, like `x ** y`.

        The result has the common type of x and y, so the power of two integers is an integer. {entrywise}

        {edges}

        At y = 0 the derivative by x is 0, and at x = 0 the derivative by y is 0.

        Args:
            x: The base: a number, or a vector or matrix of numbers.
            y: The exponent, likewise.

        Raises:
            KernelTypeError: In a kernel, an argument is no number.""",
        "d pow(x, y) = y * pow(x, y - 1) * dx + pow(x, y) * log(x) * dy",
    ),
    _extremum("min", "Return the least of the values.", "<"),
    _extremum("max", "Return the greatest of the values.", ">"),
    Entry(
        "select",
        "condition, x, y, /",
        """Return x where the condition holds, and y elsewhere.

        {edges} In reverse mode both have their slopes computed too; where one of them is infinite, write
        `x if condition else y`, which computes only what it takes.

        In kernels, vectors and matrices are chosen entry by entry. Outside, the condition is one truth value.

        Args:
            condition: A boolean or a number, which holds if it is not 0.
            x: The value where the condition holds.
            y: The value elsewhere. The result has the common type of x and y.

        Raises:
            KernelTypeError: In a kernel, a value is no number.""",
        "d select(condition, x, y) = dx if condition else dy",
    ),
    Entry(
        "raw_div",
        "x, y, /",
        """Return x/y; the quotient of two integers is rounded toward zero, as in C.

        {entrywise} A real divided by zero is an infinity or NaN. An integer divided
        by zero is an error under `sg.init(debug=True)`; otherwise the result means nothing.

        Args:
            x: The dividend.
            y: The divisor. The result has the common type of x and y.

        Raises:
            {numbers only}
            DivisionByZero: An integer is divided by zero under `sg.init(debug=True)`.""",
        "d raw_div(x, y) = dx / y - x * dy / y**2",
    ),
    Entry(
        "raw_mod",
        "x, y, /",
        """Return the remainder of x/y with the sign of x, as in C; `x % y` has the sign of y.

        {entrywise} The remainder of a real by zero is NaN. An integer divided by
        zero is an error under `sg.init(debug=True)`; otherwise the result means nothing.

        Args:
            x: The dividend.
            y: The divisor. The result has the common type of x and y.

        Raises:
            {numbers only}
            DivisionByZero: An integer is divided by zero under `sg.init(debug=True)`.""",
        "d raw_mod(x, y) = dx - trunc(x / y) * dy",
    ),
    Entry(
        "frexp",
        "x, /",
        """Return the mantissa m and the exponent e of x, with x = m·2^e and 0.5 <= |m| < 1.

        In a kernel write `m, e = sg.frexp(x)`. m has the type of x, and e is an i32. Zero, NaN and infinities have
        themselves as mantissa, and the exponent 0. The exponent has no derivative.

        Args:
            x: A number. An integer is converted to the default real type.

        Raises:
            KernelTypeError: In a kernel, x is a boolean or no number.""",
        "d frexp(x)[0] = dx / 2**frexp(x)[1]",
    ),
)

MATHEMATICS = {entry.name: entry for entry in _ENTRIES}
"""Mathematical functions by name."""
