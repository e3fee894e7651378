"""Guards that are asked together give the answers that each of them gives alone."""

from __future__ import annotations

import enum
import gc
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import stackgrad as sg
from stackgrad.compiler.frontend.functions import Func
from stackgrad.compiler.frontend.reads import NameRead, Read, attribute_read, definition_reads
from stackgrad.runtime.guards import GuardSet, guards_of, hold

ASKED = 10
"""Checks after which a set looks at all attributes of an object at once."""


class Mode(enum.IntEnum):
    """An enumeration, whose members are attributes of the class."""

    SLOW = 1
    FAST = 2


class Thing:
    """An object with attributes of every kind that snapshots tell apart."""

    def __init__(self) -> None:
        self.number, self.text, self.other = 3, "three", Other()
        self.pair, self.list, self.mode = (1, 2.0), [1, 2], Mode.FAST

    def method(self) -> int:
        """Return a number."""
        return 1

    def second(self) -> int:
        """Return another number."""
        return 2

    @sg.func
    def inlined(self):  # type: ignore[no-untyped-def]
        """Return a number in kernels."""
        return 1

    @property
    def fresh(self) -> float:
        """Return an equal number that is another object each time."""
        return float(str(self.number))


class Other:
    """An object that is compared by identity."""


NAMES = ("number", "text", "other", "pair", "list", "mode", "method", "inlined", "fresh")


def _guards(thing: Any, names: tuple[str, ...] = NAMES) -> tuple[Any, ...]:
    reads: list[Read] = []
    for name in names:
        reads += attribute_read(thing, name, getattr(thing, name))
    return guards_of(reads)


def _asked(guards: tuple[Any, ...]) -> GuardSet:
    """Return a set of guards that has been asked so often that it looks at objects as a whole."""
    found = GuardSet(guards)
    for _ in range(ASKED):
        assert found.holds()
    return found


CHANGES: dict[str, Callable[[Thing], Any]] = {
    "another number": lambda thing: setattr(thing, "number", 4),
    "an equal number of another type": lambda thing: setattr(thing, "number", 3.0),
    "another text": lambda thing: setattr(thing, "text", "four"),
    "another object": lambda thing: setattr(thing, "other", Other()),
    "another tuple": lambda thing: setattr(thing, "pair", (1, 3.0)),
    "another item": lambda thing: thing.list.append(3),
    "another member": lambda thing: setattr(thing, "mode", Mode.SLOW),
    "a method of the object": lambda thing: setattr(thing, "method", thing.second),
    "a func of the object": lambda thing: setattr(thing, "inlined", Func(Thing.second)),
    "no attribute": lambda thing: delattr(thing, "text"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_of_an_attribute_is_seen(name: str) -> None:
    thing = Thing()
    guards = _guards(thing)
    found = _asked(guards)
    CHANGES[name](thing)
    assert not hold(guards) and not found.holds()


def test_an_equal_value_is_no_change() -> None:
    thing = Thing()
    found = _asked(_guards(thing))
    thing.number, thing.pair, thing.list = int("3"), (int("1"), float("2")), [1, 2]
    thing.text = "".join(("th", "ree"))
    assert found.holds() and found.holds()
    thing.number = 5
    assert not found.holds()
    thing.number = 3
    assert found.holds()


def test_names_of_modules_and_functions_are_watched() -> None:
    module = ModuleType("of_the_test")
    exec("size = 7\nscale = 2.5\ndef run(): return size * scale\n", module.__dict__)
    run = module.run
    reads: list[Read] = [NameRead(run, name, getattr(module, name)) for name in ("size", "scale")]
    reads += [*attribute_read(module, "scale", module.scale), *definition_reads(run)]
    found = _asked(guards_of(reads))
    for name, value in (("size", 8), ("scale", 3.5)):
        before = getattr(module, name)
        setattr(module, name, value)
        assert not found.holds(), name
        delattr(module, name)
        assert not found.holds(), name
        setattr(module, name, before)
        assert found.holds(), name
    run.__defaults__ = (1,)
    assert not found.holds()
    run.__defaults__ = None
    run.__code__ = (lambda: 0).__code__
    assert not found.holds()


def test_an_object_that_dies_is_not_mistaken_for_one_in_its_place() -> None:
    thing = Thing()
    found = _asked(_guards(thing, ("other",)))
    for _ in range(100):
        thing.other = None  # type: ignore[assignment]
        thing.other = Other()
        assert not found.holds()


def test_a_set_keeps_nothing_alive() -> None:
    thing = Thing()
    ends = [weakref.ref(one) for one in (thing, thing.other)]
    found = _asked(_guards(thing))
    del thing
    gc.collect()
    assert [end() for end in ends] == [None, None]
    assert not found.holds()


def test_a_look_that_fails_is_a_change() -> None:
    class Moody:
        """An object with an attribute that can be refused."""

        is_sad = False

        @property
        def mood(self) -> int:
            """Return a number, or raise an error."""
            if self.is_sad:
                raise ValueError
            return 1

    moody = Moody()
    found = _asked(_guards(moody, ("mood",)))
    moody.is_sad = True
    assert not found.holds()
    moody.is_sad = False
    assert found.holds()
