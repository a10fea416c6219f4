from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.errors import DataError
from penstock.formats.base import bad_record
from tests.formats.reading import columns, reader, rejects, request, rows, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DECLARED = columns("id BIGINT, s STRING")
_COMPRESSIONS = {
    "parquet": ["snappy", "zstd", "gzip", "lz4", "none"],
    "orc": ["zstd", "snappy", "zlib", "lz4", "none"],
    "avro": ["snappy", "zstandard", "deflate", "bzip2", "xz", "uncompressed"],
}


def _written(spark: SparkSession, name: str, folder: Path, compression: str | None = None) -> list[Path]:
    frame = spark.sql("SELECT id, concat('x', id) AS s FROM range(10)").repartition(2)
    writer(name, **({"compression": compression} if compression else {})).write(frame, str(folder))
    return sorted(path for path in folder.iterdir() if path.name.startswith("part-"))


@pytest.mark.parametrize(("name", "compression"), [(n, c) for n, cs in _COMPRESSIONS.items() for c in cs])
def test_what_is_written_is_read_again(
    spark: SparkSession, tmp_path: Path, name: str, compression: str
) -> None:
    files = _written(spark, name, tmp_path / "out", compression)
    assert all(path.name.endswith(writer(name).suffix) for path in files)
    form = reader(name)
    assert form.discover(spark, [str(path) for path in files]) == columns("id bigint, s string")
    frame = form.read(spark, [str(tmp_path / "out")], DECLARED, request("s"))
    assert sorted(rows(frame)) == [(f"x{i}",) for i in range(10)]


@pytest.mark.parametrize("name", _COMPRESSIONS)
def test_metadata(spark: SparkSession, tmp_path: Path, name: str) -> None:
    files = _written(spark, name, tmp_path / "out")
    wanted = request("id", metadata="filename path size modified row_number")
    found = reader(name).read(spark, [str(path) for path in files], DECLARED, wanted).collect()
    numbers = {
        path.name: sorted(r._metadata.row_number for r in found if r._metadata.filename == path.name)
        for path in files
    }
    assert sum(map(len, numbers.values())) == 10
    assert all(list(range(1, len(found) + 1)) == found for found in numbers.values())
    assert {(row._metadata.path, row._metadata.size) for row in found} == {
        (str(p), p.stat().st_size) for p in files
    }


@pytest.mark.parametrize("name", _COMPRESSIONS)
@pytest.mark.parametrize("damage", ["cut", "other"])
def test_damaged_files_are_set_aside(spark: SparkSession, tmp_path: Path, name: str, damage: str) -> None:
    files = _written(spark, name, tmp_path / "out")
    lost = reader(name).read(spark, [str(files[0])], DECLARED, request()).count()
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[:-20] if damage == "cut" else b"nothing of this kind")
    form = reader(name)
    paths = [str(path) for path in files]
    found = form.read(spark, paths, DECLARED, request(on_error="skip")).collect()
    assert sum(row._rejected for row in found) == 1
    assert len([row for row in found if not row._rejected]) == 10 - lost
    ((payload, error, file, line),) = rejects(spark, form, tmp_path / "out", DECLARED)
    assert (payload, file, line) == (None, str(files[0]), None)
    assert f"not a whole {name} file" in error
    with pytest.raises(Exception, match=r"(?i)file|avro|orc"):
        form.read(spark, paths, DECLARED, request()).collect()


@pytest.mark.parametrize("name", _COMPRESSIONS)
def test_rules_of_columns(spark: SparkSession, tmp_path: Path, name: str) -> None:
    frame = spark.sql("SELECT id, if(id = 1, null, repeat('x', cast(id AS int))) AS s FROM range(4)")
    writer(name).write(frame.coalesce(1), str(tmp_path / "out"))
    declared = columns("id BIGINT, s VARCHAR(2) NOT NULL")
    form = reader(name)
    found = form.read(spark, [str(tmp_path / "out")], declared, request(on_error="skip")).collect()
    assert [row.id for row in found if row._rejected] == [1, 3]
    assert sorted(error for _, error, *_ in rejects(spark, form, tmp_path / "out", declared)) == [
        "s: longer than 2 characters",
        "s: null, but it is NOT NULL",
    ]
    with pytest.raises(Exception, match="PENSTOCK") as caught:
        form.read(spark, [str(tmp_path / "out")], declared, request()).collect()
    record = bad_record(str(caught.value))
    assert record is not None
    assert record["error"] == "s: null, but it is NOT NULL"
    assert rows(form.read(spark, [str(tmp_path / "out")], declared, request("id"))) == [
        (0,),
        (1,),
        (2,),
        (3,),
    ]


def test_nothing_to_discover(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError) as caught:
        reader("parquet").discover(spark, [str(tmp_path / "out")])
    assert caught.value.code == "empty-source"


def test_schemas_of_several_files(spark: SparkSession, tmp_path: Path) -> None:
    writer("parquet").write(spark.sql("SELECT 1 AS a"), str(tmp_path / "x"))
    writer("parquet").write(spark.sql("SELECT 2 AS b"), str(tmp_path / "y"))
    paths = [str(path) for path in sorted(tmp_path.rglob("part-*"))]
    assert len(reader("parquet").discover(spark, paths)) == 1
    assert reader("parquet", merge_schema=True).discover(spark, paths) == columns("a int, b int")


@pytest.mark.parametrize("name", _COMPRESSIONS)
def test_folders_are_columns(spark: SparkSession, tmp_path: Path, name: str) -> None:
    frame = spark.sql("SELECT id, id % 2 AS k FROM range(4)")
    writer(name).write(frame, str(tmp_path / "out"), ("k",))
    files = [str(path) for path in sorted((tmp_path / "out").rglob("part-*"))]
    wanted = request(partitions=columns("k INT"), base=str(tmp_path / "out"))
    found = reader(name).read(spark, files, columns("id BIGINT"), wanted)
    assert sorted(rows(found.where("k = 1"))) == [(1, 1), (3, 1)]
