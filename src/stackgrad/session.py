"""The runtime state: what `init` chose, the live fields, and who watches launches. One object, `RUNTIME`.

Invariant: `generation` grows with every `init` and `reset`; a field or a compiled kernel of another generation is
stale and never launched. `stamp()` never gives a number twice, so equal versions mean equal content.
"""

from __future__ import annotations

import itertools
import os
import threading
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .backends import disk_cache
from .backends.forks import free_in_child
from .backends.words import GENERATION, WATCHED, words
from .compiler.errors import DeviceError
from .compiler.ir.types import SCALARS, Scalar, f32, f64, i32, i64
from .recording import ForwardMode, Living, Own, Threads, Watcher
from .usage import OptionError, close_names

if TYPE_CHECKING:
    from .backends.base import Backend, Draws, Options, Remote
    from .backends.launcher import Launcher
    from .capture import Capture
    from .fields import Array

ARCHES = ("cpu", "reference", "cuda", "vulkan")
ALIASES = {"x64": "cpu", "arm64": "cpu", "gpu": "cuda"}

stamp = itertools.count(1, 2).__next__
"""A version number that was never given before, in this process. Native code gives the even ones."""


@dataclass(frozen=True)
class Settings:
    """What `init` was told.

    arch: name of the backend. default_fp, default_ip: types of Python floats and ints in kernels. debug: check
    indices, asserts and integer divisions, verify the IR after each pass. precise: no contraction, no
    approximation. random_seed: key of the random numbers. threads: most threads a launch uses on a CPU; None for as
    many as there are cores for this process. debug_info: machine code carries the lines of the program.
    bounds: an index outside an array ends the launch with an error.
    """

    arch: str = "cpu"
    default_fp: Scalar = f32
    default_ip: Scalar = i32
    debug: bool = False
    precise: bool = False
    random_seed: int = 0
    threads: int | None = None
    debug_info: bool = False
    deterministic: bool = False
    bounds: bool = True


DIALECT: dict[str, str] = {
    "ad_stack_experimental_enabled": "adstacks are always on",
    "ad_stack_size": "depths are counted before each launch, never guessed",
    "ad_stack_sparse_threshold_bytes": "rows are always claimed behind the gate",
    "advanced_optimization": "the pipeline is fixed",
    "cfg_optimization": "the pipeline is fixed",
    "check_out_of_bound": "True is the same as debug=True",
    "cpu_max_num_threads": "at most so many threads for a launch, and no more than there are cores for the process",
    "default_cpu_block_dim": "the backend chooses",
    "default_gpu_block_dim": "the backend chooses",
    "device_memory_fraction": "memory is allocated as it is needed",
    "device_memory_GB": "memory is allocated as it is needed",
    "fast_math": "False is the same as precise=True",
    "force_scalarize_matrix": "vectors are always scalars",
    "kernel_profiler": "sg.profile() takes a profile of any part of a program",
    "log_level": "the runtime does not log; see STACKGRAD_DEBUG_ADSTACK and STACKGRAD_DUMP_IR",
    "offline_cache": "False: what was compiled is not kept on disk for the next process",
    "offline_cache_file_path": "the folder where it is kept",
    "opt_level": "the pipeline is fixed",
    "print_ir": "set STACKGRAD_DUMP_IR=DIR instead",
    "short_circuit_operators": "`and` and `or` always short-circuit",
    "unrolling_limit": "static loops are unrolled; what would take minutes to compile is refused",
    "validate_autodiff": "what a gradient reads is checked when it is compiled, and saved by a tape",
    "verbose": "the runtime does not print",
}
"""Options that programs of this dialect pass to `init`, with what becomes of them here."""


WATCHERS = ("capture", "profiles")
"""What of the runtime must see the launches of all threads, unless it is None or empty; each has its own besides."""


