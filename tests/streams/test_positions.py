"""Positions that share a transaction with what was made of the messages."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timezone
from pathlib import Path

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
