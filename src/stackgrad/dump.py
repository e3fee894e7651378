"""Texts of kernels, written to a folder as they are compiled, where the environment asks for them."""
from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .compiler.ir.nodes import Kernel
from .usage import OptionError

if TYPE_CHECKING:
    from .backends.launcher import Lowered


def dump_kernels(source: Kernel, lowered: Lowered, kind: str) -> None:
    """Write the texts of a kernel into the folder STACKGRAD_DUMP_IR, if that is set. Raises OptionError."""
    folder = os.environ.get("STACKGRAD_DUMP_IR")
    if not folder:
        return
    from .compiler.ir.printer import print_kernel

    texts = {"source": source, kind: lowered.kernel, f"{kind}.counting": lowered.counting}
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for stage, kernel in texts.items():
            if kernel is not None:
                (Path(folder) / f"{source.name}.{stage}.ir").write_text(print_kernel(kernel), encoding="utf-8")
    except OSError as error:
        raise OptionError(f"STACKGRAD_DUMP_IR: {error.filename or folder}: {error.strerror}",
                          "name a folder that can be made") from None  # fmt: skip
