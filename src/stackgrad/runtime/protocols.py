"""This module defines names, each Any, for types that the runtime stores but cannot import without a cycle.

Each name stands for one class, and is Any because an import of the class, even for type checkers only, would make the
package `runtime` depend on packages that depend on it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Array: TypeAlias = Any
"""A `data.fields.Array`: the memory of a field or of an ndarray."""

Binding: TypeAlias = Any
"""A `launch.program.Binding`: a program with the arrays of a launch."""

Replaced: TypeAlias = Any
"""A `launch.program.Replaced`: what a launch runs in place of a binding."""

Backward: TypeAlias = Any
"""A `launch.directions.BoundGradient`: the gradient of a launch, ready to be launched."""

Capture: TypeAlias = Any
"""A `capture.Capture`: a list of launches that someone collects."""
