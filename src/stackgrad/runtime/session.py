"""Define `RUNTIME`, which holds the settings of `init`, the live fields, and the active tapes and modes.

Invariant: `generation` grows with every `init` and `reset`; a field or a compiled kernel of another generation is
stale and never launched. `stamp()` never returns a number twice, so equal versions mean equal contents.
"""

from __future__ import annotations

import itertools
import os
import threading
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..backends import disk_cache, registry
from ..backends.forks import free_in_child
from ..backends.words import GENERATION, WATCHED, words
from ..compiler.errors import DeviceError, warn
from ..compiler.ir.types import SCALARS, Scalar, f32, f64, i32, i64
from . import dialect_options
from .thread_state import ForwardMode, ThreadState, ThreadStates, Watcher, WeakCollection
from .usage_errors import OptionError, close_names

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ..backends.base import Backend, Draws, Options, Remote
    from ..backends.launching.launcher import Launcher
    from .protocols import Array, Capture

ARCHES = tuple(sorted(registry.launching(), key=lambda name: name != "cpu"))
"""What `init` takes as `arch`, the default first."""
ALIASES = {"x64": "cpu", "arm64": "cpu", "gpu": "cuda"}

stamp = itertools.count(1, 2).__next__
"""Return a version number that was never given before in this process. Native code gives the even ones."""


@dataclass(frozen=True)
class Settings:
    """Hold the settings that `init` chose, under the names of its arguments."""

    arch: str = "cpu"
    default_fp: Scalar = f32
    default_ip: Scalar = i32
    debug: bool = False
    precise: bool = False
    random_seed: int = 0
    threads: int | None = None  # The maximum for a launch on a CPU; None means all cores of this process.
    debug_info: bool = False
    deterministic: bool = False
    bounds: bool = True


WATCHERS = ("capture", "profiles")
"""Attributes of the runtime that must see the launches of all threads, unless they are None or empty."""


