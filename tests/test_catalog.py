from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from penstock.catalog import Catalog
from penstock.errors import SetupError, StatementError


def put(
    catalog: Catalog, name: str, text: str = "x", *, replace: bool = False, if_not_exists: bool = False
) -> bool:
    return catalog.put("view", name, text, replace=replace, if_not_exists=if_not_exists, at=None)


def test_objects_outlive_the_process(tmp_path: Path) -> None:
    first = Catalog(tmp_path / "state" / "catalog.db")
    put(first, "Big", "CREATE VIEW Big AS SELECT 1")
    first.close()
    found = Catalog(tmp_path / "state" / "catalog.db").find("bIG")
    assert found is not None
    assert (found.name, found.kind, found.version) == ("Big", "view", 1)


def test_a_name_is_taken_once_unless_replaced() -> None:
    catalog = Catalog()
    assert put(catalog, "v")
    with pytest.raises(StatementError, match="there is a view 'v' already"):
        put(catalog, "V")
    assert not put(catalog, "v", if_not_exists=True)
    assert put(catalog, "v", "y", replace=True)
    entry = catalog.find("v")
    assert entry is not None
    assert (entry.statement, entry.version) == ("y", 2)


def test_what_a_copy_creates_is_not_kept() -> None:
    catalog = Catalog()
    put(catalog, "v")
    twin = catalog.copy()
    put(twin, "w")
    assert [e.name for e in twin.objects("view")] == ["v", "w"]
    assert [e.name for e in catalog.objects()] == ["v"]


def test_dropping_suggests_the_nearest_name() -> None:
    catalog = Catalog()
    put(catalog, "readings")
    with pytest.raises(StatementError) as caught:
        catalog.remove("view", "reading", if_exists=False, at=None)
    assert caught.value.hint == "did you mean 'readings'?"
    assert not catalog.remove("view", "reading", if_exists=True, at=None)
    assert catalog.remove("view", "READINGS", if_exists=False, at=None)
    assert catalog.objects() == []


def test_a_pipeline_keeps_its_id_until_it_is_dropped() -> None:
    catalog = Catalog()
    first = catalog.register("p", "SELECT 1", ["a"], ["b", "c"])
    assert (first.state, catalog.start(first.id, "SELECT 1", ["a"], ["b", "c"]).version) == ("new", 1)
    catalog.finish(first.id, "failed", 0)
    catalog.finish(first.id, "finished", 1)
    assert catalog.register("P", "SELECT 2", [], []).id == first.id
    again = catalog.start(first.id, "SELECT 2", [], [])
    assert (again.id, again.version, again.batches, again.state) == (first.id, 2, 1, "running")
    assert (first.inputs, first.outputs) == (("a",), ("b", "c"))
    catalog.remove("pipeline", "p", if_exists=False, at=None)
    assert catalog.register("p", "SELECT 1", [], []).id != first.id


def test_a_catalog_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot open the catalog"):
        Catalog(tmp_path / "file" / "catalog.db")
    (tmp_path / "broken.db").write_bytes(b"not a database" * 100)
    with pytest.raises(SetupError, match="not a database"):
        Catalog(tmp_path / "broken.db")


def test_two_processes_may_write_one_catalog(tmp_path: Path) -> None:
    one, two = Catalog(tmp_path / "c.db"), Catalog(tmp_path / "c.db")
    put(one, "a")
    put(two, "b")
    assert [e.name for e in one.objects()] == ["a", "b"]
    with sqlite3.connect(tmp_path / "c.db") as db:
        assert db.execute("SELECT count(*) FROM objects").fetchone() == (2,)
