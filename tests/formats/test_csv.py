from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import DataError, OptionError
from penstock.formats.base import bad_record
from penstock.formats.csv import CsvReadOptions
from penstock.options import Setting, bind
from tests.formats.dirty import CSV_COLUMNS, csv_lines
from tests.formats.reading import columns, is_fast, reader, rejects, request, rows, writer
from tests.formats.test_json import _numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ABC = columns("a BIGINT, b STRING, c DOUBLE")


def test_dirty_records_are_those_of_sparks_reader(spark: SparkSession, tmp_path: Path) -> None:
    """But for quotes with nothing between them: a text of no characters to us, and null to Spark."""
    dirty = [line for line in csv_lines() if line != ',,,,,,"",,,,']
    path = tmp_path / "dirty.csv"
    path.write_text("\n".join(dirty) + "\n", encoding="utf-8")
    declared, form = columns(CSV_COLUMNS), reader("csv", header=False)
    frame = form.read(spark, [str(path)], declared, request(on_error="skip"))
    assert is_fast(frame)
    found = _numbers(frame).collect()
    by_spark = spark.read.schema(f"{CSV_COLUMNS}, _bad STRING").option("columnNameOfCorruptRecord", "_bad")
    theirs = _numbers(by_spark.option("escape", '"').option("columnPruning", False).csv(str(path))).collect()
    good = sorted(repr(tuple(row)[:-1]) for row in found if not row._rejected)
    assert good == sorted(repr(tuple(row)[:-1]) for row in theirs if row._bad is None)
    bad = rejects(spark, form, path, declared)
    assert sorted(payload for payload, *_ in bad) == sorted(
        row._bad for row in theirs if row._bad is not None
    )
    assert all(payload == dirty[line - 1] for payload, _, _, line in bad)


