from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from penstock.errors import DataError
from penstock.formats.fitting import misfits
from penstock.schema import Column
from tests.formats.reading import columns, reader, rejects, request, rows, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KINDS = ("parquet", "orc", "avro")
VALUES = {
    "TINYINT": "-128Y", "SMALLINT": "32767S", "INT": "-2147483648", "BIGINT": "9223372036854775807L",
    "FLOAT": "1.1F", "DOUBLE": "1.1D", "DECIMAL(5,2)": "-123.45BD", "DECIMAL(10,2)": "12345678.91BD",
    "DECIMAL(20,0)": "CAST(12345678901234567890 AS DECIMAL(20,0))", "DECIMAL(29,5)": "NULL",
    "STRING": "'seven'", "BINARY": "X'6f6b'", "BOOLEAN": "true", "DATE": "DATE'2024-05-06'",
    "TIMESTAMP": "TIMESTAMP'2024-05-06 07:08:09.123456'",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ'2024-05-06 07:08:09.123456'",
    "ARRAY<INT>": "array(1, 2147483647)", "ARRAY<BIGINT>": "array(1L)", "MAP<STRING,INT>": "map('k', 7)",
    "MAP<STRING,BIGINT>": "map('k', 7L)", "STRUCT<a: INT>": "named_struct('a', 7)",
    "STRUCT<a: BIGINT>": "named_struct('a', 7L)", "STRUCT<a: STRING>": "named_struct('a', '7')",
}  # fmt: skip
"""Values of each type: those that a narrower one would not take."""
WIDER = {
    "SMALLINT": "INT BIGINT DOUBLE",
    "INT": "BIGINT DOUBLE",
    "FLOAT": "DOUBLE",
    "DECIMAL(5,2)": "DECIMAL(10,2) DECIMAL(29,5)",
    "DECIMAL(10,2)": "DECIMAL(29,5)",
    "DECIMAL(20,0)": "DECIMAL(29,5)",
    "ARRAY<INT>": "ARRAY<BIGINT>",
    "MAP<STRING,INT>": "MAP<STRING,BIGINT>",
    "STRUCT<a: INT>": "STRUCT<a:_BIGINT>",
}
ALSO = {
    "parquet": {
        "TINYINT": "SMALLINT INT BIGINT DOUBLE DECIMAL(20,0) DECIMAL(29,5)",
        "SMALLINT": "DECIMAL(20,0) DECIMAL(29,5)",
        "INT": "DECIMAL(20,0) DECIMAL(29,5)",
        "BIGINT": "DECIMAL(20,0) DECIMAL(29,5)",
        "STRING": "BINARY",
        "BINARY": "STRING",
        "DATE": "TIMESTAMP_NTZ",
        "TIMESTAMP": "TIMESTAMP_NTZ",
        "TIMESTAMP_NTZ": "TIMESTAMP",
    },
    "orc": {
        "TINYINT": "SMALLINT INT BIGINT DOUBLE FLOAT STRING"
        " DECIMAL(5,2) DECIMAL(10,2) DECIMAL(20,0) DECIMAL(29,5)",
        "SMALLINT": "FLOAT STRING DECIMAL(10,2) DECIMAL(20,0) DECIMAL(29,5)",
        "INT": "STRING DECIMAL(20,0) DECIMAL(29,5)",
        "BIGINT": "STRING DECIMAL(20,0) DECIMAL(29,5)",
        "DATE": "STRING",
        "STRING": "BINARY",
        "STRUCT<a: INT>": "STRUCT<a:_STRING>",
        "STRUCT<a: BIGINT>": "STRUCT<a:_STRING>",
    },
    "avro": {"DATE": "TIMESTAMP_NTZ"},
}


