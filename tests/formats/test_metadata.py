"""`_metadata` means the same in every format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.api import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LONG_AGO = 1_234_567_890_123
"""Milliseconds since 1970; no file that was just written has this time."""


@pytest.mark.parametrize("name", ["json", "csv", "parquet", "orc", "avro", "text", "binary", "msgpack"])
def test_all_fields(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session(spark=spark)
    path = tmp_path / "in" / f"a b+é.{name}"
    count = 1 if name == "binary" else 3
    if name == "binary":
        path.parent.mkdir()
        path.write_bytes(b"\x00\xff")
    else:
        session.run(f"SELECT concat('x', id) AS s FROM range({count}) INTO '{path}' WITH (format = '{name}')")
    os.utime(path, ns=(LONG_AGO * 1_000_000, LONG_AGO * 1_000_000))
    found = session.sql(
        "SELECT _metadata.filename, _metadata.path, _metadata.size, unix_millis(_metadata.modified),"
        f" _metadata.row_number FROM 'in/' WITH (format = '{name}') ORDER BY _metadata.row_number"
    )
    about = os.stat(path)
    assert [tuple(row) for row in found.collect()] == [
        (path.name, str(path), about.st_size, about.st_mtime_ns // 1_000_000, number + 1)
        for number in range(count)
    ]
