from __future__ import annotations

import gzip
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from penstock.api import Ran, Session
from penstock.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
AT = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=timezone.utc)


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.chdir(tmp_path)
    return Session(spark=spark)


def packed(*records: Any) -> bytes:
    return b"".join(msgpack.packb(record, datetime=True) for record in records)


def unpacked(paths: Sequence[Path]) -> list[Any]:
    found = []
    for path in paths:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        found += list(msgpack.Unpacker(_feed(data), timestamp=3))
    return found


def _feed(data: bytes) -> Any:
    import io

    return io.BytesIO(data)


def rows(session: Session, text: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in session.sql(text).collect()]


def test_columns_are_found_in_the_records(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.msgpack").write_bytes(
        packed({"id": 1, "at": AT, "tags": ["x"], "of": {"b": True}}, {"id": 2, "note": "n", "raw": b"\x00"})
    )
    assert rows(session, "SELECT * FROM 'a.msgpack' ORDER BY id") == [
        {"id": 1, "at": AT.replace(tzinfo=None), "tags": ["x"], "of": {"b": True}, "note": None, "raw": None},
        {"id": 2, "at": None, "tags": None, "of": None, "note": "n", "raw": bytearray(b"\x00")},
    ]


def test_bad_records_are_told_by_number(session: Session, tmp_path: Path) -> None:
    content = packed({"id": 1}, {"id": "two"}, {"id": 3}, [4]) + msgpack.packb({"id": 5})[:-1]
    (tmp_path / "a.msgpack").write_bytes(content)
    source = (
        "CREATE OR REPLACE SOURCE s (id BIGINT) WITH (connector='files', path='a.msgpack', on_error='{}')"
    )
    session.run(source.format("fail"))
    with pytest.raises(DataError, match=r"id: expected BIGINT, found 'two'") as caught:
        session.run("SELECT id FROM s INTO 'out/*.csv'")
    assert caught.value.at is not None
    assert caught.value.at.line == 2
    session.run(source.format("dead_letter"))
    (outcome,) = session.run("SELECT id FROM s INTO 'out/*.csv'")
    assert isinstance(outcome, Ran)
    assert (outcome.rows, outcome.rejected) == (2, 3)
    line = "CAST(position->>'line' AS INT) AS line"
    letters = rows(session, f"SELECT {line}, error FROM '{outcome.dead_letters[0]}' ORDER BY line")
    assert [letter["line"] for letter in letters] == [2, 4, 5]
    assert "expected a map, found list" in letters[1]["error"]
    assert "ends in the middle" in letters[2]["error"]


def test_fields_of_the_file_and_folders(session: Session, tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"in/day={day}").mkdir(parents=True)
        (tmp_path / f"in/day={day}/a.msgpack").write_bytes(packed({"id": day * 10}, {"id": day * 10 + 1}))
    found = rows(
        session, "SELECT id, day, _metadata.row_number AS n, _metadata.filename AS f FROM 'in/' ORDER BY id"
    )
    assert found == [
        {"id": 10, "day": 1, "n": 1, "f": "a.msgpack"},
        {"id": 11, "day": 1, "n": 2, "f": "a.msgpack"},
        {"id": 20, "day": 2, "n": 1, "f": "a.msgpack"},
        {"id": 21, "day": 2, "n": 2, "f": "a.msgpack"},
    ]
    assert rows(session, "SELECT COUNT(*) AS n FROM 'in/' WHERE day = 2") == [{"n": 2}]


@pytest.mark.parametrize("ending", ["msgpack", "msgpack.gz"])
def test_what_is_written_is_read_again(session: Session, tmp_path: Path, ending: str) -> None:
    select = (
        "SELECT id, CAST(id / 2 AS DECIMAL(5, 2)) AS d, TIMESTAMP'2026-01-02 03:04:05' AS at, array(id) AS a"
    )
    session.run(f"{select} FROM range(5) INTO 'out/*.{ending}' WITH (batch_size = 2)")
    files = sorted(Path("out").iterdir())
    assert len(files) >= 3
    records = sorted(unpacked(files), key=lambda record: record["id"])
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    assert records[3] == {"id": 3, "d": "1.50", "at": at, "a": [3]}
    assert rows(session, f"SELECT SUM(id) AS s FROM 'out/*.{ending}'") == [{"s": 10}]


def test_partitions_become_folders(session: Session, tmp_path: Path) -> None:
    session.run(
        "SELECT id, id % 2 AS odd FROM range(4) INTO 'out/' WITH (format = 'msgpack', partition_by = 'odd')"
    )
    assert sorted(r["id"] for r in unpacked(sorted(Path("out/odd=1").iterdir()))) == [1, 3]
