"""Make the specializations of a kernel: a program for each kind of arguments, found again by key.

Invariant: a specialization holds neither the arrays of a launch nor the objects it was traced for. These objects die as
if the kernel did not exist, and what was made for them goes with them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.forks import hold_while_forking
from ..backends.words import WATCHED
from ..compiler.errors import KernelTypeError, Span, warn
from ..compiler.frontend.members import LaunchValue
from ..compiler.frontend.parameters import Parameter
from ..compiler.frontend.protocols import ArgumentArray
from ..data.fields.array import Array
from ..data.leaves import Foreign, Leaf, Misfit
from ..runtime.guards import guards_of, hold
from ..runtime.session import RUNTIME
from ..runtime.usage import KernelWarning
from .aliasing import aliases, is_among
from .arguments import REQUIRED, arranged
from .bound import GRAD
from .matching import Call, Matcher, ScalarMatcher, ValueMatcher, ViewMatcher, matcher_of
from .program import Binding, Program
from .recent import Recent
from .results import Reader
from .stand_ins import StandIns

if TYPE_CHECKING:
    from ..compiler.frontend.infer import FrontendOptions
    from ..compiler.frontend.trace import Traced

_MANY = 64
"""Number of specializations of one kernel after which it warns."""

_KEPT = 64
"""Number of calls that a kernel remembers."""

TRACING = threading.RLock()
"""This lock lets one kernel be traced at a time, because fields answer differently meanwhile."""

hold_while_forking(TRACING, 0)

Tracing = Callable[[Mapping[str, Any]], "Traced"]
"""A function that traces the kernel, given what its parameters stand for."""


class Specialisation:
    """A traced kernel, and a map from the arrays of a call to its parameters.

    Attributes:
        program: The program.
        scalars: The names of the scalar arguments in order.
        captured: The arrays that the kernel uses whatever arguments it is called with, by name.
        own: Identities of these arrays and of their gradients.
        slots: Name, number of the leaf, and True for its adjoint, for each array parameter.
        reader: The reader of the result, or None if the kernel returns nothing.
        guards: Guards of what the trace read from Python objects.
        held: Objects that must live as long as the specialization.
        alive: Bindings that a tape holds, by the identities of their arrays.
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
        """Raise StaleFieldError if an array that the kernel captured was destroyed."""
        for array in self.captured.values():
            array.check_alive()

    def binding(self, leaves: list[Leaf]) -> Binding:
        """Return the program on the arrays of a call.

        Raises:
            Misfit: The kernel stores to an array that cannot be written.
            ArgumentError: Two arrays overlap.
            StaleFieldError: An array was destroyed.
        """
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
        """Add the memory of another library, or its adjoint, to the arrays of a binding."""
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
    """The specializations of one kernel under the settings of one generation.

    Attributes:
        name: The name of the kernel.
        span: The `def` of the kernel.
        names: The names of the parameters.
        defaults: The default values by name.
        matchers: The matcher of each parameter.
        trace: The function that traces the kernel.
        found: The specializations by key.
        last: The specialization that was used last.
    """

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
        """Launch the kernel once. Return its result."""
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
        """Launch the gradient of the kernel once."""
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
        """Check the arguments of a call as a launch does, without a launch."""
        self.bind(self._arranged(args, keywords))

    def _arranged(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments in the order of the parameters."""
        if keywords or len(args) != len(self.names):
            return arranged(self.names, self.defaults, args, keywords, self.error, self._count)
        return args

    def _same_as_before(self, args: tuple[Any, ...]) -> tuple[list[Any], Recent | None]:
        """Return the objects of a call, and the earlier call with just these objects, or None."""
        objects = [args[k] for k in self._objects]
        for at, k in self._views:  # A view counts as its array; offset and size are numbers of the call.
            objects[at] = getattr(args[k], "arr", None)
        recent = self._recent.get(tuple(map(id, objects)))
        return objects, recent if recent is not None and recent.fits(objects) else None

    def _remember(self, objects: list[Any], special: Specialisation, call: Call, binding: Binding) -> Recent | None:
        """Remember a call for later calls with the same objects. Return None if it may mean something else later."""
        if call.is_volatile or special.program.has_random:
            return None
        if len(self._recent) >= _KEPT:
            self._recent.pop(next(iter(self._recent)))
        made = self._recent[tuple(map(id, objects))] = Recent(special, objects, call.leaves, binding)
        return made

    def _numbers(self, args: tuple[Any, ...]) -> list[Any]:
        """Return the scalars of a call whose objects were recognized and contain no scalars."""
        call = Call()
        at = 0
        try:
            for at, take in self._values:
                take(args[at], call)
        except Misfit as misfit:
            raise self._misfit(at, misfit) from None
        return call.scalars

    def find(self, args: tuple[Any, ...]) -> tuple[Specialisation, Call]:
        """Return the specialization that a call needs, and the parts of the call.

        Raises:
            KernelTypeError: An argument does not fit its parameter.
        """
        call = Call()
        at = 0
        try:
            for at, matcher in enumerate(self.matchers):
                matcher.take(args[at], call)
        except Misfit as misfit:
            raise self._misfit(at, misfit) from None
        key = (*call.key, aliases(call.leaves)) if len(call.leaves) > 1 else tuple(call.key)
        special = self._known(key) or self._make(key, args, call)
        # An array that the kernel captured is also given as an argument: trace again, with one name for both.
        if special.own and call.leaves:
            shared = [k for k, leaf in enumerate(call.leaves) if is_among(leaf, special.own)]
            if shared:
                key = (*key, *((k, id(call.leaves[k])) for k in shared))
                fixed = frozenset(id(call.leaves[k]) for k in shared)
                special = self._known(key) or self._make(key, args, call, fixed)
        self.last = special
        return special, call

    def _known(self, key: tuple[Any, ...]) -> Specialisation | None:
        """Return the specialization of a key, unless an object that its trace read has changed since."""
        found = self.found.get(key)
        if found is not None and not hold(found.guards):
            del self.found[key]
            return None
        return found

    def bind(self, args: tuple[Any, ...]) -> tuple[Specialisation, Binding, dict[str, Any]]:
        """Return what a call would launch, without launching it: the specialization, the binding and the scalars."""
        special, call = self.find(args)
        return special, self._bound(special, call), dict(zip(special.scalars, call.scalars))

    def _bound(self, special: Specialisation, call: Call) -> Binding:
        """Return the specialization on the arrays of a call. Raise KernelTypeError for arrays that do not fit."""
        try:
            return special.binding(call.leaves)
        except Misfit as misfit:
            raise self.error(misfit.reason, misfit.cure) from None

    # -- making ---------------------------------------------------------------------------------------------

    def _make(
        self, key: tuple[Any, ...], args: tuple[Any, ...], call: Call, fixed: frozenset[int] = frozenset()
    ) -> Specialisation:
        """Trace the kernel for a call. Return the specialization.

        Args:
            key: The key of the specialization.
            args: The arguments of the call.
            call: The parts of the call.
            fixed: Identities of arrays that stand for themselves, because the kernel captured them.
        """
        with TRACING:
            return self.found.get(key) or self._trace_for(key, args, call, fixed)

    def _trace_for(
        self, key: tuple[Any, ...], args: tuple[Any, ...], call: Call, fixed: frozenset[int]
    ) -> Specialisation:
        """Trace the kernel for a call; the lock `TRACING` is held."""
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
        """Forget the specialization when an object dies; keep an object alive that cannot report its death."""
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
        """Forget all specializations that depend on the object with this identity."""
        _, keys = self._owners.pop(number, (None, set()))
        for key in keys:
            dropped = self.found.pop(key, None)
            if dropped is not None and dropped is self.last:
                self.last = None
            self._recent = {ids: recent for ids, recent in self._recent.items() if recent.special is not dropped}

    def error(self, reason: str, cure: str) -> KernelTypeError:
        """Return the error for a mistake in a call of this kernel."""
        return KernelTypeError(f"kernel {self.name}: {reason}", cure, self.span)

    def _count(self, given: int) -> KernelTypeError:
        """Return the error for a wrong number of arguments."""
        wanted = ", ".join(self.names) or "none"
        return self.error(f"takes {len(self.names)} arguments, got {given}", f"its parameters: {wanted}")

    def _misfit(self, at: int, misfit: Misfit) -> KernelTypeError:
        """Return the error for the argument number `at`, which does not fit its parameter."""
        return self.error(f"the parameter {self.names[at]}: {misfit.reason}", misfit.cure)


def _identities(leaves: list[Leaf]) -> tuple[int, ...] | None:
    """Return the identities of the arrays of a call, or None if an array is a view made for this call alone."""
    if any(isinstance(leaf, Foreign) and leaf.owner is not leaf.memory for leaf in leaves):
        return None
    return tuple([id(leaf if isinstance(leaf, Array) else leaf.memory) for leaf in leaves])


def _result(reader: Reader, binding: Binding, scalars: Mapping[str, Any]) -> Any:
    """Return the result of a launch to the host, after telling the watchers of this thread."""
    if RUNTIME.words[WATCHED] and not binding.program.constant:
        own = RUNTIME.threads.own
        for seen in (*reversed(own.tapes), own.forward):
            if seen is not None and seen.before_result(binding, scalars):
                break
    return reader.read(binding.arrays)
