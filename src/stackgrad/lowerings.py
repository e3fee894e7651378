"""What the compiler makes of a kernel, kept on disk: the next process reads it instead of deriving it again.

The key is the kernel without its source lines, how it is lowered and by which compiler; so a kernel that has only moved
in its file is found, and read with the lines of today. Invariant: the same as `prepare` gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .backends import disk_cache
from .backends.crash import crashed
from .compiler.errors import VerifyError
from .compiler.ir.codec import CodecError, decode, encode, pattern, set_identity
from .compiler.ir.nodes import Kernel, StackAlloca
from .compiler.ir.verify import verify
from .compiler.ir.walk import walk_kernel

if TYPE_CHECKING:
    from .compiler.driver import Lowered


def lowered(prepare: Callable[..., Lowered], kernel: Kernel, *args: Any, **options: Any) -> Lowered:
    """`prepare(kernel, *args, **options)`, one of the pipelines of the driver; also the errors that it raises.

    Kernels of the result are known by their identity, and so is the machine code made of them.
    """
    cache = disk_cache.active()
    if cache is None or options.get("check"):  # passes are checked by running them
        return _prepared(prepare, kernel, args, options)
    key = _key(prepare, kernel, args, options)
    if key is None:
        return _prepared(prepare, kernel, args, options)
    found = _read(cache.get(key), kernel)
    if found is None:
        found = _prepared(prepare, kernel, args, options)
        try:
            cache.put(key, encode(found, kernel.locations))
        except CodecError:  # a span of no line of the kernel: it would not move with the lines
            return found
    return _identified(found, key)


def _prepared(
    prepare: Callable[..., Lowered], kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]
) -> Lowered:
    """The result of a pipeline. A verifier's refusal of what a pass made, of a sound kernel, is a defect."""
    try:
        return prepare(kernel, *args, **options)
    except VerifyError as error:
        verify(kernel, "adjoint" if any(isinstance(s, StackAlloca) for s in walk_kernel(kernel)) else "source")
        what = f"{prepare.__name__} made what the verifier refuses"
        raise crashed(what, error, {"source": kernel}, {}, arguments=args, **options) from error


def _key(
    prepare: Callable[..., Lowered], kernel: Kernel, args: tuple[Any, ...], options: dict[str, Any]
) -> bytes | None:
    from .compiler.ad.policies import policy_of

    bare = replace(kernel, locations=())
    given = tuple(sorted(options.items()))
    try:
        text = encode((bare, pattern(kernel.locations), args, given))
    except CodecError:
        return None
    return disk_cache.key("lowered", disk_cache.made_by(), prepare.__name__, policy_of("").name, text)


def _read(data: bytes | None, kernel: Kernel) -> Lowered | None:
    if data is None:
        return None
    try:
        found: Lowered = decode(data, kernel.locations)
    except CodecError:
        return None
    return found


def _identified(made: Lowered, key: bytes) -> Lowered:
    marked = {name: getattr(made, name) for name in ("marking", "claims")}
    kernels = {"kernel": made.kernel, "counting": made.counting}
    kernels |= {name: marking.kernel for name, marking in marked.items() if marking is not None}
    for name, kernel in kernels.items():
        if kernel is not None:
            set_identity(kernel, disk_cache.key(key, name))
    return made
