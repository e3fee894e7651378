"""This module represents the state of drawing one program: names in scope, settings, and access to arrays.

Invariants that make every program valid: a name is used only in the block that made it or deeper. A task writes an
array either only at the own element, or only by one kind of atomic, and then does not read this array elsewhere.
Integers carry their interval, so every index is inside and every trip count is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ....compiler.ir.types import Scalar, f16, f32, f64, i32, i64, u1
from ..model import nodes as m
from .draw import Chooser

LANES = (1, 2, 3, 3, 2, 3, 8, 9, 3, 2, 8, 1, 4, 2, 5, 2, 8, 3, 2, 0)
"""Extents of the parallel axis; 0 is an empty launch."""
COLUMNS = 3
SMOOTH, WILD = "smooth", "wild"
EntryShape = tuple[int, ...]
VECTORIAL = 0.125
"""Share of programs with vectors."""
SIZES = (2, 3, 2, 2, 3, 2, 2, 4)
"""Numbers of entries of the vectors of a program."""
TRIPS = (0, 4)
"""Interval of the contents of arrays that bound loops."""
RICH = 0.05
"""Share of large programs, which have several tasks, functions and deep expressions."""


@dataclass(frozen=True)
class IntInterval:
    """Represent the type and the closed interval of an integer expression."""

    dtype: Scalar
    low: int
    high: int


@dataclass(frozen=True)
class DrawnField:
    """Describe a field that a drawn program may use: its axes, contents and element shape, and if it is an output.

    Attributes:
        axes: 'lane' (extent n), 'table' (small, at least 1) or 'column' for each axis.
        content: Interval of integer contents; None for reals.
        output: True if kernels may write the array.
        element: Shape of the vectors or matrices that it holds.
        permutes: True if its contents are all different.
    """

    name: str
    dtype: Scalar
    axes: tuple[str, ...]
    content: tuple[int, int] | None = None
    output: bool = False
    element: EntryShape = ()
    permutes: bool = False


@dataclass(frozen=True)
class VectorArgument:
    """Represent an argument of the drawn kernel that is a vector."""

    dtype: Scalar
    size: int


@dataclass
class AccessRights:
    """Represent which arrays drawn statements may read, store and update at the current point of a program.

    Attributes:
        readable: Arrays that may be read at any element.
        own: Arrays whose own element may be read and stored.
        scatter: Arrays that may be updated by atomics at any element.
        atomics: Kind of atomic by array, fixed at the first use.
    """

    readable: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    scatter: frozenset[str] = frozenset()
    atomics: dict[str, str] = field(default_factory=dict)


@dataclass
class ScopedNames:
    """Represent the names that drawn expressions may use at the current point, grouped by kind of value.

    Attributes:
        ints: Names of integers, with the interval of each.
        flags: Names of boolean locals.
        fixed: Names that may not be assigned at the current point.
        indices: Indices of loops, innermost last.
        vectors: Shapes and types of vectors and matrices.
    """

    reals: dict[str, Scalar] = field(default_factory=dict)
    ints: dict[str, IntInterval] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    fixed: frozenset[str] = frozenset()
    indices: tuple[str, ...] = ()
    vectors: dict[str, tuple[EntryShape, Scalar]] = field(default_factory=dict)


@dataclass(frozen=True)
class DrawnSignature:
    """Represent the parameters and results of a function that drawn expressions may call.

    Attributes:
        params: 'real', 'int' or 'vector' for each parameter.
        annotated: True if its parameters have types.
        results: Number of reals that it returns.
        shape: Shape of the vector that it returns instead, or ().
    """

    name: str
    params: tuple[str, ...]
    annotated: bool
    results: int = 1
    shape: EntryShape = ()


class GeneratorState:
    """Hold the state of the generator of one program: settings, names in scope, and access to arrays.

    Most programs are small: mistakes of a compiler show in a few statements, and many small programs reach more
    combinations of statements in the same time than few large ones. A generator may override rich_share,
    vectorial_share and extents.

    Attributes:
        wild: True for the whole language, False for bounded values that have a gradient.
        rich: True if the program is large.
        vectorial: True if the program has vectors, of `size` entries and of the shapes in `shapes`, which repeat
            frequent shapes.
        side: The side of zero on which all values of an extreme in memory lie; 0 for both sides.
        lane: Indices of the loop over lanes.
        group: Name of the vector of these indices, or empty.
        kinds: Types of declared names.
    """

    rich_share = RICH
    vectorial_share = VECTORIAL
    extents: tuple[int, ...] = LANES

    def __init__(self, draw: Chooser, profile: str) -> None:
        self.draw = draw
        self.profile = profile
        self.wild = profile == WILD
        self.rich = draw.boolean(self.rich_share)
        self.main = draw.choice((f64, f32, f32, f64))
        self.n = draw.choice(self.extents)
        self.table = draw.choice((2, 3, 4, 5))
        self.vectorial = draw.boolean(self.vectorial_share)
        self.rich = self.rich and not (self.vectorial and draw.boolean(0.8))
        self.size = draw.choice(SIZES)
        matrices = self.size == 2 and draw.boolean(0.9)
        self.shapes: tuple[EntryShape, ...] = ((self.size,), (self.size,), (2, 2)) if matrices else ((self.size,),)
        self.arrays = {a.name: a for a in _pool(draw, self.main, self.wild, self.table)}
        if self.vectorial:
            self.arrays |= {a.name: a for a in _vectors(self.main, self.size, matrices)}
        self.side = draw.choice((0, 1, 0, -1))
        self.arguments: dict[str, IntInterval | Scalar | VectorArgument] = {}
        self.names = ScopedNames()
        self.access = AccessRights()
        self.loops: tuple[str, ...] = ()
        self.lane: tuple[str, ...] = ()
        self.group = ""
        self.functions: list[DrawnSignature] = []
        self.in_function = False
        self._used: dict[str, int] = {}
        self.kinds: dict[str, m.Param] = {}

    @property
    def depth(self) -> int:
        """Return the number of levels of operators that a drawn expression may have: 1 or 2."""
        return 2 if self.rich or self.draw.boolean(0.06) else 1

    def fresh(self, base: str) -> str:
        """Return a name that starts with `base` and is unique in the program."""
        self._used[base] = self._used.get(base, -1) + 1
        return f"{base}{self._used[base]}"

    @contextmanager
    def block(self, *loops: str, indices: dict[str, IntInterval] | None = None) -> Iterator[None]:
        """Open a scope for names inside the `with` block, for code inside further loops with these indices.

        Args:
            loops: Kinds of the loops that the block adds.
            indices: Indices of these loops with their intervals.
        """
        names, outer = self.names, self.loops
        found = indices or {}
        self.names = ScopedNames(
            dict(names.reals),
            names.ints | found,
            names.flags,
            names.fixed | set(found),
            (*names.indices, *found),
            dict(names.vectors),
        )
        self.loops = (*outer, *loops)
        yield
        self.names, self.loops = names, outer

    @contextmanager
    def only_reading(self) -> Iterator[None]:
        """Forbid calls of functions during the `with` block, as bounds and loop conditions demand."""
        kept, self.functions = self.functions, []
        yield
        self.functions = kept

    # -- what is in scope -----------------------------------------------------------------------------------

    def assignable(self, names: Iterable[str]) -> list[str]:
        """Return the names that may be assigned at the current point."""
        return [name for name in names if name not in self.names.fixed]

    def extent(self, axis: str) -> int:
        """Return the extent of an axis, given its kind, such as 'lane' or 'table'."""
        return {"lane": self.n, "table": self.table, "column": COLUMNS}[axis]

    def reachable(self, array: DrawnField) -> bool:
        """Return True if an element of the array can be indexed here; an array without elements has no index.

        Outside a loop over lanes, an empty launch has no index for the lanes.
        """
        return self.n > 0 or bool(self.lane) or "lane" not in array.axes

    def readable(self, real: bool) -> list[DrawnField]:
        """Return the scalar arrays, of reals or of integers, that may be read at any element."""
        found = [self.arrays[name] for name in sorted(self.access.readable)]
        found = [a for a in found if not a.element and self.reachable(a)]
        return [a for a in found if a.dtype.is_real is real and not a.dtype.is_bool]

    def declare_real(self, dtype: Scalar, base: str = "v") -> m.Name:
        """Add a new real local to the scope and return its name, which the caller must assign at once."""
        name = self.fresh(base)
        self.names.reals[name] = dtype
        self.kinds[name] = m.Param(name, dtype)
        return m.Name(name)

    def declare_vector(self, shape: EntryShape, dtype: Scalar) -> m.Name:
        """Add a new local vector or matrix to the scope and return its name, which the caller must assign at once."""
        name = self.fresh("vec" if len(shape) == 1 else "mat")
        self.names.vectors[name] = (shape, dtype)
        self.kinds[name] = m.Param(name, dtype, shape)
        return m.Name(name)

    def declare_int(self, whole: IntInterval, base: str = "k") -> m.Name:
        """Add a new integer local to the scope and return its name, which the caller must assign at once."""
        name = self.fresh(base)
        self.names.ints[name] = whole
        self.kinds[name] = m.Param(name, whole.dtype)
        return m.Name(name)

    def fix(self, *names: str) -> None:
        """Forbid assignments to these names until the end of the block that is being drawn."""
        self.names = replace(self.names, fixed=self.names.fixed | set(names))


def _pool(draw: Chooser, main: Scalar, wild: bool, table: int) -> list[DrawnField]:
    """Return the scalar fields that a program may use; fields that it does not use are removed at the end."""
    other = f32 if main == f64 else f64
    second = draw.choice((main, main, main, main, main, other))
    third = draw.choice((main, main, f16)) if wild else main
    lane, row, place = ("lane",), ("lane", "column"), ("table",)
    return [
        DrawnField("x", main, lane),
        DrawnField("w", second, place),
        DrawnField("g", main, row),
        DrawnField("q", main, ()),
        DrawnField("u", third, lane),
        DrawnField("c", i32, lane, (0, table - 1)),
        DrawnField("b", i32, lane, TRIPS),
        DrawnField("v", i32, place, TRIPS),
        DrawnField("m", i32, (), TRIPS),
        DrawnField("h", i64, lane, (0, 9)),
        DrawnField("p", u1, lane, (0, 1)),
        DrawnField("y", main, lane, output=True),
        DrawnField("o", second, lane, output=True),
        DrawnField("z", main, place, output=True),
        DrawnField("s", main, (), output=True),
        DrawnField("r", main, row, output=True),
        DrawnField("e", main, place, output=True),
        DrawnField("d", i32, lane, TRIPS, output=True),
        DrawnField("a", i32, place, None, output=True),
        DrawnField("l", i64, place, None, output=True),
    ]


def _vectors(main: Scalar, size: int, matrices: bool) -> list[DrawnField]:
    """Return the fields of vectors and matrices that a program may use."""
    lane, place, element = ("lane",), ("table",), (size,)
    found = [
        DrawnField("X", main, lane, element=element),
        DrawnField("W", main, place, element=element),
        DrawnField("Y", main, lane, output=True, element=element),
        DrawnField("Z", main, place, output=True, element=element),
    ]
    if matrices:
        found += [
            DrawnField("M", main, place, element=(2, 2)),
            DrawnField("N", main, lane, output=True, element=(2, 2)),
        ]
    return found
