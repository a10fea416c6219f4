from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.errors import DataError, OptionError
from tests.formats.reading import columns, reader, rejects, request, rows, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_lines(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("one\n\nthree\n")
    form = reader("log")
    assert form.discover(spark, [str(path)]) == columns("value STRING")
    assert rows(form.read(spark, [str(path)], columns("line STRING"), request())) == [
        ("one",),
        ("",),
        ("three",),
    ]
    wanted = request("", metadata="row_number filename")
    found = form.read(spark, [str(path)], columns("value STRING"), wanted).collect()
    assert sorted(tuple(row._metadata) for row in found) == [("x.log", 1), ("x.log", 2), ("x.log", 3)]


def test_rules_of_the_column(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("ab\nabcd\n")
    declared = columns("value VARCHAR(3)")
    found = reader("text").read(spark, [str(path)], declared, request(on_error="skip")).collect()
    assert [row._rejected for row in found] == [False, True]
    assert rejects(spark, reader("text"), path, declared)[0][1] == "value: longer than 3 characters"


def test_one_column_only(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(DataError) as caught:
        reader("text").read(spark, [str(tmp_path / "x.txt")], columns("a STRING, b STRING"), request())
    assert caught.value.code == "text-columns"
    with pytest.raises(DataError):
        writer("text").write(spark.sql("SELECT 1 AS a"), str(tmp_path / "out"))


@pytest.mark.parametrize("compression", ["none", "gzip", "bzip2", "deflate", "snappy", "lz4"])
def test_what_is_written_is_read_again(spark: SparkSession, tmp_path: Path, compression: str) -> None:
    form = writer("text", compression=compression)
    form.write(spark.sql("SELECT 'x' AS line"), str(tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("part-*")
    assert path.name.endswith(form.suffix)
    assert rows(reader("text").read(spark, [str(path)], columns("value STRING"), request())) == [("x",)]


def test_files_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"\x00\xff")
    form = reader("bin")
    found = form.discover(spark, [str(path)])
    assert [column.name for column in found] == ["path", "modificationTime", "length", "content"]
    (row,) = form.read(spark, [str(path)], found, request("length content", metadata="filename")).collect()
    assert (row.length, bytes(row.content), row._metadata.filename) == (2, b"\x00\xff", "x.bin")
    with pytest.raises(DataError) as caught:
        form.read(spark, [str(path)], columns("bytes BINARY"), request())
    assert caught.value.code == "binary-columns"
    with pytest.raises(OptionError):
        writer("binary").write(spark.range(1).toDF("x"), str(tmp_path / "out"))
