"""Write the IR of kernels to the folder in STACKGRAD_DUMP_IR while the kernels are compiled."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..compiler.ir.kernels import Kernel
from .usage_errors import OptionError

if TYPE_CHECKING:
    from ..backends.launching.launcher import LoweringLike


def dump_kernels(source: Kernel, lowered: LoweringLike, kind: str) -> None:
    """Write the IR text of a kernel and its lowering to the folder in STACKGRAD_DUMP_IR, if the variable is set.

    A link in the place of a file is replaced and not followed, because other users may write to the folder.

    Args:
        source: The kernel before lowering.
        lowered: The result of lowering it, with the counting kernel if there is one.
        kind: The direction, such as "forward" or "reverse". It becomes part of the file names.

    Raises:
        OptionError: The folder cannot be made or written.
    """
    folder = os.environ.get("STACKGRAD_DUMP_IR")
    if not folder:
        return
    from ..backends.folders import write_beside
    from ..compiler.ir.printer import print_kernel

    texts = {"source": source, kind: lowered.kernel, f"{kind}.counting": lowered.counting}
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for stage, kernel in texts.items():
            if kernel is not None:
                name = re.sub(r"[^\w.<>-]", "_", source.name)
                write_beside(Path(folder) / f"{name}.{stage}.ir", print_kernel(kernel))
    except OSError as error:
        raise OptionError(
            f"STACKGRAD_DUMP_IR: {error.filename or folder}: {error.strerror or error}",
            "name a folder that can be made",
        ) from None
