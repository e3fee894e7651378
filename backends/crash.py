"""Write a folder with all that is needed to reproduce a defect of the compiler.

A folder is written when a verifier, LLVM or the linker refuses what the compiler made. No function of this module
raises: a folder that cannot be written is left out of the message, and the defect is reported all the same.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path

from ..compiler.errors import InternalError
from ..compiler.ir.kernels import Kernel
from ..compiler.ir.printer import print_kernel
from .disk_cache import version_of

_MODULES = ("numpy", "llvmlite")
_MOST = 10
"""Greatest number of folders of one process, so that a defect that strikes everywhere does not fill the disk."""
_written: list[Path] = []


def crash_error(
    what: str, error: BaseException, kernels: Mapping[str, Kernel], files: Mapping[str, str | bytes], **about: object
) -> InternalError:
    """Write a folder with files that reproduce a failed compilation; return an InternalError that names the folder.

    Args:
        what: what failed, in words
        error: exception that ended the compilation
        kernels: kernels by the stem of their file
        files: texts, and bytes of modules that have no text, by the name of their file
        **about: options and other values that decided what was made
    """
    name = next((kernel.name for kernel in kernels.values()), "")
    reason = f"kernel {name}: {what}: {error}" if name else f"{what}: {error}"
    folder = _write(reason, error, kernels, files, about)
    if folder is None:
        return InternalError("\n".join([reason, *(text for text in files.values() if isinstance(text, str))]))
    return InternalError(f"{reason}\n    a defect of the compiler; to report it, send the folder {folder}")


def _write(
    reason: str,
    error: BaseException,
    kernels: Mapping[str, Kernel],
    files: Mapping[str, str | bytes],
    about: Mapping[str, object],
) -> Path | None:
    """Write a crash folder and return its path; return None if writing fails or the process wrote _MOST folders."""
    if len(_written) >= _MOST:
        return None
    try:
        folder = Path(tempfile.mkdtemp(prefix="stackgrad-crash-", dir=os.environ.get("STACKGRAD_CRASH_DIR") or None))
        trace = "".join(traceback.format_exception(error))
        (folder / "message.txt").write_text(f"{reason}\n\n{trace}")
        (folder / "about.json").write_text(json.dumps(_about(about), indent=2) + "\n")
        for stem, kernel in kernels.items():
            (folder / f"{stem}.kir").write_text(print_kernel(kernel) + "\n")
        for name, content in files.items():
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    except Exception:
        return None
    _written.append(folder)
    return folder


def _about(given: Mapping[str, object]) -> dict[str, object]:
    """Return versions, platform, environment and the given values, for `about.json`."""
    root = sys.modules[__name__.partition(".")[0]]
    return {
        "stackgrad": str(getattr(root, "__version__", "")),
        "python": sys.version,
        "platform": platform.platform(),
        "machine": platform.machine(),
        **{name: version_of(name) for name in _MODULES},
        "environment": {k: v for k, v in os.environ.items() if k.startswith("STACKGRAD_")},
        **{name: value if isinstance(value, str | int) else repr(value) for name, value in given.items()},
    }
