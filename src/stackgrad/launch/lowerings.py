"""Cache the lowerings of kernels on disk, so that later processes need not compute them again.

The key is made of the kernel without its source lines, of the way it is lowered, and of the compiler. So a kernel that
has only moved in its file is found, and is read with its present lines. Invariant: the result is the same as the result
of `prepare`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..backends import disk_cache
from ..backends.crash import crash_error
from ..compiler.errors import VerifyError
from ..compiler.ir.codec import CodecError, decode, encode, first_equal_spans, set_identity
from ..compiler.ir.kernels import Kernel
from ..compiler.ir.nodes import StackAlloca
from ..compiler.ir.verify import verify
from ..compiler.ir.walk import walk_kernel
from ..runtime.session import RUNTIME

if TYPE_CHECKING:
    from ..compiler.driver import Lowering


def block_options(kernel: Kernel) -> dict[str, str]:
    """Return the option of `prepare_forward` that says how the backend runs blocks, if the kernel has blocks."""
    if not any(task.block for task in kernel.tasks):
        return {}
    # One thread runs each task of a deterministic launch in order, so no threads can wait for each other.
    return {"blocks": "loops" if RUNTIME.options.deterministic else RUNTIME.backend.blocks}


def cached_lowering(prepare: Callable[..., Lowering], kernel: Kernel, *args: Any, **options: Any) -> Lowering:
    """Return the result of `prepare(kernel, *args, **options)`, read from the disk cache if possible.

    The result gets an identity derived from the cache key, by which machine code made of its kernels is found again.

    Args:
        prepare: One of the pipelines of the driver. Its errors are raised here too.
        kernel: The source kernel.
        *args: Further arguments of the pipeline.
        **options: Keywords of the pipeline.
    """
    cache = disk_cache.active_cache()
    # The option `check` verifies each pass, so the passes have to run.
    if cache is None or options.get("check"):
        return _prepared(prepare, kernel, args, options)
    key = _key(prepare, kernel, args, options)
    if key is None:
        return _prepared(prepare, kernel, args, options)
    found = _read(cache.get(key), kernel)
    if found is None:
        found = _prepared(prepare, kernel, args, options)
        try:
            cache.put(key, encode(found, kernel.locations))
        # The result names a line that the kernel does not have. This line would not move together with the kernel.
        except CodecError:
            return found
    return _identified(found, key)


def _prepared(
    prepare: Callable[..., Lowering], kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]
) -> Lowering:
    """Return the lowering that the pipeline `prepare` computes.

    An error of the IR verifier on a valid source kernel is a defect of the compiler, and is reported as such.
    """
    try:
        return prepare(kernel, *args, **options)
    except VerifyError as error:
        # This raises if the source kernel itself is wrong; then the mistake is not in a pass.
        verify(kernel, "adjoint" if any(isinstance(s, StackAlloca) for s in walk_kernel(kernel)) else "source")
        what = f"{prepare.__name__} made what the verifier refuses"
        raise crash_error(what, error, {"source": kernel}, {}, arguments=args, **options) from error


def _key(
    prepare: Callable[..., Lowering], kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]
) -> bytes | None:
    """Return the cache key of a lowering, or None if an argument cannot be encoded."""
    from ..compiler.ad.policies import policy_of

    bare = replace(kernel, locations=())
    given = tuple(sorted(options.items()))
    try:
        text = encode((bare, first_equal_spans(kernel.locations), args, given))
    except CodecError:
        return None
    return disk_cache.entry_key("lowered", disk_cache.package_hash(), prepare.__name__, policy_of("").name, text)


def _read(data: bytes | None, kernel: Kernel) -> Lowering | None:
    """Return the lowering that cached data encodes, or None if there is no data or it cannot be decoded."""
    if data is None:
        return None
    try:
        found: Lowering = decode(data, kernel.locations)
    except CodecError:
        return None
    return found


def _identified(made: Lowering, key: bytes) -> Lowering:
    """Set the identity of each kernel in a lowering, derived from the cache key. Return the lowering."""
    marked = {name: getattr(made, name) for name in ("marking", "claims")}
    kernels = {"kernel": made.kernel, "counting": made.counting}
    kernels |= {name: marking.kernel for name, marking in marked.items() if marking is not None}
    for name, kernel in kernels.items():
        if kernel is not None:
            set_identity(kernel, disk_cache.entry_key(key, name))
    return made
