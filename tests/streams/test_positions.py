"""Positions that share a transaction with what was made of the messages."""

from __future__ import annotations

import re
import sqlite3
import sys
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

from penstock.errors import PenstockError
from penstock.streams import Positions, Record


def message(sequence: int | str, shard: int = 0, stream: str = "news") -> Record:
    return Record(stream, shard, sequence, datetime(2024, 2, 3, tzinfo=timezone.utc), b"")


def test_keeps_the_last_of_each_shard(tmp_path: Path) -> None:
    path = tmp_path / "positions.db"
    database = sqlite3.connect(path)
    positions = Positions(database, "one")
    assert positions.kept("news") == {}
    for sequence in (1, 3, 5):
        positions.keep(message(sequence))
    positions.keep(message("1700000000000-0", shard=1))
    positions.keep(message(9, stream="other"))
    Positions(database, "two").keep(message(100))
    database.commit()
    database.close()
    again = sqlite3.connect(path)
    assert Positions(again, "one").kept("news") == {0: 5, 1: "1700000000000-0"}
    assert Positions(again, "one").kept("other") == {0: 9}
    assert Positions(again, "two").kept("news") == {0: 100}
    again.close()


def test_is_part_of_the_connections_transaction(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "positions.db")
    positions = Positions(database, "one")
    positions.keep(message(1))
    database.commit()
    positions.keep(message(2))
    other = sqlite3.connect(tmp_path / "positions.db")
    assert Positions(other, "one").kept("news") == {0: 1}
    other.close()
    database.rollback()
    assert positions.kept("news") == {0: 1}
    database.close()


@pytest.mark.parametrize(
    ("earlier", "later"),
    [(9, 10), ("1700000000000-9", "1700000000000-10"), ("9:5-0", "10:5-0"), ("9:5-2", "9:5-10")],
)
def test_two_readers_of_one_name_are_told(tmp_path: Path, earlier: int | str, later: int | str) -> None:
    databases = [sqlite3.connect(tmp_path / "positions.db", isolation_level=None) for _ in range(2)]
    one, other = (Positions(database, "reader") for database in databases)
    one.keep(message(earlier))
    one.keep(message(later))
    for sequence in (earlier, later):
        with pytest.raises(PenstockError) as told:
            other.keep(message(sequence))
        assert told.value.code == "kept-already"
        assert f"'reader' is at {later}" in told.value.message
    other.keep(message(earlier, shard=1))
    other.forget("news")
    assert one.kept("news") == {}
    other.keep(message(earlier))
    for database in databases:
        database.close()


def test_of_two_readers_at_one_message_one_has_its_effect(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "effects.db")) as database:
        database.execute("CREATE TABLE effects (reader TEXT)")
        readers = [(name, database.cursor()) for name in ("one", "other")]
        stores = {name: Positions(cursor, "reader") for name, cursor in readers}
        for name, cursor in readers:
            cursor.begin()
            cursor.execute("INSERT INTO effects VALUES (?)", (name,))
            assert stores[name].kept("news") == {}
        stores["one"].keep(message(1))
        readers[0][1].commit()
        with pytest.raises(duckdb.Error):
            stores["other"].keep(message(1))
        assert database.execute("SELECT reader FROM effects").fetchall() == [("one",)]
        assert stores["one"].kept("news") == {0: 1}


def test_is_kept_by_other_databases() -> None:
    database = duckdb.connect()
    positions = Positions(database, "one")
    database.begin()
    positions.keep(message(4))
    database.commit()
    database.begin()
    positions.keep(message(5))
    database.rollback()
    assert positions.kept("news") == {0: 4}
    database.close()


class Driver(ModuleType):
    """A driver of SQLite that marks the places of values in a way of its own, as other databases' do."""

    def __init__(self, style: str, mark: str) -> None:
        super().__init__(f"driver_{style}")
        self.paramstyle = style
        self._mark = re.compile(mark)
        self.Connection = type(
            "Connection", (Connection,), {"__module__": f"{self.__name__}.inner", "driver": self}
        )

    def execute(self, cursor: sqlite3.Cursor, text: str, values: Any) -> None:
        assert "?" not in text
        if isinstance(values, dict):
            values = [values[name] for name in self._mark.findall(text)]
        plain, count = self._mark.subn("?", text)
        assert count == len(values)
        cursor.execute(plain, values)


class Connection:
    driver: Driver

    def __init__(self) -> None:
        self._inner = sqlite3.connect(":memory:")
        self.commit = self._inner.commit
        self.rollback = self._inner.rollback
        self.close = self._inner.close

    def cursor(self) -> Cursor:
        return Cursor(self.driver, self._inner.cursor())


class Cursor:
    def __init__(self, driver: Driver, inner: sqlite3.Cursor) -> None:
        self._driver, self._inner = driver, inner
        self.fetchall = inner.fetchall

    def execute(self, text: str, values: Any = ()) -> None:
        self._driver.execute(self._inner, text, values)


@pytest.mark.parametrize(
    ("style", "mark"),
    [("format", "%s"), ("pyformat", r"%\((\w+)\)s"), ("named", r":([a-z]\w*)"), ("numeric", r":\d+")],
)
def test_values_are_marked_as_the_driver_has_it(
    style: str, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(style, mark)
    monkeypatch.setitem(sys.modules, driver.__name__, driver)
    database = driver.Connection()
    positions = Positions(database, "one")
    positions.keep(message(4))
    database.commit()
    positions.keep(message(5))
    assert positions.kept("news") == {0: 5}
    database.rollback()
    assert positions.kept("news") == {0: 4}
    positions.forget("news")
    assert positions.kept("news") == {}
    database.close()


def test_a_kind_of_ones_own_is_of_its_driver() -> None:
    class Own(sqlite3.Connection):
        """Adds nothing."""

    database = sqlite3.connect(":memory:", factory=Own)
    assert Positions(database, "one").kept("news") == {}
    database.close()
    with pytest.raises(PenstockError) as refused:
        Positions("totals.db", "one")
    assert refused.value.code == "not-a-connection"
