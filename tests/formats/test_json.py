from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import DataError
from penstock.formats.base import bad_record
from penstock.formats.lines import splits
from tests.formats.dirty import JSON_COLUMNS, json_lines
from tests.formats.reading import columns, is_fast, reader, rejects, request, rows, writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ABC = columns("a BIGINT, b STRING, c DOUBLE")

# Spark takes these, each in a way that loses something; the reasons are in docs/decisions/0002.
_TAKEN_BY_SPARK = {
    '{"m": "12,5"}', '{"ts": 9223372036854775807}', '{"ts": -9223372036854775808}', '{"dt": "1"}',
    '{"dt": "20260102"}', '{"dt": "1767323045"}', '{"a": 1}}', "{'a': 1}", '{"a": 1} // x',
}  # fmt: skip


def _numbers(frame: DataFrame) -> DataFrame:
    """Instants as numbers: Python's do not span all times."""
    from pyspark.sql import functions as f

    times = {
        "ts": f.unix_micros("ts"),
        "dt": f.unix_date("dt"),
        "n": f.unix_micros(f.col("n").cast("timestamp")),
    }
    return frame.withColumns(times)


def _by_spark(spark: SparkSession, path: Path) -> tuple[list[str], list[str]]:
    """The good rows and the bad records of Spark's own reader."""
    read = spark.read.schema(f"{JSON_COLUMNS}, _bad STRING").option("columnNameOfCorruptRecord", "_bad")
    frame = _numbers(read.json(str(path))).persist()
    good = [repr(tuple(row)[:-1]) for row in frame.where("_bad IS NULL").collect()]
    bad = [row._bad for row in frame.where("_bad IS NOT NULL").collect()]
    frame.unpersist()
    return good, bad


@pytest.mark.parametrize("prefix", [0, 100])
def test_dirty_records_are_those_of_sparks_reader(spark: SparkSession, tmp_path: Path, prefix: int) -> None:
    """With clean lines before them, most records are decoded by template; without, by DuckDB."""
    clean = '{"a": 1, "s": "x", "d": 2.5}'
    dirty = [line for line in json_lines() if not line.startswith('[{"a": 1}, {"a": "x"}')]
    path = tmp_path / "dirty.json"
    path.write_text("\n".join([clean] * prefix * 50 + dirty) + "\n", encoding="utf-8")
    declared = columns(JSON_COLUMNS)
    frame = reader("json").read(spark, [str(path)], declared, request(on_error="skip"))
    assert is_fast(frame)
    found = _numbers(frame).collect()
    good = sorted(repr(tuple(row)[:-1]) for row in found if not row._rejected)
    bad = rejects(spark, reader("json"), path, declared)
    assert len(bad) == sum(row._rejected for row in found)
    lines_of_file = path.read_text(encoding="utf-8").split("\n")
    assert all(payload == lines_of_file[line - 1] for payload, _, _, line in bad)

    fair = tmp_path / "fair.json"
    fair.write_text(
        "\n".join([clean] * prefix * 50 + [x for x in dirty if x not in _TAKEN_BY_SPARK]) + "\n",
        encoding="utf-8",
    )
    good_by_spark, bad_by_spark = _by_spark(spark, fair)
    assert good == sorted(good_by_spark)
    assert sorted(payload for payload, *_ in bad) == sorted([*bad_by_spark, *_TAKEN_BY_SPARK])


def test_a_bad_record_fails_with_its_place(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n{"a": "x", "b": "é"}\n')
    with pytest.raises(Exception, match="PENSTOCK") as caught:
        reader("json").read(spark, [f"file://{path}"], ABC, request()).where("a > 100").collect()
    assert bad_record(str(caught.value)) == {
        "payload": '{"a": "x", "b": "é"}', "error": "a: expected BIGINT, found 'x'",
        "file": str(path), "line": 4,
    }  # fmt: skip


def test_line_numbers_over_splits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "_SMALLEST_SPLIT", 1000)
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"a": {i if i % 100 else "x"}}}\n' for i in range(1, 1001)))
    found = rejects(spark, reader("json"), path, ABC)
    assert [line for *_, line in found] == list(range(100, 1001, 100))
    frame = reader("json").read(spark, [str(path)], ABC, request(on_error="skip"))
    assert frame.rdd.getNumPartitions() > 1
    assert frame.count() == 1000
    assert frame.where("NOT _rejected").count() == 990


