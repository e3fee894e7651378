"""Test that every public name of the peers has a value, or an object whose use raises an error with a cure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import stackgrad as sg
from stackgrad.compat.lookup import MissingName, source_of, value_of
from stackgrad.compat.peers import PEERS, modules_of, paths_of
from stackgrad.compat.refused import REFUSED, RefusedPeerName, refusal_at
from stackgrad.compat.tables import ERRORS, HOMES, RENAMED

DOCS = str(Path(__file__).resolve().parents[1] / "docs")
if DOCS not in sys.path:
    sys.path.append(DOCS)

import migrating_page  # noqa: E402


@pytest.mark.parametrize("peer", PEERS)
def test_every_public_name_has_a_source(peer: str) -> None:
    missing = [
        f"{path}.{name}"
        for path in migrating_page.MODULES
        for name in modules_of(peer).get(path, ())
        if source_of(peer, path, name) is None
    ]
    assert missing == []


@pytest.mark.parametrize("peer", PEERS)
def test_every_source_has_a_value(peer: str) -> None:
    for path, names in modules_of(peer).items():
        for name in names:
            source = source_of(peer, path, name)
            if source is not None and source[0] != "module":
                value, _ = value_of(peer, path, name)
                assert isinstance(value, RefusedPeerName) == (source[0] == "refused")


def test_a_name_that_is_not_there_says_what_to_write() -> None:
    with pytest.raises(MissingName, match=r"module 'taichi.lang' has no attribute 'logical_and'; cure: write Python's"):
        value_of("taichi", "lang", "logical_and")


@pytest.mark.parametrize("peer", PEERS)
def test_a_refused_name_raises_its_cure_when_it_is_used(peer: str) -> None:
    used = 0
    for path in migrating_page.MODULES:
        for name in modules_of(peer).get(path, ()):
            source = source_of(peer, path, name)
            if source is not None and source[0] == "refused":
                with pytest.raises(sg.Unsupported) as caught:
                    value_of(peer, path, name)[0]()
                assert f"`{peer}." in str(caught.value) and "cure: " in str(caught.value)
                used += 1
    assert used > 50


def test_rows_of_the_tables_are_for_names_of_the_peers() -> None:
    """A row whose name no peer has would be dead, but for old names and modules."""
    old = {
        "Tape",
        "any_arr",
        "complex_kernel",
        "complex_kernel_grad",
        "ext_arr",
        "get_runtime",
        "set_gdb_trigger",
        "SNodeTree",
        "NdarrayType",
        "MatrixType",
    }
    old |= {"VectorType", "StructType"}
    names = {name for peer in PEERS for listed in modules_of(peer).values() for name in listed}
    assert [path for path in RENAMED if path.rpartition(".")[2] not in names | old | {"cfg"}] == []
    assert [path for path in HOMES if path and not any(path in paths_of(peer) for peer in PEERS)] == []
    endings = {name.removeprefix(peer.capitalize()) for peer in PEERS for name in names}
    assert set(ERRORS) - endings - {"IndexError"} == set()
    assert all(refusal_at(path) is REFUSED[path] for path in REFUSED)


def test_the_page_is_what_the_tables_say() -> None:
    assert migrating_page.PAGE.read_text(encoding="utf-8") == migrating_page.page(), (
        "run: python tests/docs/migrating_page.py"
    )
