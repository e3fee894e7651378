"""The roles of statements agree with the table of effects and with each other."""

from __future__ import annotations

import pytest
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir import roles
from stackgrad.compiler.ir.effects import EFFECTS
from stackgrad.compiler.ir.nodes import STATEMENTS
from stackgrad.compiler.ir.statement import Stmt

READS, WRITES = "reads", "writes"
ROLES = {name: classes for name, classes in vars(roles).items() if name.isupper()}


def using(which: str, space: str, declares: bool | None = None) -> set[type[Stmt]]:
    """Return the statement classes that read or write a memory space; `declares` selects those that create memory."""
    return {
        cls
        for cls in EFFECTS
        if any(place[0] == space for place in getattr(EFFECTS[cls], which))
        and (declares is None or EFFECTS[cls].declares == declares)
    }


def test_arrays() -> None:
    assert set(roles.ARRAY_READS) == using(READS, "array")
    assert set(roles.ARRAY_WRITES) == using(WRITES, "array")
    assert set(roles.ACCESSES) == using(READS, "array") | using(WRITES, "array")
    assert set(roles.ARRAY_USES) == {cls for cls in STATEMENTS.values() if "array" in cls.__dataclass_fields__}


def test_locals() -> None:
    # A loop reads the local that stops it, but has no value of it.
    assert set(roles.LOCAL_READS) == using(READS, "local") - set(roles.LOOPS)
    assert set(roles.LOCAL_WRITES) == using(WRITES, "local", declares=False)
    assert set(roles.LOCAL_DECLARATIONS) == using(WRITES, "local", declares=True)


def test_control() -> None:
    assert set(roles.JUMPS) == {cls for cls in EFFECTS if EFFECTS[cls].jumps}
    nested = {cls for cls in STATEMENTS.values() if any(f.type == "Block" for f in cls.__dataclass_fields__.values())}
    assert set(roles.STRUCTURED) | {n.Scope} == nested
    assert set(roles.CONTROL) == nested | set(roles.JUMPS)


def test_stacks() -> None:
    touching = using(READS, "stack") | using(WRITES, "stack") | using(READS, "adjoint") | using(WRITES, "adjoint")
    assert set(roles.STACKS) == touching


def test_values_have_no_effects() -> None:
    for cls in roles.VALUES:
        row = EFFECTS[cls]
        assert not (row.reads or row.writes or row.observable or row.jumps)


@pytest.mark.parametrize("name", ROLES)
def test_every_role_has_distinct_statements(name: str) -> None:
    classes = ROLES[name]
    assert len(set(classes)) == len(classes) > 1
    assert set(classes) <= set(STATEMENTS.values())