def test_only_used_columns_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": "bad", "b": "x"}\n{"a": 1, "b": "y"}\n')
    frame = reader("json").read(spark, [str(path)], ABC, request("b"))
    assert rows(frame) == [("x",), ("y",)]
    assert reader("json").read(spark, [str(path)], ABC, request("")).count() == 2
    assert rejects(spark, reader("json"), path, ABC, "b") == []


def test_rules_of_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1, "b": "abc"}\n{"b": "x"}\n{"a": null, "b": "x"}\n{"a": 2, "b": "abcd"}\n')
    declared = columns("a INT NOT NULL, b VARCHAR(3)")
    assert [error for _, error, _, _ in rejects(spark, reader("json"), path, declared)] == [
        "a: null, but it is NOT NULL",
        "a: null, but it is NOT NULL",
        "b: longer than 3 characters",
    ]


def test_metadata(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a b+é.jsonl", "c.jsonl"):
        (tmp_path / name).write_text('{"a": 1}\n\nbad\n{"a": 3}\n')
    wanted = request("a", metadata="filename path size modified row_number", on_error="skip")
    frame = reader("json").read(spark, [str(tmp_path)], ABC, wanted)
    assert frame.columns == ["a", "_metadata", "_rejected"]
    found = {(row._metadata.filename, row._metadata.row_number): row for row in frame.collect()}
    row = found["a b+é.jsonl", 3]
    assert (row.a, row._rejected) == (3, False)
    assert (row._metadata.path, row._metadata.size) == (str(tmp_path / "a b+é.jsonl"), 23)
    assert abs(row._metadata.modified.timestamp() - (tmp_path / "c.jsonl").stat().st_mtime) < 86_400
    assert found["c.jsonl", 2]._rejected
    assert len(found) == 6


def test_conditions_reach_the_decoder(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"a": {i}, "b": "k{i % 3}", "c": {i}.5}}\n' for i in range(100)) + "bad\n")
    filters = (("A", ">", 90), ("b", "=", "k1"), ("c", "in", (91.5, 2.5)), ("other", "=", 1))
    frame = reader("json").read(spark, [str(path)], ABC, request(filters=filters, on_error="skip"))
    assert rows(frame) == [(91, "k1", 91.5, False), (None, None, None, True)]
    with pytest.raises(Exception, match="PENSTOCK"):
        reader("json").read(spark, [str(path)], ABC, request(filters=filters)).collect()


def test_one_frame_in_two_places(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"a": {i}}}\n' for i in range(10)))
    frame = reader("json").read(spark, [str(path)], ABC, request("a"))
    assert sorted(rows(frame.where("a < 2").union(frame.where("a > 8")))) == [(0,), (1,), (9,)]


def test_partitions_are_columns_and_leave_files_out(spark: SparkSession, tmp_path: Path) -> None:
    for day in (1, 2):
        folder = tmp_path / f"day={day}" / "k=a%20b"
        folder.mkdir(parents=True)
        (folder / "x.jsonl").write_text(f'{{"a": {day}}}\n' if day == 1 else "not read\n")
    files = [str(path) for path in sorted(tmp_path.rglob("*.jsonl"))]
    wanted = request("a day k", partitions=columns("day INT, k STRING"), base=str(tmp_path))
    frame = reader("json").read(spark, files, columns("a BIGINT"), wanted)
    assert rows(frame.where("day = 1")) == [(1, 1, "a b")]
    with pytest.raises(Exception, match="MALFORMED"):
        frame.collect()


NESTED = columns("a BIGINT, s STRUCT<x:INT,y:ARRAY<STRING>>")


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_nested_columns_are_sparks(spark: SparkSession, tmp_path: Path, on_error: str) -> None:
    path = tmp_path / "x.jsonl"
    bad = '{"a": 2, "s": {"x": "no"}}\nnot json\n[{"a": 3}]\n' if on_error == "skip" else ""
    path.write_text('{"a": 1, "s": {"x": 1, "y": ["p"]}}\n' + bad)
    frame = reader("json").read(spark, [str(path)], NESTED, request(on_error=on_error))
    assert not is_fast(frame)
    found = frame.collect()
    assert found[0].s.y == ["p"]
    if on_error == "skip":
        assert [row._rejected for row in found] == [False, True, True, False]
        assert [(p, n) for p, _, _, n in rejects(spark, reader("json"), path, NESTED)] == [
            ('{"a": 2, "s": {"x": "no"}}', 2),
            ("not json", 3),
        ]


def test_a_bad_nested_record_fails(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1, "s": {"x": "no"}}\n')
    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
        reader("json").read(spark, [str(path)], NESTED, request()).collect()


