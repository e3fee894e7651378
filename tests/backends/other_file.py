"""Define a function that kernels of another file call."""

from __future__ import annotations

from typing import Any

import stackgrad as sg


@sg.func
def squared(v: Any) -> Any:
    return v * v * 0.5  # line: square
