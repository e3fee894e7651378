"""Copy the contents of all fields, so that gradient checks can run kernels again from the same contents."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..data.fields import Array
from ..runtime.session import RUNTIME, stamp
from .gradients import companions


class FieldsSnapshot:
    """Hold copies of all arrays of the runtime that have memory, gradients included, to restore them later.

    Attributes:
        launch_number: The number of the next launch that draws random numbers.
        contents: For each array, a copy of its contents, and its array version.
    """

    def __init__(self) -> None:
        self.launch_number = RUNTIME.launch_number
        self.contents = {array: (array.memory.copy(), array.version) for array in _everything()}

    def restore(self, exactly: bool = False) -> None:
        """Restore the contents of every field. If `exactly`, restore the array versions too, else assign new ones.

        Args:
            exactly: True to put versions back too, as if nothing had happened in between.
        """
        RUNTIME.launch_number = self.launch_number
        for array, (content, version) in self.contents.items():
            array.memory[...] = content
            array.version = version if exactly else stamp()

    def of(self, array: Array) -> np.ndarray:
        """Return the contents that an array had when the snapshot was made."""
        return self.contents[array][0]


def _everything() -> Iterable[Array]:
    """Yield all live arrays with memory, and their adjoints and tangents."""
    for array in RUNTIME.fields:
        yield array
        yield from (beside for beside in companions(array) if beside.is_placed)