def test_row_numbers_of_sparks_reader(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"a": {i}, "s": {{"x": {i}}}}}\n' for i in range(1, 20_001)))
    spark.conf.set("spark.sql.files.maxPartitionBytes", "50000")
    try:
        frame = reader("json").read(spark, [str(path)], NESTED, request(metadata="row_number"))
        assert not is_fast(frame)
        assert frame.where("a != _metadata.row_number").count() == 0
        assert frame.count() == 20_000
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def test_one_document_for_each_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"a": 1},\n {"a": 2}]')
    (tmp_path / "b.json").write_text('{"a":\n 3}')
    (tmp_path / "c.json").write_text('{"a":\n')
    form = reader("json", multiline=True)
    assert form.discover(spark, [str(tmp_path / "a.json")]) == columns("a bigint")
    found = form.read(spark, [str(tmp_path)], columns("a BIGINT"), request(on_error="skip")).collect()
    assert sorted(row.a for row in found if not row._rejected) == [1, 2, 3]
    ((payload, _, file, line),) = rejects(spark, form, tmp_path, columns("a BIGINT"))
    assert (payload, file, line) == ('{"a":\n', str(tmp_path / "c.json"), None)


def test_patterns_for_times(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": "02/01/2026"}\n')
    form = reader("json", date_format="dd/MM/yyyy")
    assert str(rows(form.read(spark, [str(path)], columns("a DATE"), request()))[0][0]) == "2026-01-02"


def test_columns_are_discovered_in_their_order(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('\n{"z": 1, "a": "x"}\nnot json\n{"z": 1.5, "m": {"n": [1]}}\n')
    assert reader("json").discover(spark, [str(path)]) == columns(
        "z double, a string, m struct<n:array<bigint>>"
    )


@pytest.mark.parametrize(
    ("text", "code"), [("", "empty-source"), ("\n \n", "empty-source"), ("nope\n", "no-records")]
)
def test_nothing_to_discover(spark: SparkSession, tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        reader("json").discover(spark, [str(path)])
    assert caught.value.code == code


def test_empty_and_damaged_files(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "bom.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n{"a": 2}')
    whole = gzip.compress(b"".join(b'{"a": %d}\n' % i for i in range(100_000)))
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    form = reader("json")
    assert rows(form.read(spark, [str(tmp_path / "empty.jsonl")], ABC, request("a"))) == []
    assert rows(form.read(spark, [str(tmp_path / "bom.jsonl")], ABC, request("a"))) == [(1,), (2,)]
    bad = rejects(spark, form, tmp_path / "cut.jsonl.gz", ABC, "a")
    assert len(bad) == 1
    assert "damaged" in bad[0][1]
    with pytest.raises(Exception, match="damaged"):
        form.read(spark, [str(tmp_path / "cut.jsonl.gz")], ABC, request("a")).collect()


@pytest.mark.parametrize("compression", ["none", "gzip", "bzip2", "deflate", "snappy", "lz4"])
def test_what_is_written_is_read_again(spark: SparkSession, tmp_path: Path, compression: str) -> None:
    frame = spark.sql("SELECT id AS a, concat('x', id) AS b, id / 2 AS c FROM range(10)")
    form = writer("json", compression=compression)
    form.write(frame, str(tmp_path / "out"))
    files = [path for path in (tmp_path / "out").iterdir() if path.name.startswith("part-")]
    assert all(path.name.endswith(form.suffix) for path in files)
    back = reader("json").read(spark, [str(path) for path in files], ABC, request())
    assert sorted(rows(back)) == sorted(rows(frame))


def test_writing_nulls_and_times(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 1 AS a, CAST(NULL AS STRING) AS b, DATE'2026-01-02' AS d")
    writer("json", null_fields=True, date_format="dd.MM.yyyy").write(frame, str(tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("part-*")
    assert json.loads(path.read_text()) == {"a": 1, "b": None, "d": "02.01.2026"}


def test_writing_into_folders(spark: SparkSession, tmp_path: Path) -> None:
    writer("json").write(
        spark.sql("SELECT id AS a, id % 2 AS k FROM range(4)"), str(tmp_path / "out"), ("k",)
    )
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir()) == ["k=0", "k=1"]


def test_odd_names_of_columns(spark: SparkSession, tmp_path: Path) -> None:
    names: list[Any] = ["a.b", 'q"x', "b`t", "ü", "with space", "A/~"]
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({name: i for i, name in enumerate(names)}) + "\n")
    form = reader("json")
    found = form.discover(spark, [str(path)])
    assert [column.name for column in found] == names
    assert rows(form.read(spark, [str(path)], found, request())) == [tuple(range(len(names)))]
