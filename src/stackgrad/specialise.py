"""Specialisations of a kernel: one program for each kind of arguments, found again by key.

Invariant: a specialisation holds neither the arrays of a launch nor the objects it was traced for; those objects die as
if the kernel did not exist, and what was made for them goes with them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .arguments import REQUIRED, arranged
from .backends.forks import hold_while_forking
from .backends.words import WATCHED
from .bound import GRAD
from .compiler.errors import KernelTypeError, Span, warn
from .compiler.frontend.members import LaunchValue
from .compiler.frontend.parameters import Parameter
from .compiler.frontend.protocols import ArgumentArray
from .fields.array import Array
from .guards import guards_of, hold
from .leaves import Foreign, Leaf, Misfit
from .matching import Call, Matcher, ScalarMatcher, ValueMatcher, ViewMatcher, matcher_of
from .program import Binding, Program
from .recent import Recent
from .results import Reader
from .session import RUNTIME
from .stand_ins import StandIns, identity_of
from .usage import KernelWarning

if TYPE_CHECKING:
    from .compiler.frontend.infer import FrontendOptions
    from .compiler.frontend.trace import Traced

_MANY = 64
"""Specialisations of one kernel, after which it warns."""

_KEPT = 64
"""Calls that a kernel remembers."""

TRACING = threading.RLock()
"""One kernel is traced at a time: fields answer differently meanwhile."""

hold_while_forking(TRACING, 0)

Tracing = Callable[[Mapping[str, Any]], "Traced"]
"""Traces the kernel with what its parameters stand for."""


class Specialisation:
    """A traced kernel, and which array of a call goes to which of its parameters.

    own: identities of the arrays that the kernel uses whatever it is called with. alive: bindings that a tape holds,
    by the identities of the arrays that they hold.
    """

    __slots__ = ("program", "scalars", "captured", "own", "slots", "reader", "guards", "held", "alive", "_binding")

    def __init__(self, program: Program, traced: Traced) -> None:
        self.program = program
        self.scalars = tuple(argument.name for argument in traced.arguments)
        self.captured: dict[str, Array] = {}
        self.slots: list[tuple[str, int, bool]] = []
        for name, array in traced.arrays.items():
            if isinstance(array, ArgumentArray):
                self.slots.append((name, array.slot, array.is_grad))
            else:
                assert isinstance(array, Array)
                array.check_alive()
                self.captured[name] = array
        gradients = [array.grad for array in self.captured.values() if array.needs_grad]
        self.own = frozenset(map(id, [*self.captured.values(), *gradients]))
        self.reader = None if traced.result is None else Reader(traced.result)
        self.guards = program.guards = guards_of(traced.reads)
        self.held: list[Any] = []
        self.alive: weakref.WeakValueDictionary[tuple[int, ...], Binding] = weakref.WeakValueDictionary()
        self._binding: Binding | None = None

    def check_alive(self) -> None:
        """Raise StaleFieldError if an array that the kernel uses whatever it is called with was destroyed."""
        for array in self.captured.values():
            array.check_alive()

    def binding(self, leaves: list[Leaf]) -> Binding:
        """The program on the arrays of a call. Raises Misfit, ArgumentError and StaleFieldError."""
        self.check_alive()
        if self._binding is not None:
            return self._binding
        key = None if self.reader is not None else _identities(leaves)
        found = None if key is None else self.alive.get(key)
        if found is not None:
            return found
        arrays: dict[str, Array | np.ndarray] = dict(self.captured)
        for name, slot, is_grad in self.slots:
            leaf = leaves[slot]
            if isinstance(leaf, Array):
                arrays[name] = leaf.grad if is_grad else leaf
            else:
                self._bind_foreign(arrays, name, leaf, is_grad)
        if self.reader is not None:
            arrays |= self.reader.make()
        made = Binding(self.program, arrays)
        if not self.slots and self.reader is None:
            self._binding = made
        elif key is not None:
            self.alive[key] = made
        return made

    def _bind_foreign(self, arrays: dict[str, Array | np.ndarray], name: str, leaf: Foreign, is_grad: bool) -> None:
        if is_grad:
            assert leaf.grad is not None
            arrays[name] = leaf.grad
            return
        arrays[name] = leaf.memory
        if leaf.grad is not None:
            arrays[name + GRAD] = leaf.grad
        if leaf.read_only and name in self.program.forward.lowered.writes:
            raise Misfit(
                f"the kernel stores to {name}, and a JAX array cannot be written",
                "give a NumPy array, an ndarray or a field",
            )


class Specialisations:
    """The specialisations of one kernel under the settings of one generation."""

    def __init__(
        self,
        name: str,
        parameters: tuple[Parameter, ...],
        options: FrontendOptions,
        span: Span | None,
        trace: Tracing,
        constant: bool = False,
    ) -> None:
        self.name = name
        self.span = span
        self.constant = constant
        self.names = tuple(p.name for p in parameters)
        self.defaults = {p.name: p.default for p in parameters if p.default is not REQUIRED}
        self.matchers: tuple[Matcher, ...] = tuple(matcher_of(p, options) for p in parameters)
        self.trace = trace
        self.found: dict[tuple[Any, ...], Specialisation] = {}
        self.last: Specialisation | None = None
        self._owners: dict[int, tuple[Any, set[tuple[Any, ...]]]] = {}
        self._recent: dict[tuple[int, ...], Recent] = {}
        values = [isinstance(matcher, (ScalarMatcher, ValueMatcher)) for matcher in self.matchers]
        self._objects = [k for k, is_value in enumerate(values) if not is_value]
        self._views = [(at, k) for at, k in enumerate(self._objects) if isinstance(self.matchers[k], ViewMatcher)]
        self._values = [
            (k, matcher.take_part if isinstance(matcher, ViewMatcher) else matcher.take)
            for k, matcher in enumerate(self.matchers)
            if values[k] or isinstance(matcher, ViewMatcher)
        ]

    # -- calls ----------------------------------------------------------------------------------------------

    def launch(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Launch once; gives the kernel's result."""
        args = self._arranged(args, keywords)
        objects, recent = self._same_as_before(args)
        if recent is not None and not RUNTIME.words[WATCHED]:
            return recent.launch(self._numbers(args))
        special, call = self.find(args)
        binding = self._bound(special, call)
        scalars = dict(zip(special.scalars, call.scalars))
        binding.launch(scalars)
        if recent is None:
            self._remember(objects, special, call, binding)
        return None if special.reader is None else _result(special.reader, binding, scalars)

    def launch_grad(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        """Launch the gradient."""
        args = self._arranged(args, keywords)
        objects, recent = self._same_as_before(args)
        if recent is not None and recent.reverse is not None and RUNTIME.capture is None and RUNTIME.forward is None:
            recent.launch_grad(self._numbers(args))
            return
        special, call = self.find(args)
        binding = self._bound(special, call)
        binding.launch_grad(dict(zip(special.scalars, call.scalars)))
        recent = recent or self._remember(objects, special, call, binding)
        if recent is not None:
            recent.remember_reverse(binding)

    def check(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        """Look at the arguments of a call as a launch does, and launch nothing."""
        self.bind(self._arranged(args, keywords))

    def _arranged(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        if keywords or len(args) != len(self.names):
            return arranged(self.names, self.defaults, args, keywords, self.error, self._count)
        return args

    def _same_as_before(self, args: tuple[Any, ...]) -> tuple[list[Any], Recent | None]:
        """The objects of a call, and an earlier call with just these objects."""
        objects = [args[k] for k in self._objects]
        for at, k in self._views:  # of a view its array: the part of it is made of numbers
            objects[at] = getattr(args[k], "arr", None)
        recent = self._recent.get(tuple(map(id, objects)))
        return objects, recent if recent is not None and recent.fits(objects) else None

    def _remember(self, objects: list[Any], special: Specialisation, call: Call, binding: Binding) -> Recent | None:
        if call.is_volatile or special.program.has_random:
            return None
        if len(self._recent) >= _KEPT:
            self._recent.pop(next(iter(self._recent)))
        made = self._recent[tuple(map(id, objects))] = Recent(special, objects, call.leaves, binding)
        return made

    def _numbers(self, args: tuple[Any, ...]) -> list[Any]:
        """The numbers of a call whose objects have none."""
        call = Call()
        at = 0
        try:
            for at, take in self._values:
                take(args[at], call)
        except Misfit as misfit:
            raise self._misfit(at, misfit) from None
        return call.scalars

    def find(self, args: tuple[Any, ...]) -> tuple[Specialisation, Call]:
        """The specialisation that a call needs, and the call taken apart. Raises KernelTypeError."""
        call = Call()
        at = 0
        try:
            for at, matcher in enumerate(self.matchers):
                matcher.take(args[at], call)
        except Misfit as misfit:
            raise self._misfit(at, misfit) from None
        key = (*call.key, aliases(call.leaves)) if len(call.leaves) > 1 else tuple(call.key)
        special = self._known(key) or self._make(key, args, call)
        if special.own and call.leaves:
            shared = [k for k, leaf in enumerate(call.leaves) if is_among(leaf, special.own)]
            if shared:
                key = (*key, *((k, id(call.leaves[k])) for k in shared))
                fixed = frozenset(id(call.leaves[k]) for k in shared)
                special = self._known(key) or self._make(key, args, call, fixed)
        self.last = special
        return special, call

    def _known(self, key: tuple[Any, ...]) -> Specialisation | None:
        """What was traced for this key, unless the objects it was traced for have changed since."""
        found = self.found.get(key)
        if found is not None and not hold(found.guards):
            del self.found[key]
            return None
        return found

    def bind(self, args: tuple[Any, ...]) -> tuple[Specialisation, Binding, dict[str, Any]]:
        """What a call would launch: the specialisation, its program on the arrays, the numbers. Launches nothing."""
        special, call = self.find(args)
        return special, self._bound(special, call), dict(zip(special.scalars, call.scalars))

    def _bound(self, special: Specialisation, call: Call) -> Binding:
        try:
            return special.binding(call.leaves)
        except Misfit as misfit:
            raise self.error(misfit.reason, misfit.cure) from None

    # -- making ---------------------------------------------------------------------------------------------

    def _make(
        self, key: tuple[Any, ...], args: tuple[Any, ...], call: Call, fixed: frozenset[int] = frozenset()
    ) -> Specialisation:
        """Trace for this call. fixed: arrays that stand for themselves, as the kernel uses them anyway."""
        with TRACING:
            return self.found.get(key) or self._trace_for(key, args, call, fixed)

    def _trace_for(
        self, key: tuple[Any, ...], args: tuple[Any, ...], call: Call, fixed: frozenset[int]
    ) -> Specialisation:
        if len(self.found) == _MANY:
            warn(
                f"kernel {self.name} is compiled for the {_MANY + 1}th kind of arguments; give numbers that change as "
                "scalar parameters, as in `dt: sg.f32`, not as templates",
                KernelWarning,
            )
        make = StandIns(call.leaves, fixed)
        given = {}
        for name, matcher, value in zip(self.names, self.matchers, args):
            stand_in = matcher.stand_in(value, make)
            if not isinstance(stand_in, LaunchValue):
                given[name] = stand_in
        traced = self.trace(given)
        made = self.found[key] = Specialisation(Program(traced.kernel, self.span, self.constant), traced)
        for owner in call.owners:
            self._depend(key, owner, made)
        return made

    def _depend(self, key: tuple[Any, ...], owner: Any, made: Specialisation) -> None:
        """Forget the specialisation when the object dies; keep an object that cannot tell of its death."""
        known = self._owners.get(id(owner))
        if known is None:
            number, this = id(owner), weakref.ref(self)

            def forget(_: object) -> None:
                table = this()
                if table is not None:
                    table._forget(number)

            try:
                known = (weakref.ref(owner, forget), set())
            except TypeError:
                made.held.append(owner)
                return
            self._owners[number] = known
        known[1].add(key)

    def _forget(self, number: int) -> None:
        _, keys = self._owners.pop(number, (None, set()))
        for key in keys:
            dropped = self.found.pop(key, None)
            if dropped is not None and dropped is self.last:
                self.last = None
            self._recent = {ids: recent for ids, recent in self._recent.items() if recent.special is not dropped}

    def error(self, reason: str, cure: str) -> KernelTypeError:
        """A mistake in a call of this kernel."""
        return KernelTypeError(f"kernel {self.name}: {reason}", cure, self.span)

    def _count(self, given: int) -> KernelTypeError:
        wanted = ", ".join(self.names) or "none"
        return self.error(f"takes {len(self.names)} arguments, got {given}", f"its parameters: {wanted}")

    def _misfit(self, at: int, misfit: Misfit) -> KernelTypeError:
        return self.error(f"the parameter {self.names[at]}: {misfit.reason}", misfit.cure)


def aliases(leaves: list[Leaf]) -> tuple[int, ...] | None:
    """Which leaves are the same array, or the gradient of another one; None if they all are different."""
    first: dict[int, int] = {}
    pattern = []
    for position, leaf in enumerate(leaves):
        pattern.append(first.setdefault(identity_of(leaf), 2 * position))
        if isinstance(leaf, Array) and leaf.needs_grad:
            pattern.append(first.setdefault(id(leaf.grad), 2 * position + 1))
    return None if len(first) == len(pattern) else tuple(pattern)


def _identities(leaves: list[Leaf]) -> tuple[int, ...] | None:
    """Identities of the arrays of a call; None if one is a view that was made for this call alone."""
    if any(isinstance(leaf, Foreign) and leaf.owner is not leaf.memory for leaf in leaves):
        return None
    return tuple([id(leaf if isinstance(leaf, Array) else leaf.memory) for leaf in leaves])


def is_among(leaf: Leaf, own: frozenset[int]) -> bool:
    """Whether a leaf, or its gradient, is one of these arrays, given by identity."""
    return isinstance(leaf, Array) and (id(leaf) in own or (leaf.needs_grad and id(leaf.grad) in own))


def _result(reader: Reader, binding: Binding, scalars: Mapping[str, Any]) -> Any:
    """What the host reads of a launch."""
    if RUNTIME.words[WATCHED] and not binding.program.constant:
        own = RUNTIME.threads.own
        for seen in (*reversed(own.tapes), own.forward):
            if seen is not None and seen.before_result(binding, scalars):
                break
    return reader.read(binding.arrays)