def _fitting(kind: str) -> dict[str, set[str]]:
    """For each type of a file, all that it can be read as."""
    told = {a: f"{WIDER.get(a, '')} {ALSO[kind].get(a, '')}".split() for a in VALUES}
    return {a: {b.replace(":_", ": ") for b in others} for a, others in told.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_is_kept(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    pairs = [(a, b) for a, others in _fitting(kind).items() for b in sorted(others)]
    values = ", ".join(f"CAST({VALUES[a]} AS {a}) AS c{i}" for i, (a, _) in enumerate(pairs))
    writer(kind).write(spark.sql(f"SELECT {values}"), str(tmp_path / "out"))
    (file,) = (tmp_path / "out").glob("part-*")
    declared = tuple(c for i, (_, b) in enumerate(pairs) for c in columns(f"c{i} {b}"))
    found = reader(kind).read(spark, [str(file)], declared, request())
    casts = ", ".join(f"CAST(CAST({VALUES[a]} AS {a}) AS {b})" for a, b in pairs)
    (got,), (expected,) = rows(found), rows(spark.sql(f"SELECT {casts}"))
    assert dict(zip(pairs, got, strict=True)) == dict(zip(pairs, expected, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_all_else_stops(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    fitting = _fitting(kind)
    held = {a: v for a, v in VALUES.items() if kind != "avro" or a not in ("TINYINT", "SMALLINT")}
    values = ", ".join(f"CAST({v} AS {a}) AS c{i}" for i, (a, v) in enumerate(held.items()))
    writer(kind).write(spark.sql(f"SELECT {values}"), str(tmp_path / "out"))
    (file,) = map(str, (tmp_path / "out").glob("part-*"))
    refused = 0
    for i, a in enumerate(held):
        for b in held:
            used = columns(f"c{i} {b}")
            bad = misfits(spark, kind, [file], used, used)
            assert bool(bad) == (a != b and b not in fitting[a]), (a, b)
            refused += bool(bad)
    assert refused > len(held)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("made", "read", "told"),
    [
        ("'x' AS v", "v BIGINT", "v as STRING, which cannot be read as BIGINT"),
        ("1L AS v", "v INT", "v as BIGINT, which cannot be read as INT"),
        ("1.5BD AS V", "v BIGINT", "v as DECIMAL(2,1), which cannot be read as BIGINT"),
        (
            "named_struct('a', 1, 'b', named_struct('c', 1.5D)) AS v",
            "v STRUCT<a: INT, b: STRUCT<c: FLOAT>>",
            "v.b.c as DOUBLE, which cannot be read as FLOAT",
        ),
    ],
)
def test_file_column_and_types_are_told(
    spark: SparkSession, tmp_path: Path, kind: str, made: str, read: str, told: str
) -> None:
    for folder, frame in (("1", spark.sql("SELECT 1 AS other")), ("2", spark.sql(f"SELECT {made}"))):
        writer(kind).write(frame, str(tmp_path / folder))
    files = [str(path) for path in sorted(tmp_path.rglob("part-*"))]
    name, _, type = read.partition(" ")
    declared = (*columns("other INT"), Column(name, type))
    with pytest.raises(DataError) as caught:
        reader(kind).read(spark, files, declared, request())
    assert caught.value.code == "column-types"
    assert caught.value.message == f"{files[1]} has {told}"
    assert sorted(rows(reader(kind).read(spark, files, declared, request("other"))), key=str) == [
        (1,),
        (None,),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_another_type_are_set_aside(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    for folder, value in (("1", "1 AS v"), ("2", "'x' AS v"), ("3", "3L AS v")):
        writer(kind).write(spark.sql(f"SELECT {value}, 7 AS other"), str(tmp_path / folder))
    paths = sorted(tmp_path.rglob("part-*"))
    files = [str(path) for path in paths]
    declared, form = columns("v BIGINT, other INT"), reader(kind)
    found = form.read(spark, files, declared, request(on_error="skip"))
    assert sorted(rows(found), key=str) == [(1, 7, False), (3, 7, False), (None, None, True)]
    found = form.read(spark, files, declared, request("other", on_error="skip"))
    assert rows(found) == [(7, False)] * 3
    told = "v is STRING, which cannot be read as BIGINT"
    assert rows(form.rejects(spark, files, declared, request())) == [(None, told, files[1], None)]
    assert rejects(spark, form, paths[1].parent, declared) == [(None, told, files[1], None)]
    alone = form.read(spark, files[1:2], declared, request("v", on_error="skip"))
    assert rows(alone) == [(None, True)]


def test_columns_of_hive_are_numbered(spark: SparkSession, tmp_path: Path) -> None:
    file = str(tmp_path / "hive.orc")
    pyarrow.orc.write_table(pa.table({"_col0": [1], "_col1": ["x"]}), file)
    declared = columns("id BIGINT, name STRING")
    assert rows(reader("orc").read(spark, [file], declared, request())) == [(1, "x")]
    with pytest.raises(DataError, match="has name as STRING, which cannot be read as BIGINT"):
        reader("orc").read(spark, [file], columns("id BIGINT, name BIGINT"), request("name"))


def test_beside_a_type_that_spark_does_not_have(spark: SparkSession, tmp_path: Path) -> None:
    file = str(tmp_path / "times.parquet")
    pyarrow.parquet.write_table(pa.table({"at": pa.array([1], pa.time32("ms")), "id": ["x"]}), file)
    with pytest.raises(DataError, match="has id as STRING, which cannot be read as BIGINT"):
        reader("parquet").read(spark, [file], columns("id BIGINT"), request())
    assert rows(reader("parquet").read(spark, [file], columns("id STRING"), request())) == [("x",)]
    node = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}
    node["fields"] += [{"name": "next", "type": ["null", "r"]}]  # type: ignore[operator]
    file = str(tmp_path / "lists.avro")
    with open(file, "wb") as out:
        fastavro.writer(out, node, [{"id": "x", "next": {"id": "y", "next": None}}])
    with pytest.raises(DataError, match="has id as STRING, which cannot be read as BIGINT"):
        reader("avro").read(spark, [file], columns("id BIGINT"), request())
    assert rows(reader("avro").read(spark, [file], columns("id STRING"), request())) == [("x",)]


@pytest.mark.parametrize("kind", KINDS)
def test_folders_that_are_left_out_are_not_looked_into(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    for key, value in (("1", "1L"), ("2", "'x'")):
        frame = spark.sql(f"SELECT {value} AS v, {key} AS k, DATE'2024-01-0{key}' AS d, 't{key}' AS t")
        writer(kind).write(frame, str(tmp_path / "out"), ("k", "d", "t"))
    files = [str(path) for path in sorted(tmp_path.rglob("part-*"))]
    parts: Any = {"partitions": columns("k INT, d DATE, t STRING"), "base": str(tmp_path / "out")}
    kept = [("k", "<", 2), ("d", "=", "2024-01-01"), ("t", "in", ("t0", "t1"))]
    for filter in kept:
        wanted = request("v k", filters=(filter,), **parts)
        found = reader(kind).read(spark, files, columns("v BIGINT"), wanted)
        assert rows(found.where("k = 1")) == [(1, 1)]
    for filter in [("k", ">", 1), ("d", "=", "2024-1-1"), ("t", ">", "t"), ("k", "is not null", None)]:
        wanted = request("v k", filters=(filter,), **parts)
        with pytest.raises(DataError, match="has v as STRING"):
            reader(kind).read(spark, files, columns("v BIGINT"), wanted)