class Runtime:
    """The state of the process. `tapes`, `capture` and `forward` are what a launch looks at; `profiles` are taken.

    threads: `tapes`, `forward` and `tracing` are those of the thread that asks, and one thread's concern.
    words: what native launches look at, see backends/words.py; kept in step by every assignment here. remote: the
    backend, if arrays live in memory of its own; None if launches are over when they return.
    """

    __slots__ = (
        "settings",
        "generation",
        "initialised",
        "fields",
        "launchers",
        "threads",
        "capture",
        "launch_number",
        "profiles",
        "words",
        "remote",
        "copies",
        "_backend",
        "_lock",
        "__weakref__",
    )

    def __init__(self) -> None:
        self.words = words((0, 0, 0))
        self._lock = free_in_child(threading.RLock())
        self.threads = Threads()
        self.settings = Settings()
        self.generation = 0
        self.initialised = False
        self.fields: Living[Array] = Living()
        self.launchers: Living[Launcher] = Living()
        self.copies: dict[object, Any] = {}
        self.capture: Capture | None = None
        self.launch_number = 0
        self.profiles: tuple[object, ...] = ()
        self.remote: Remote | None = None
        self._backend: Backend | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set it, and tell native launches if they must not happen from now on, or may again."""
        object.__setattr__(self, name, value)
        if name == "generation":
            self.words[GENERATION] = value
        elif name in WATCHERS:
            self._tell(self.threads.own)

    def _tell(self, own: Own) -> None:
        """Native launches pass to Python while anything must see those of any thread; there each thread is told apart."""
        with self._lock:
            watched = [getattr(self, watcher, None) for watcher in WATCHERS]
            self.words[WATCHED] = self.threads.note(own) or any(one is not None and one != () for one in watched)

    def _set_own(self, own: Own, name: str, value: Any) -> None:
        setattr(own, name, value)
        self._tell(own)

    @property
    def tapes(self) -> tuple[Watcher, ...]:
        """Who is told of the launches and host writes of this thread, the innermost last."""
        return self.threads.own.tapes

    @tapes.setter
    def tapes(self, tapes: tuple[Watcher, ...]) -> None:
        self._set_own(self.threads.own, "tapes", tapes)

    @property
    def forward(self) -> ForwardMode | None:
        """Who runs the launches of this thread, if they have tangents."""
        return self.threads.own.forward

    @forward.setter
    def forward(self, mode: ForwardMode | None) -> None:
        self._set_own(self.threads.own, "forward", mode)

    @property
    def tracing(self) -> bool:
        """Whether this thread traces a kernel."""
        return self.threads.own.tracing

    @tracing.setter
    def tracing(self, is_tracing: bool) -> None:
        self._set_own(self.threads.own, "tracing", is_tracing)

    def abandon(self, own: Own, watcher: Watcher | ForwardMode) -> None:
        """A tape or forward mode of any thread sees nothing from now on."""
        self._set_own(own, "tapes", tuple(t for t in own.tapes if t is not watcher))
        if own.forward is watcher:
            self._set_own(own, "forward", None)

    def ensure(self) -> None:
        """Initialise with the defaults unless `init` was called."""
        if not self.initialised:
            init()

    def restart(self, settings: Settings) -> None:
        """Drop everything of this generation, adstack memory included, and begin the next."""
        if self._backend is not None:
            self._backend.reset()
        self.settings = settings
        self.generation += 1
        self.fields, self.launchers = Living(), Living()
        self.copies = {}
        self.threads = Threads()
        self._tell(self.threads.own)
        self.launch_number = 0
        self._backend = self.remote = None

    def choose(self, backend: Backend) -> None:
        """Launch on this backend."""
        self._backend = backend
        from .backends.base import Remote

        self.remote = backend if isinstance(backend, Remote) else None

    @property
    def backend(self) -> Backend:
        """The backend of `settings.arch`; DeviceError, one line, if it cannot run here."""
        self.ensure()
        if self._backend is None:
            self.choose(available(self.settings.arch))
        assert self._backend is not None
        return self._backend

    def settle(self) -> None:
        """Let launches be over, where they are not when they return: memory is touched next. Raises what went wrong."""
        if self.remote is not None:
            self.remote.wait()

    @property
    def has_backend(self) -> bool:
        """Whether a backend was chosen, which happens at `init`."""
        return self._backend is not None

    @property
    def options(self) -> Options:
        """How the backend compiles under these settings."""
        from .backends.base import Options

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
        """The key of the next forward launch that draws random numbers."""
        from .backends.base import Draws

        with self._lock:
            self.launch_number += 1
            return Draws(self.settings.random_seed, self.launch_number)


RUNTIME = Runtime()


def available(arch: str) -> Backend:
    """The backend of this name, probed. Raises DeviceError with reason and cure on one line."""
    from .backends import registry

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
    default_fp: Scalar | type = f32,
    default_ip: Scalar | type = i32,
    debug: bool = False,
    random_seed: int = 0,
    precise: bool = False,
    debug_info: bool = False,
    deterministic: bool = False,
    bounds: str = "checked",
    **dialect: Any,
) -> None:
    """Start the runtime, or start it afresh: fields and compiled kernels of before are stale afterwards.

    arch: `sg.cpu` (default; STACKGRAD_ARCH replaces it), `sg.reference`, `sg.cuda` (`sg.gpu`), `sg.vulkan`.
    default_fp, default_ip: types of Python floats (sg.f16, f32, f64) and ints (sg.i32, i64 or another) in kernels.
    debug: index, assert and division checks in kernels. random_seed: key of `sg.random`. precise: no contraction and
    no approximation of reals. debug_info: machine code carries the program's lines, for debuggers and profilers (also
    by STACKGRAD_DEBUG_INFO). deterministic: the same bits each time, at a price (docs/cuda.md). bounds: "checked", and
    an index outside an array raises OutOfBounds; or "off", and it accesses whatever lies there (docs/bounds.md).
    dialect: see DIALECT.
    Raises OptionError for an unknown option and DeviceError, one line, if the backend cannot run here.
    """
    for name in dialect:
        if name not in DIALECT:
            known = [*DIALECT, *Settings.__dataclass_fields__]
            raise OptionError(f"init has no option {name!r}", close_names(name, known) or f"known: {', '.join(known)}")
    settings = _settings(
        arch, default_fp, default_ip, debug, random_seed, precise, debug_info, deterministic, bounds, dialect
    )
    backend = available(settings.arch)
    _choose_cache(dialect)
    RUNTIME.restart(settings)
    RUNTIME.choose(backend)
    RUNTIME.initialised = True


def _bounds(given: Any) -> bool:
    """Whether indices are checked."""
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
    """What the arguments of `init` and the environment say."""
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
    disk_cache.choose(bool(dialect.get("offline_cache", True)), str(named))


def _most_threads(given: Any) -> int | None:
    if given is None or (isinstance(given, int) and given >= 1):
        return given
    raise OptionError(f"cpu_max_num_threads cannot be {given!r}", "a number of threads, at least 1")


def _threads(most: int | None) -> int:
    """Threads that a launch may use."""
    from .backends.cpu.cores import available as cores

    return cores() if most is None else min(most, cores())


def reset() -> None:
    """Forget fields, kernels and adstack memory; the next use initialises with the defaults."""
    RUNTIME.restart(Settings())
    RUNTIME.initialised = False


def sync() -> None:
    """Wait for all launches; errors found on a device surface here."""
    wait = getattr(RUNTIME._backend, "sync", None)
    if wait is not None:
        wait()


def _arch(arch: object) -> str:
    if isinstance(arch, ModuleType):  # `sg.reference` is the interpreter's package once that is loaded
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