def test_columns_are_found_by_the_header(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("c,extra,B,a\n1.5,?,x,1\n")
    (tmp_path / "y.csv").write_text("a,b,c\n2,y,2.5\n")
    frame = reader("csv").read(spark, [str(tmp_path)], ABC, request())
    assert sorted(rows(frame)) == [(1, "x", 1.5), (2, "y", 2.5)]
    assert sorted(rows(reader("csv").read(spark, [str(tmp_path)], ABC, request("c")))) == [(1.5,), (2.5,)]


def test_a_column_that_the_header_lacks(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,bee,c\n1,x,1.5\n")
    with pytest.raises(DataError) as caught:
        reader("csv").read(spark, [str(path)], ABC, request("a"))
    assert caught.value.code == "missing-column"
    assert "has no column 'b'; its header names a, bee, c" in caught.value.message


def test_a_bad_record_fails_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n1,x,1.5\n\n2,y\n")
    with pytest.raises(Exception, match="PENSTOCK") as caught:
        reader("csv").read(spark, [str(path)], ABC, request("a")).collect()
    assert bad_record(str(caught.value)) == {
        "payload": "2,y", "error": "expected 3 values, found 2", "file": str(path), "line": 4,
    }  # fmt: skip


def test_values_in_quotes_with_line_ends(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('a,"b\n!",c\n1,"x\ny",1.5\n2,z,no\n3,"w",3\n')
    declared = columns("a BIGINT, b\n! STRING, c DOUBLE")
    form = reader("csv", multiline=True)
    wanted = request(on_error="skip", metadata="row_number")
    found = form.read(spark, [str(path)], declared, wanted).collect()
    assert [(row[0], row[1], row._metadata.row_number) for row in found] == [
        (1, "x\ny", 1), (None, None, 2), (3, "w", 3),
    ]  # fmt: skip
    assert rejects(spark, form, path, declared) == [
        ("2,z,no", "c: expected DOUBLE, found 'no'", str(path), 5)
    ]


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({"delimiter": ";"}, "a;b;c\n1;x;2\n", [(1, "x", 2.0)]),
        ({"delimiter": "tab"}, "a\tb\tc\n1\tx\t2\n", [(1, "x", 2.0)]),
        ({"delimiter": "||"}, "a||b||c\n1||x||2\n", [(1, "x", 2.0)]),
        ({"quote": "'"}, "a,b,c\n1,'x,y',2\n", [(1, "x,y", 2.0)]),
        ({"quote": ""}, 'a,b,c\n1,"x,2\n', [(1, '"x', 2.0)]),
        ({"escape": "\\"}, 'a,b,c\n1,"x\\"y",2\n', [(1, 'x"y', 2.0)]),
        ({"null_value": "NA"}, "a,b,c\nNA,,NA\n", [(None, None, None)]),
        ({"comment": "#"}, "#x\na,b,c\n#y\n1,x,2\n", [(1, "x", 2.0)]),
        ({"header": False}, "1,x,2\n", [(1, "x", 2.0)]),
        ({}, 'a,b,c\n1,"",2\n2,,"3"\n', [(1, "", 2.0), (2, None, 3.0)]),
    ],
)
def test_options(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], text: str, expected: list[Any]
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert rows(reader("csv", **options).read(spark, [str(path)], ABC, request())) == expected


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16", "cp1252"])
def test_encodings(spark: SparkSession, tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("a,b,c\n1,é,2\nx,ü,3\n".encode(encoding))
    form = reader("csv", encoding=encoding)
    found = form.read(spark, [str(path)], ABC, request(on_error="skip"))
    assert rows(found) == [(1, "é", 2.0, False), (None, None, None, True)]
    assert rejects(spark, form, path, ABC)[0][0] == "x,ü,3"
    assert form.discover(spark, [str(path)])[1].name == "b"


@pytest.mark.parametrize("name", ["delimiter", "quote", "comment", "encoding"])
def test_bad_options(name: str) -> None:
    value = {"delimiter": "", "encoding": "klingon"}.get(name, "ab")
    with pytest.raises(OptionError) as caught:
        bind(CsvReadOptions, [Setting(name, value)], "csv")
    assert caught.value.code == "bad-option"


def test_compressed_files(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"a,b,c\n1,x,2\nbad,y,3\n"))
    form = reader("csv")
    assert len(form.discover(spark, [str(path)])) == 3
    assert rows(form.read(spark, [str(path)], ABC, request(on_error="skip"))) == [
        (1, "x", 2.0, False), (None, None, None, True),
    ]  # fmt: skip
    assert rejects(spark, form, path, ABC)[0][3] == 3


def test_columns_are_discovered(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('i,d,t,b,s,n,"q r"\n1,1.5,2026-01-02T03:04:05Z,true,x,,"a\n\n')
    path.write_text(
        'i,d,t,b,s,n,"q r"\n1,1.5,2026-01-02T03:04:05Z,true,x,,"a,b"\n2,3,2026-01-02T03:04:06Z,false,5y,,c\n'
    )
    found = reader("csv").discover(spark, [str(path)])
    assert [column.name for column in found] == ["i", "d", "t", "b", "s", "n", "q r"]
    assert [column.type for column in found] == [
        "bigint", "double", "timestamp", "boolean", "string", "string", "string",
    ]  # fmt: skip


def test_a_header_alone_gives_texts(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n")
    found = reader("csv").discover(spark, [str(path)])
    assert found == columns("a STRING, b STRING")
    assert rows(reader("csv").read(spark, [str(path)], found, request())) == []


def test_files_without_header_or_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("1,x\n")
    assert reader("csv", header=False).discover(spark, [str(path)]) == columns("_c0 bigint, _c1 string")
    path.write_text("")
    with pytest.raises(DataError) as caught:
        reader("csv").discover(spark, [str(path)])
    assert caught.value.code == "empty-source"
    assert rows(reader("csv").read(spark, [str(path)], ABC, request())) == []
    path.write_text("a,A\n1,2\n")
    with pytest.raises(DataError) as caught:
        reader("csv").discover(spark, [str(path)])
    assert caught.value.code == "bad-header"


def test_nested_columns_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    with pytest.raises(DataError) as caught:
        reader("csv").read(spark, [str(tmp_path / "x.csv")], columns("a ARRAY<INT>"), request())
    assert caught.value.code == "csv-type"
    with pytest.raises(DataError) as caught:
        writer("csv").write(spark.sql("SELECT array(1) AS a"), str(tmp_path / "out"))
    assert caught.value.code == "csv-type"


@pytest.mark.parametrize("compression", ["none", "gzip", "bzip2", "snappy"])
def test_what_is_written_is_read_again(spark: SparkSession, tmp_path: Path, compression: str) -> None:
    frame = spark.createDataFrame(
        [(1, ' "q", x ', 1.5), (2, "", None), (3, None, -0.5), (4, "a;b\\", 1e300)],
        "a BIGINT, b STRING, c DOUBLE",
    )
    form = writer("csv", compression=compression)
    form.write(frame.coalesce(1), str(tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("part-*")
    assert path.name.endswith(form.suffix)
    back = reader("csv").read(spark, [str(path)], ABC, request())
    assert is_fast(back) == (compression != "snappy")
    expected = rows(frame) if is_fast(back) else [(a, b or None, c) for a, b, c in rows(frame)]
    assert rows(back) == expected


def test_partitions_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "day=2026-01-02"
    folder.mkdir()
    (folder / "x.csv").write_text("b,a\nx,1\ny,bad\n")
    wanted = request(partitions=columns("day DATE"), base=str(tmp_path), on_error="skip")
    declared = columns("a BIGINT, b STRING")
    form = reader("csv")
    frame = form.read(spark, [str(folder / "x.csv")], declared, wanted)
    assert frame.columns == ["a", "b", "day", "_rejected"]
    assert [(row.a, str(row.day), row._rejected) for row in frame.collect()] == [
        (1, "2026-01-02", False), (None, "2026-01-02", True),
    ]  # fmt: skip
    told = form.rejects(spark, [str(folder / "x.csv")], declared, wanted).collect()
    assert [(row.payload, row.line) for row in told] == [("y,bad", 3)]


def test_patterns_for_times(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("b,d\nx,02.01.2026\ny,2026-01-02\n")
    form = reader("csv", date_format="dd.MM.yyyy")
    declared = columns("d DATE, b STRING")
    frame = form.read(spark, [str(path)], declared, request(on_error="skip"))
    assert not is_fast(frame)
    assert [(str(row.d), row._rejected) for row in frame.collect()] == [("2026-01-02", False), ("None", True)]
    assert [(row[0], row[3]) for row in rejects(spark, form, path, declared)] == [("y,2026-01-02", 3)]
