"""Cache the launches of one kernel by the types of the arguments, and by the identities of earlier arguments.

An entry serves all calls with arguments of the same kinds. It is valid while its guards hold, the objects that it was
traced for are alive, and the runtime has the generation of the cache. It holds launches in two tiers: prepared in
Python for the argument objects of single calls (`prepared.py`), and ready in machine code (`native_launches.py`).

Invariant: only `CallCache.drop` ends an entry; it also ends all launches of the entry in both tiers.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..compiler.errors import CallError, Span, warn
from ..data.leaves import ArgumentMismatch
from ..runtime.session import RUNTIME
from ..runtime.usage_errors import KernelWarning
from .aliasing import is_among
from .arguments import REQUIRED, arrange_arguments
from .calls import Call, take_apart
from .equal_objects import EqualCalls, content_of
from .failed_traces import FailedTraces
from .matching import Matcher, ScalarMatcher, ValueMatcher, ViewMatcher, matcher_of
from .prepared import Known
from .specializations import TRACING, Specialization, Tracing, specialised

if TYPE_CHECKING:
    from ..compiler.frontend.parameters import Parameter
    from ..compiler.frontend.type_inference import FrontendOptions
    from .native_launches import Handle
    from .program import Binding
    from .shared_traces import Places

_MANY = 64
"""Number of entries of one kernel after which it warns."""

_KEPT = 64
"""Number of calls that a kernel knows by their objects."""


class Entry:
    """Represent an entry of a kernel's call cache: the specialization for all calls with the same argument types.

    Attributes:
        key: The kinds of the arguments: types, array ranks, and identities of objects.
        special: The specialization that was traced for these kinds, with its guards.
        equal: A description of the calls that the entry also serves because their arguments equal those of its trace;
            None if it serves no such calls.
        handles: The ready launches of the entry, by `Handle.key`.
        is_dropped: True if the entry has ended.
    """

    __slots__ = ("key", "special", "equal", "handles", "is_dropped", "_cache")

    def __init__(
        self, key: tuple[Any, ...], special: Specialization, equal: EqualCalls | None, cache: CallCache
    ) -> None:
        self.key = key
        self.special = special
        self.equal = equal
        self.handles: dict[tuple[Any, ...], Handle] = {}
        self.is_dropped = False
        self._cache = cache

    def drop(self) -> None:
        """Remove the entry from its call cache."""
        self._cache.drop(self)


class CallCache:
    """Cache the specializations and earlier calls of one kernel under the present settings of the runtime.

    Attributes:
        generation: The generation of the runtime.
        name: The name of the kernel.
        span: The `def` of the kernel.
        constant: True if launches of the kernel are constant to derivatives.
        names: The names of the parameters.
        defaults: The default values by name.
        matchers: The matcher of each parameter.
        trace: The function that traces the kernel.
        takes_numbers: True if all parameters are numbers, and the kernel returns nothing.
        place: A function that finds the traces that equal kernels share, or None if no kernel can be equal.
        is_faulty: True if the annotation of a parameter is wrong, so that tracing raises an error.
        entries: The entries by key.
        last: The specialization that was launched last, or None.
    """

    def __init__(
        self,
        name: str,
        parameters: tuple[Parameter, ...],
        options: FrontendOptions,
        span: Span | None,
        trace: Tracing,
        constant: bool = False,
        takes_numbers: bool = False,
        place: Places | None = None,
    ) -> None:
        self.generation = RUNTIME.generation
        self.name = name
        self.span = span
        self.constant = constant
        self.names = tuple(p.name for p in parameters)
        self.defaults = {p.name: p.default for p in parameters if p.default is not REQUIRED}
        self.matchers: tuple[Matcher, ...] = tuple(matcher_of(p, options) for p in parameters)
        self.trace = trace
        self.takes_numbers = takes_numbers
        self.place = place
        self.is_faulty = any(p.kind == "faulty" for p in parameters)
        self.entries: dict[tuple[Any, ...], Entry] = {}
        self.last: Specialization | None = None
        self._equal: dict[Hashable, Entry] = {}
        self._failed = FailedTraces()
        self._known: dict[tuple[int, ...], Known] = {}
        self._owners: dict[int, tuple[Any, set[Entry]]] = {}
        values = [isinstance(matcher, (ScalarMatcher, ValueMatcher)) for matcher in self.matchers]
        self._objects = [k for k, is_value in enumerate(values) if not is_value]
        self._views = [(at, k) for at, k in enumerate(self._objects) if isinstance(self.matchers[k], ViewMatcher)]
        self._numbers = [
            (k, matcher.take_part if isinstance(matcher, ViewMatcher) else matcher.take)
            for k, matcher in enumerate(self.matchers)
            if values[k] or isinstance(matcher, ViewMatcher)
        ]
        self._checks = [(k, one.check) for k, one in enumerate(self.matchers) if isinstance(one, ScalarMatcher)]

    # -- arguments ------------------------------------------------------------------------------------------

    def arranged(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments in the order of the parameters, with defaults filled in."""
        return arrange_arguments(self.names, self.defaults, args, keywords, self.error, self._count)

    def objects(self, args: tuple[Any, ...]) -> list[Any]:
        """Return the arguments whose identity selects a cached call: all but numbers, with arrays in place of views."""
        objects = [args[k] for k in self._objects]
        for at, k in self._views:  # Offset and size of a view are numbers of the call.
            objects[at] = getattr(args[k], "arr", None)
        return objects

    def scalars(self, args: tuple[Any, ...], names: tuple[str, ...]) -> dict[str, Any]:
        """Return the scalar arguments of a cached call by name."""
        found: dict[str, Any] = {}
        if not self._numbers:
            return found
        at = 0
        try:
            if len(self._checks) == len(self._numbers):  # Each of them is one number.
                for name, (at, check) in zip(names, self._checks):
                    found[name] = check(args[at])
                return found
            call = Call()
            for at, take in self._numbers:
                take(args[at], call)
        except ArgumentMismatch as misfit:
            raise self.misfit(at, misfit) from None
        return dict(zip(names, call.scalars))

    def match(self, args: tuple[Any, ...]) -> Call:
        """Split the arguments of a call into numbers, arrays and the key that selects a specialization.

        Raises:
            CallError: An argument does not fit its parameter.
        """
        return take_apart(self.matchers, args, self.misfit)

    # -- finding --------------------------------------------------------------------------------------------

    def known(self, args: tuple[Any, ...]) -> Known | None:
        """Return the cached call with the same objects as arguments, or None if there is no valid one.

        Raises:
            StaleFieldError: A field among the objects, or that the kernel uses, was destroyed.
        """
        objects = self.objects(args) if self._objects else ()
        found = self._known.get(tuple(map(id, objects)) if objects else ())
        if found is None or found.entry.is_dropped or objects and not found.is_of(objects):
            return None
        if found.holds():
            return found
        self.drop(found.entry)
        return None

    def entry(self, args: tuple[Any, ...], call: Call) -> Entry:
        """Return the cache entry for the types of the arguments; trace the kernel if there is no valid entry."""
        key = (*call.key, call.shared) if len(call.leaves) > 1 else tuple(call.key)
        found = self._holding(key) or self._made(key, args, call)
        # An array that the kernel captured is also given as an argument: trace again, with one name for both.
        own = found.special.own
        shared = [k for k, leaf in enumerate(call.leaves) if is_among(leaf, own)] if own else []
        if shared:
            key = (*key, *((k, id(call.leaves[k])) for k in shared))
            fixed = frozenset(id(call.leaves[k]) for k in shared)
            found = self._holding(key) or self._made(key, args, call, fixed)
        self.last = found.special
        return found

    def _holding(self, key: tuple[Any, ...]) -> Entry | None:
        """Return the cache entry for a key, or None if a Python object that its kernel read has changed since."""
        found = self.entries.get(key)
        if found is not None and found.special.guards and not found.special.checks.holds():
            self.drop(found)
            return None
        return found

    def _made(
        self, key: tuple[Any, ...], args: tuple[Any, ...], call: Call, fixed: frozenset[int] = frozenset()
    ) -> Entry:
        """Return the entry of an earlier call with equal arguments, or trace the kernel and return a new entry."""
        content = content_of(call.owners) if call.owners else None
        if content is None:
            return self._trace(key, args, call, fixed)
        of_kinds = tuple(None if k in call.places else one for k, one in enumerate(key))
        equal = EqualCalls((of_kinds, content.key), content, call.owners)
        found = self._equal.get(equal.key)
        if found is None or found.equal is None:
            return self._trace(key, args, call, fixed, equal, content.lasting)
        if not found.equal.hold(call.owners):
            self.drop(found)
            return self._trace(key, args, call, fixed, equal, content.lasting)
        if not found.equal.count(call.owners):
            return self._trace(key, args, call, fixed)
        # What is made ready for objects would outlive the objects of this call.
        call.is_volatile = True
        return found

    def bound(self, entry: Entry, call: Call) -> Binding:
        """Return a binding of the entry's program to the arrays of a call. Raise CallError for unfit arrays."""
        try:
            return entry.special.binding(call.leaves)
        except ArgumentMismatch as misfit:
            raise self.error(misfit.reason, misfit.cure) from None

    # -- making ---------------------------------------------------------------------------------------------

    def _trace(
        self,
        key: tuple[Any, ...],
        args: tuple[Any, ...],
        call: Call,
        fixed: frozenset[int],
        equal: EqualCalls | None = None,
        lasting: Sequence[Any] = (),
    ) -> Entry:
        """Trace the kernel for the types of a call's arguments, and return the new cache entry.

        Args:
            key: The key of the entry.
            args: The arguments of the call.
            call: The parts of the call.
            fixed: Identities of arrays that get no stand-in, because the kernel also captured them.
            equal: The calls with equal arguments, which the entry will serve too, or None.
            lasting: Objects in the arguments; the entry ends when one of them dies.
        """
        with TRACING:
            found = self.entries.get(key)
            if found is not None:
                return found
            self._warn_of_many()
            parameters = list(zip(self.names, self.matchers, args))
            place = self.place(key, call.owners) if self.place and equal is None and not fixed else None
            special = self._failed.once(
                key,
                call.owners,
                lambda reads: specialised(
                    parameters, call.leaves, fixed, self.trace, self.span, self.constant, equal, reads, place
                ),
            )
            made = self.entries[key] = Entry(key, special, equal, self)
            if equal is not None:
                self._share(made, equal)
            for owner in (*call.owners, *lasting):
                self._depend(made, owner)
            return made

    def _warn_of_many(self) -> None:
        """Warn once if a kernel has so many entries that it is probably compiled anew for each value of an argument."""
        if len(self.entries) == _MANY:
            warn(
                f"kernel {self.name} is compiled for the {_MANY + 1}th kind of arguments; give numbers that change "
                "as scalar parameters, as in `dt: sg.f32`, not as templates",
                KernelWarning,
            )

    def _share(self, entry: Entry, equal: EqualCalls) -> None:
        """Register an entry for calls with equal arguments; if too many are registered, unregister the oldest."""
        if len(self._equal) >= _KEPT:
            oldest = self._equal.pop(next(iter(self._equal)))
            oldest.equal = None
            if self.entries.get(oldest.key) is not oldest:
                self.drop(oldest)
        self._equal[equal.key] = entry

    def remember(self, args: tuple[Any, ...], call: Call, entry: Entry) -> Known:
        """Cache a call by the identity of its arguments, and return the cached call.

        Args:
            args: The arguments of the call.
            call: The parts of the call, which is not volatile.
            entry: The entry of the call.
        """
        objects = self.objects(args)
        ids = tuple(map(id, objects))
        known = self._known.get(ids)
        if known is None or known.entry is not entry or not known.is_of(objects):
            known = Known(entry, objects, call.leaves)
            if not entry.is_dropped:
                if len(self._known) >= _KEPT:
                    self._known.pop(next(iter(self._known)))
                self._known[ids] = known
        return known

    # -- dropping -------------------------------------------------------------------------------------------

    def drop(self, entry: Entry) -> None:
        """Remove an entry from the cache, with all its cached calls and ready launches."""
        entry.is_dropped = True
        if entry.equal is not None and self._equal.get(entry.equal.key) is entry:
            del self._equal[entry.equal.key]
        if self.last is entry.special:
            self.last = None
        self._leave(entry)

    def _leave(self, entry: Entry) -> None:
        """Remove the cached calls with the argument objects of one entry, and retire its ready launches."""
        if self.entries.get(entry.key) is entry:
            del self.entries[entry.key]
        self._known = {ids: known for ids, known in self._known.copy().items() if known.entry is not entry}
        for _, entries in self._owners.copy().values():
            entries.discard(entry)
        for handle in list(entry.handles.values()):
            handle.retire()

    def clear(self) -> None:
        """Remove all entries, because a new cache replaces this one."""
        for entry in self.all:
            self.drop(entry)

    @property
    def all(self) -> tuple[Entry, ...]:
        """Return all entries, including those that only serve equal arguments because their own objects have died."""
        return tuple(dict.fromkeys([*self.entries.values(), *self._equal.values()]))

    def _depend(self, entry: Entry, owner: Any) -> None:
        """Remove an entry when the object `owner` dies; keep an owner alive that allows no weak reference."""
        known = self._owners.get(id(owner))
        if known is None:
            number, this = id(owner), weakref.ref(self)

            # The names of modules may be gone when the interpreter ends, so one is a default.
            def ended(_: object, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
                cache = this()
                if cache is not None and not is_ending():
                    cache._owner_died(number)

            try:
                known = (weakref.ref(owner, ended), set())
            except TypeError:
                entry.special.held.append(owner)
                return
            self._owners[number] = known
        known[1].add(entry)

    def _owner_died(self, number: int) -> None:
        """Drop the entries of an argument object that has died, except entries that serve equal objects."""
        _, entries = self._owners.pop(number, (None, set()))
        for entry in list(entries):
            if entry.equal is not None and number not in entry.equal.lasting:
                self._leave(entry)
            else:
                self.drop(entry)

    # -- mistakes -------------------------------------------------------------------------------------------

    def error(self, reason: str, cure: str) -> CallError:
        """Return a CallError for a wrong call of this kernel, with reason and cure."""
        return CallError(f"kernel {self.name}: {reason}", cure, self.span)

    def _count(self, given: int) -> CallError:
        """Return a CallError that says that a call gave `given` arguments, and how many the kernel takes."""
        wanted = ", ".join(f"{n}{self._type(k)}" for k, n in enumerate(self.names)) or "none"
        return self.error(f"takes {len(self.names)} arguments, got {given}", f"its parameters: {wanted}")

    def _type(self, at: int) -> str:
        """Return the type of the scalar parameter number `at` as text for messages; empty for other parameters."""
        matcher = self.matchers[at]
        return f": {matcher.dtype}" if isinstance(matcher, ScalarMatcher) else ""

    def misfit(self, at: int, misfit: ArgumentMismatch) -> CallError:
        """Return a CallError for argument number `at`, which does not fit its parameter."""
        kind = self._type(at) if self.takes_numbers else ":"
        return self.error(f"the parameter {self.names[at]}{kind} {misfit.reason}", misfit.cure)
