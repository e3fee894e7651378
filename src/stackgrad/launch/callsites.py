"""Execute a call of a kernel, or of its gradient, from its Python arguments to the launch.

A call of a kernel is executed by the first of these that recognizes it: a ready launch in machine code; a ready launch
whose guards Python checks; a cached call with the same argument objects; a cache entry for arguments of the same kinds.
If none does, `_establish` executes all steps. Read this file from `CallSite.missed` down.

Invariant: no call uses a launch that a failed guard, a destroyed field or a new generation of the runtime has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from ..backends.host.handles import LONGEST
from ..backends.words import WATCHED
from ..compiler.errors import StackgradError
from ..data.leaves import ArgumentMismatch
from ..runtime.session import RUNTIME
from ..runtime.streams import KEYWORD, on, without_stream
from .native_launches import NativeCall, NativeLaunches
from .prepared import Prepared
from .watched_launches import result_of

if TYPE_CHECKING:
    from ..backends.base import Arrays, Scalars
    from .call_cache import CallCache, Entry
    from .calls import Call
    from .directions import ProgramSide
    from .program import Binding, Program
    from .specializations import Specialization

PATIENT = 3
"""Number of launches from Python before the first launch stands ready."""

_LONGEST_WAIT = 1024


class Callee(Protocol):
    """Define the interface of the kernel behind a CallSite: its call cache, and a method that redirects calls."""

    def cache(self) -> CallCache:
        """Return the cache of specializations and calls under the present settings."""

    def direct(self, is_grad: bool, function: Callable[..., Any]) -> None:
        """Make `function` the implementation of all further calls of the kernel, or of its gradient if `is_grad`."""


class CallSite:
    """Execute all calls of one kernel, or of its gradient, and prepare repeated calls for the trampoline.

    Attributes:
        is_grad: True for the gradient.
        free: The ready launches whose validity machine code checks by itself.
        guarded: The ready launches whose guards Python checks before each call, with a builtin function that only this
            object calls; None if there are none.
    """

    __slots__ = ("is_grad", "free", "guarded", "_kernel", "_waited", "_wait")

    def __init__(self, kernel: Callee, is_grad: bool) -> None:
        self._kernel = kernel
        self.is_grad = is_grad
        self.free = NativeLaunches()
        self.guarded: NativeLaunches | None = None
        self.begin()

    def begin(self) -> None:
        """Count calls from 0 again; after PATIENT calls, a launch is prepared for the trampoline."""
        self._waited, self._wait = 0, PATIENT

    # -- a call ---------------------------------------------------------------------------------------------

    def first(self, *args: Any, **keywords: Any) -> Any:
        """Launch a call by the trampoline's function if it exists already, and through Python if not."""
        function = self.free.function
        return self._call(args, keywords) if function is None else function(*args, **keywords)

    def missed(self, *args: Any, **keywords: Any) -> Any:
        """Launch a call that fits no ready launch without guards: by one whose guards hold, or else through Python."""
        guarded = self.guarded
        if guarded is None or keywords or not guarded.holds(args):
            return self._call(args, keywords)
        return guarded.function(*args)  # type: ignore[misc]

    def unfit(self, *args: Any, **keywords: Any) -> Any:
        """Launch through Python a call for which the trampoline has no ready launch."""
        return self._call(args, keywords)

    def _call(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Launch a call through Python; after several calls, prepare a launch for the trampoline."""
        if KEYWORD in keywords:
            given = without_stream(keywords, self.is_grad)
            with on(keywords[KEYWORD]):
                return self.first(*args, **given)
        cache = self._kernel.cache()
        if keywords or len(args) != len(cache.names):
            args = cache.arranged(args, keywords)
            if self.free.function is not None:
                # Ready launches know arguments by position only, and one may fit now.
                return self.free.function(*args)
        begin = perf_counter()
        result = self._launch(cache, args)
        self._waited += 1
        if self._waited >= self._wait and perf_counter() - begin < LONGEST and not RUNTIME.words[WATCHED]:
            self._stand(args)
        return result

    def _launch(self, cache: CallCache, args: tuple[Any, ...]) -> Any:
        """Repeat the launch that is cached for these argument objects, or execute the call as a new one."""
        known = cache.known(args)
        if known is not None:
            is_seen = RUNTIME.words[WATCHED] and self._is_seen()
            launch = known.watched[self.is_grad] if is_seen else known.launches[self.is_grad]
            if launch is not None:
                return launch(cache.scalars(args, known.names))
        return self._establish(cache, args)

    def _establish(self, cache: CallCache, args: tuple[Any, ...]) -> Any:
        """Execute a new call: match arguments, trace, lower, bind arrays, compile, launch, and cache the call.

        The gradient of a kernel without real arrays is empty, and nothing is launched for it.
        """
        call = cache.match(args)  # matching.py
        entry = cache.entry(args, call)  # specializations.py; nothing is traced if an entry of these kinds holds
        special = entry.special
        if self.is_grad and not special.program.kernel.has_real_arrays():
            cache.bound(entry, call)  # Arguments that no launch takes raise the same error here.
            return None
        launcher = self._side(special.program).launcher  # program.py; lowered once
        binding = cache.bound(entry, call)  # bound.py
        scalars = dict(zip(special.scalars, call.scalars))
        if self._is_seen() or call.is_volatile or special.program.has_random or binding.halves:
            result = self._launch_bound(special, binding, scalars)
            if special.shared is not None and not call.is_volatile:
                cache.remember(args, call, entry)
        else:
            prepared = Prepared(entry, binding, binding.prepare_grad() if self.is_grad else None)
            launcher.compile()  # backends/; compiled once
            result = prepared.launch(scalars)
            cache.remember(args, call, entry).launches[self.is_grad] = prepared.launch
        return result

    def _side(self, program: Program) -> ProgramSide:
        """Return the `ProgramSide` of the direction that is launched. Raise NotDifferentiable if there is none."""
        return program.reverse_side() if self.is_grad else program.forward_side()

    def _launch_bound(self, special: Specialization, binding: Binding, scalars: Scalars) -> Any:
        """Launch a traced kernel on the arrays of a call and notify tapes and other watchers. Return the result."""
        if self.is_grad:
            binding.launch_grad(scalars)
            return None
        binding.launch(scalars)
        return None if special.reader is None else result_of(special.reader, binding, scalars)

    def _is_seen(self) -> bool:
        """Return True if a tape, forward mode or capture must be notified of launches in this direction."""
        if not RUNTIME.words[WATCHED]:
            return False
        return not self.is_grad or RUNTIME.capture is not None or RUNTIME.forward is not None

    def check(self, *args: Any, **keywords: Any) -> None:
        """Check the arguments of a call exactly as a launch does, but do not launch."""
        cache = self._kernel.cache()
        given = without_stream(keywords, self.is_grad) if KEYWORD in keywords else keywords
        args = cache.arranged(args, given)
        call = cache.match(args)
        cache.bound(cache.entry(args, call), call)

    # -- machine code ---------------------------------------------------------------------------------------

    def _stand(self, args: tuple[Any, ...]) -> None:
        """Prepare a ready launch, if possible, so that the trampoline launches further calls like this one."""
        self._waited = 0
        if self.free.function is None:
            function = self.free.builtin(self.missed, partial(self._fail, self.free))
            if function is None:
                self._wait = _LONGEST_WAIT
                return
            self._kernel.direct(self.is_grad, function)
        with suppress(StackgradError, ArgumentMismatch):  # The call itself has succeeded, so no error may appear now.
            found = self._situation(args)
            if found is None:
                self._wait = _LONGEST_WAIT
            else:
                self._wait_after(self._chain(found[1]).stand(*found))

    def _wait_after(self, was_worth: bool | None) -> None:
        """Set the number of calls before the next ready launch: 1 if the last one was used, else twice as many."""
        if was_worth is not None:
            self._wait = 1 if was_worth else min(2 * self._wait, _LONGEST_WAIT)

    def _chain(self, situation: NativeCall) -> NativeLaunches:
        """Return the set of ready launches that a new one is added to: the set with guards, or the set without."""
        if not situation.guards:
            return self.free
        if self.guarded is None:
            made = NativeLaunches()
            made.builtin(self.unfit, partial(self._fail, made))
            self.guarded = made
        return self.guarded

    def _situation(self, args: tuple[Any, ...]) -> tuple[Entry, NativeCall] | None:
        """Return the cache entry and the trampoline's description of a call, or None if no trampoline can repeat it."""
        from .native_calls import situation_of

        cache = self._kernel.cache()
        entry, call, binding = self.bind(cache, args)
        side = self._side(entry.special.program)
        found = situation_of(cache.matchers, args, call, entry.special, side, binding)
        return None if found is None else (entry, found)

    def bind(self, cache: CallCache, args: tuple[Any, ...]) -> tuple[Entry, Call, Binding]:
        """Return the cache entry, split arguments and binding of a call, without launching it."""
        call = cache.match(args)
        entry = cache.entry(args, call)
        return entry, call, cache.bound(entry, call)

    def _fail(self, native: NativeLaunches, *args: Any) -> None:
        """Raise the error of the ready launch that has failed in machine code."""
        native.fail(lambda: self._memory(args))

    def _memory(self, args: tuple[Any, ...]) -> tuple[Arrays, Scalars]:
        """Return the arrays and the scalar arguments, by name, of a call with these arguments."""
        entry, call, binding = self.bind(self._kernel.cache(), args)
        memory = binding.prepare_grad().memory if self.is_grad else binding.memory
        return memory, dict(zip(entry.special.scalars, call.scalars))
