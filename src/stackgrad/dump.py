"""Texts of kernels, written to a folder as they are compiled, where the environment asks for them."""
from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .compiler.ir.nodes import Kernel

if TYPE_CHECKING:
    from .backends.launcher import Lowered


def dump_kernels(source: Kernel, lowered: Lowered, kind: str) -> None:
    """Write the texts of a kernel into the folder STACKGRAD_DUMP_IR, if that is set."""
    folder = os.environ.get("STACKGRAD_DUMP_IR")
    if not folder:
        return
    from .compiler.ir.printer import print_kernel

    Path(folder).mkdir(parents=True, exist_ok=True)
    texts = {"source": source, kind: lowered.kernel, f"{kind}.counting": lowered.counting}
    for stage, kernel in texts.items():
        if kernel is not None:
            (Path(folder) / f"{source.name}.{stage}.ir").write_text(print_kernel(kernel))