class Runtime:
    """Represent the state of the runtime in this process: settings, backend, fields and watchers.

    `tapes`, `forward` and `tracing` are those of the calling thread; `capture` and `profiles` are for all threads.
    `words` holds the flags that machine code reads before a ready launch, see backends/words.py; every assignment to
    another attribute updates them. `remote` is the backend if arrays lie in device memory; None if launches have ended
    when their calls return.
    """

    __slots__ = (
        "settings",
        "generation",
        "initialized",
        "fields",
        "launchers",
        "threads",
        "capture",
        "launch_number",
        "profiles",
        "words",
        "remote",
        "copies",
        "traces",
        "before_use",
        "matrix_truth",
        "waiting",
        "_backend",
        "_lock",
        "__weakref__",
    )

    def __init__(self) -> None:
        self.words = words((0, 0, 0))
        self._lock = free_in_child(threading.RLock())
        self.threads = ThreadStates()
        self.settings = Settings()
        self.generation = 0
        self.initialized = False
        self.fields: WeakCollection[Array] = WeakCollection()
        self.launchers: WeakCollection[Launcher] = WeakCollection()
        self.copies: dict[object, Any] = {}
        self.traces: dict[Hashable, Any] = {}  # See launch/shared_traces.py.
        self.before_use: Callable[[], None] | None = None
        self.matrix_truth: Callable[[], bool] | None = None  # Set where programs of peers run, see compat/truth.py.
        self.waiting: list[Any] = []  # Weak references to arrays, see first_use.py.
        self.capture: Capture | None = None
        self.launch_number = 0
        self.profiles: tuple[object, ...] = ()
        self.remote: Remote | None = None
        self._backend: Backend | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; if it is a watcher such as a tape, switch launches by the trampoline on or off."""
        object.__setattr__(self, name, value)
        if name == "generation":
            self.words[GENERATION] = value
        elif name in WATCHERS:
            self._tell(self.threads.own)

    def _tell(self, own: ThreadState) -> None:
        """Record if launches must go through Python because a tape or another watcher of any thread is active."""
        with self._lock:
            watched = [getattr(self, watcher, None) for watcher in WATCHERS]
            self.words[WATCHED] = self.threads.note(own) or any(one is not None and one != () for one in watched)

    def _set_own(self, own: ThreadState, name: str, value: Any) -> None:
        setattr(own, name, value)
        self._tell(own)

    @property
    def tapes(self) -> tuple[Watcher, ...]:
        """Return the tapes and backward passes that are active in this thread, the innermost last."""
        return self.threads.own.tapes

    @tapes.setter
    def tapes(self, tapes: tuple[Watcher, ...]) -> None:
        self._set_own(self.threads.own, "tapes", tapes)

    @property
    def forward(self) -> ForwardMode | None:
        """Return the forward mode that is active in this thread, or None if none is."""
        return self.threads.own.forward

    @forward.setter
    def forward(self, mode: ForwardMode | None) -> None:
        self._set_own(self.threads.own, "forward", mode)

    @property
    def tracing(self) -> bool:
        """Return True if the calling thread is tracing a kernel."""
        return self.threads.own.tracing

    @tracing.setter
    def tracing(self, is_tracing: bool) -> None:
        self._set_own(self.threads.own, "tracing", is_tracing)

    def abandon(self, own: ThreadState, watcher: Watcher | ForwardMode) -> None:
        """Detach a tape or forward mode from the thread that entered it, so that it gets no more notifications."""
        self._set_own(own, "tapes", tuple(t for t in own.tapes if t is not watcher))
        if own.forward is watcher:
            self._set_own(own, "forward", None)

    def ensure(self) -> None:
        """Initialize the runtime with default settings unless `init` was called."""
        if not self.initialized:
            init()

    def restart(self, settings: Settings) -> None:
        """Drop all fields, kernels and adstack memory, and apply new settings."""
        if self._backend is not None:
            self._backend.reset()
        self.settings = settings
        self.generation += 1
        self.fields, self.launchers = WeakCollection(), WeakCollection()
        self.copies, self.traces, self.waiting = {}, {}, []
        self.threads = ThreadStates()
        self._tell(self.threads.own)
        self.launch_number = 0
        self._backend = self.remote = None

    def choose(self, backend: Backend) -> None:
        """Make `backend` the backend of all further launches."""
        self._backend = backend
        from ..backends.base import Remote

        self.remote = backend if isinstance(backend, Remote) else None

    @property
    def backend(self) -> Backend:
        """Return the backend of `settings.arch`. Raise DeviceError if it cannot run on this machine."""
        self.ensure()
        if self._backend is None:
            self.choose(available(self.settings.arch))
        assert self._backend is not None
        return self._backend

    def settle(self) -> None:
        """Wait for all launches that are still running on a device. Raise their errors."""
        if self.remote is not None:
            self.remote.wait()

    @property
    def has_backend(self) -> bool:
        """Return True if the runtime has a backend, which `init` chooses."""
        return self._backend is not None

    @property
    def options(self) -> Options:
        """Return the compiler options for the backend that follow from the settings."""
        from ..backends.base import Options

        threads = _threads(self.settings.threads)
        chosen = self.settings
        return Options(
            chosen.debug,
            chosen.precise,
            threads=threads,
            debug_info=chosen.debug_info,
            deterministic=chosen.deterministic,
            bounds=chosen.bounds,
        )

    def draws(self) -> Draws:
        """Return the random key for the next forward launch that draws random numbers."""
        from ..backends.base import Draws

        with self._lock:
            self.launch_number += 1
            return Draws(self.settings.random_seed, self.launch_number)


RUNTIME = Runtime()


def available(arch: str) -> Backend:
    """Return the backend of this name if it can run here. Raise DeviceError with reason and cure otherwise."""
    from ..backends import registry

    try:
        backend: Backend = registry.get(arch)
    except (ImportError, KeyError) as problem:
        raise DeviceError(f"{arch} is not available here: {_first_line(problem)}; cure: use sg.cpu") from problem
    probe = backend.probe()
    if not probe.available:
        cure = probe.cure or "use sg.cpu"
        raise DeviceError(f"{arch} is not available here: {probe.reason}; cure: {cure}")
    return backend


def _first_line(problem: BaseException) -> str:
    text = str(problem).splitlines()
    return f"{type(problem).__name__}: {text[0] if text else ''}"


def init(
    arch: str | ModuleType | None = None,
    default_fp: Scalar | type | None = None,
    default_ip: Scalar | type | None = None,
    debug: bool = False,
    random_seed: int = 0,
    precise: bool = False,
    debug_info: bool = False,
    deterministic: bool = False,
    bounds: str = "checked",
    **dialect: Any,  # each option has a type of its own, and most are ignored
) -> None:
    """Start or restart the runtime; earlier fields become unusable, and kernels are compiled again when called.

    An unknown option raises OptionError. A backend that cannot run on this machine raises DeviceError.

    Args:
        arch: `sg.cpu` (default, or as STACKGRAD_ARCH says), `sg.reference`, `sg.cuda` (`sg.gpu`) or `sg.vulkan`.
        default_fp: Type of Python floats in kernels: sg.f16, sg.f32 (default) or sg.f64.
        default_ip: Type of Python ints in kernels: sg.i32 (default), sg.i64 or another.
        debug: True to check indices, asserts and integer divisions in kernels, and the IR after each pass.
        random_seed: Seed of the numbers that `sg.random` returns.
        precise: True to forbid contraction and approximation of reals.
        debug_info: True to put the program's lines into machine code, for debuggers; also by STACKGRAD_DEBUG_INFO.
        deterministic: True for the same bits in each run, at a price (docs/cuda.md).
        bounds: "checked": an index outside raises OutOfBounds; "off": it accesses what lies there (docs/bounds.md).
        **dialect: Options of Quadrants and Taichi; see docs/migrating.md.
    """
    _check_options(dialect)
    real, whole = f32 if default_fp is None else default_fp, i32 if default_ip is None else default_ip
    settings = _settings(arch, real, whole, debug, random_seed, precise, debug_info, deterministic, bounds, dialect)
    settings, backend = _started(settings, is_fallback=bool(dialect.get("enable_fallback", False)))
    _choose_cache(dialect)
    dialect_options.note_ignored(dialect)
    RUNTIME.restart(settings)
    RUNTIME.choose(backend)
    RUNTIME.initialized = True


def _check_options(dialect: dict[str, Any]) -> None:
    """Raise OptionError for a name that is no option of `init`."""
    for name in dialect:
        if name not in dialect_options.OPTIONS:
            own = list(Settings.__dataclass_fields__)
            near = close_names(name, [*own, *dialect_options.OPTIONS])
            raise OptionError(f"init has no option {name!r}", near or f"its own options are {', '.join(own)}")


def _started(settings: Settings, is_fallback: bool) -> tuple[Settings, Backend]:
    """Return the settings and their backend; with `is_fallback`, those of the CPU if the arch cannot run here."""
    try:
        return settings, available(settings.arch)
    except DeviceError as problem:
        if not is_fallback:
            raise
        warn(f"{problem}; the CPU runs the kernels instead", RuntimeWarning)
        return replace(settings, arch="cpu"), available("cpu")


def _bounds(given: Any) -> bool:
    """Return the option `bounds` of `init` as a bool: True for "checked", False for "off". Raise OptionError else."""
    if isinstance(given, str) and given in ("checked", "off"):
        return given == "checked"
    raise OptionError(f"bounds cannot be {given!r}", 'bounds="checked", the default, or bounds="off"')


def _settings(
    arch: str | ModuleType | None,
    default_fp: Scalar | type,
    default_ip: Scalar | type,
    debug: bool,
    random_seed: int,
    precise: bool,
    debug_info: bool,
    deterministic: bool,
    bounds: str,
    dialect: dict[str, Any],
) -> Settings:
    """Return the settings that follow from the arguments of `init` and from environment variables."""
    return Settings(
        arch=_arch(arch if arch is not None else os.environ.get("STACKGRAD_ARCH", "cpu")),
        default_fp=_default("default_fp", default_fp, real=True),
        default_ip=_default("default_ip", default_ip, real=False),
        debug=bool(debug or dialect.get("check_out_of_bound", False)),
        precise=bool(precise or not dialect.get("fast_math", True)),
        random_seed=int(random_seed),
        threads=_most_threads(dialect.get("cpu_max_num_threads")),
        debug_info=bool(debug_info or os.environ.get("STACKGRAD_DEBUG_INFO", "0") not in ("", "0")),
        deterministic=bool(deterministic),
        bounds=_bounds(bounds),
    )


def _choose_cache(dialect: dict[str, Any]) -> None:
    folder = dialect.get("offline_cache_file_path")
    named = os.fspath(folder) if isinstance(folder, str | os.PathLike) else ""
    disk_cache.choose_cache(bool(dialect.get("offline_cache", True)), str(named))


def _most_threads(given: Any) -> int | None:
    if given is None or (isinstance(given, int) and given >= 1):
        return given
    raise OptionError(f"cpu_max_num_threads cannot be {given!r}", "a number of threads, at least 1")


def _threads(most: int | None) -> int:
    """Return the number of CPU threads for a launch: all cores, limited by `most` if it is given."""
    from ..backends.cpu.cores import available as cores

    return cores() if most is None else min(most, cores())


def reset() -> None:
    """Drop all fields, kernels and adstack memory; the next use initializes the runtime with default settings."""
    RUNTIME.restart(Settings())
    RUNTIME.initialized = False


def sync() -> None:
    """Wait until all launches have ended on all devices, and raise the errors of these launches."""
    wait = getattr(RUNTIME._backend, "sync", None)
    if wait is not None:
        wait()


def _arch(arch: object) -> str:
    if isinstance(arch, ModuleType):  # `sg.reference` is the package of the interpreter once that is loaded.
        arch = arch.__name__.rpartition(".")[2]
    name = ALIASES.get(str(arch), str(arch))
    if name not in ARCHES:
        known = [*ARCHES, *ALIASES]
        raise OptionError(f"there is no arch {arch!r}", close_names(str(arch), known) or f"one of {', '.join(known)}")
    return name


_PYTHON_TYPES: dict[bool, dict[object, Scalar]] = {True: {float: f64}, False: {int: i64}}


def _default(option: str, given: object, real: bool) -> Scalar:
    found = _PYTHON_TYPES[real].get(given, given)
    if isinstance(found, Scalar) and (found.is_real if real else found.is_int):
        return found
    fit = [f"sg.{t.name}" for t in SCALARS.values() if (t.is_real if real else t.is_int)]
    raise OptionError(f"{option} cannot be {given!r}", f"one of {', '.join(fit)}")
