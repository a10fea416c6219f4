"""Messages beside what Spark's own functions make of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.formats.base import bad_record
from penstock.formats.lines.csv_record import Dialect
from penstock.formats.lines.messages import message_rejects, read_messages
from tests.formats.dirty import CSV_COLUMNS, JSON_COLUMNS, csv_lines, json_lines
from tests.formats.reading import columns, request, rows
from tests.formats.test_json import _TAKEN_BY_SPARK, _numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

AB = columns("a BIGINT, b STRING")


def _messages(spark: SparkSession, values: Sequence[str | bytes | None], parts: int = 2) -> DataFrame:
    given = [v.encode() if isinstance(v, str) else v for v in values]
    frame = spark.createDataFrame(list(enumerate(given)), "_offset INT, value BINARY")
    return frame.repartitionByRange(parts, "_offset")


def _by_spark(
    frame: DataFrame, function: str, options: dict[str, str], ddl: str
) -> tuple[list[str], set[int]]:
    """The good rows and the bad messages, as Spark's function tells them."""
    from pyspark.sql import functions as f

    schema = f"{ddl}, _bad STRING"
    told = {**options, "columnNameOfCorruptRecord": "_bad", "mode": "PERMISSIVE"}
    read = getattr(f, function)(f.col("value").cast("string"), schema, told)
    found = _numbers(frame.select("_offset", read.alias("row")).select("_offset", "row.*")).collect()
    good = [repr(tuple(row)[:-1]) for row in found if row._bad is None]
    return good, {row._offset for row in found if row._bad is not None}


def _is_bare_text(value: str) -> bool:
    return value.startswith('{"s": ') and not value.startswith('{"s": "')


def _ours(frame: DataFrame, ddl: str, dialect: Dialect | None = None) -> tuple[list[str], set[int]]:
    declared = columns(ddl)
    read = read_messages(frame, declared, request(on_error="skip"), carried=["_offset"], dialect=dialect)
    found = _numbers(read).collect()
    good = [repr((row._offset, *tuple(row)[:-2])) for row in found if not row._rejected]
    bad = message_rejects(frame, declared, request(), carried=["_offset"], dialect=dialect).collect()
    assert sorted(row._offset for row in bad) == sorted(row._offset for row in found if row._rejected)
    return good, {row._offset for row in bad}


@pytest.mark.parametrize("clean", [0, 500])
def test_dirty_json_is_what_from_json_makes_of_it(spark: SparkSession, clean: int) -> None:
    """But for values without quotes in a column of text: from_json writes them anew, we leave them alone."""
    odd = [
        v
        for v in json_lines()
        if v.strip() and not v.startswith("[") and v not in _TAKEN_BY_SPARK and not _is_bare_text(v)
    ]
    frame = _messages(spark, ['{"a": 1, "s": "x", "d": 2.5}'] * clean + odd)
    good, bad = _by_spark(frame, "from_json", {"allowSingleQuotes": "false"}, JSON_COLUMNS)
    ours, ours_bad = _ours(frame, JSON_COLUMNS)
    assert sorted(ours) == sorted(good)
    assert ours_bad == bad


def test_dirty_csv_is_what_from_csv_makes_of_it(spark: SparkSession) -> None:
    odd = [v for v in csv_lines() if v.strip() and v != ',,,,,,"",,,,']
    frame = _messages(spark, odd)
    good, bad = _by_spark(frame, "from_csv", {"escape": '"'}, CSV_COLUMNS)
    ours, ours_bad = _ours(frame, CSV_COLUMNS, Dialect())
    assert sorted(ours) == sorted(good)
    assert ours_bad == bad


def test_each_message_is_a_record_of_its_own(spark: SparkSession) -> None:
    values: list[Any] = [
        '{"a": 1,\n "b": "x"}', None, "", '[{"a": 2}, {"a": 3}]', '{"a": 4}\r', '{"a": 5}{"a": 6}', "[]",
        b'{"a": 7, "b": "\xff"}', '{"a": 8, "b": "y"}', " ", '{"b": "one\ntwo"}',
    ]  # fmt: skip
    frame = _messages(spark, values, 1)
    read = read_messages(frame, AB, request(on_error="dead_letter"), carried=["_offset"])
    assert rows(read) == [
        (1, "x", 0, False), (None, None, 1, False), (None, None, 2, True), (2, None, 3, False),
        (3, None, 3, False), (4, None, 4, False), (None, None, 5, True), (None, None, 7, True),
        (8, "y", 8, False), (None, None, 9, True), (None, None, 10, True),
    ]  # fmt: skip
    bad = rows(message_rejects(frame, AB, request(), carried=["_offset"]))
    assert [(payload, encoding, offset) for payload, encoding, _, offset in bad] == [
        ("", "text", 2), ('{"a": 5}{"a": 6}', "text", 5), ("eyJhIjogNywgImIiOiAi/yJ9", "base64", 7),
        (" ", "text", 9), ('{"b": "one\ntwo"}', "text", 10),
    ]  # fmt: skip
    assert {error for payload, _, error, _ in bad if not payload.strip()} == {
        "there is nothing in the message"
    }


def test_an_array_of_nothing_has_no_rows(spark: SparkSession) -> None:
    frame = _messages(spark, ["[]", "[\n]", '{"a": 1}'], 1)
    assert rows(read_messages(frame, AB, request("a"))) == [(1,)]


def test_only_what_is_used_is_decoded(spark: SparkSession) -> None:
    frame = _messages(spark, ['{"a": "bad", "b": "x"}', '{"b": "y"}'], 1)
    assert rows(read_messages(frame, AB, request("b"))) == [("x",), ("y",)]
    assert read_messages(frame, AB, request("")).count() == 2
    kept = request("a", on_error="skip", filters=(("a", ">", 5),))
    more = _messages(spark, ['{"a": 1}', '{"a": 9}', '{"a": "x"}'], 1)
    assert rows(read_messages(more, AB, kept)) == [(9, False), (None, True)]


def test_columns_that_must_not_be_null(spark: SparkSession) -> None:
    frame = _messages(spark, [None, '{"a": 1}', "{}"], 1)
    declared = columns("a BIGINT NOT NULL")
    bad = rows(message_rejects(frame, declared, request(), carried=["_offset"]))
    assert [(error, offset) for _, _, error, offset in bad] == [
        ("a: null, but it is NOT NULL", 0), ("a: null, but it is NOT NULL", 2),
    ]  # fmt: skip


def test_a_bad_message_fails_with_its_place(spark: SparkSession) -> None:
    frame = _messages(spark, ['{"a": 1}', '{"a": "x"}'], 1)
    with pytest.raises(Exception, match="PENSTOCK") as caught:
        read_messages(frame, AB, request(), place=["_offset"]).collect()
    assert bad_record(str(caught.value)) == {
        "payload": '{"a": "x"}', "error": "a: expected BIGINT, found 'x'", "file": "offset 1", "line": None,
    }  # fmt: skip


def test_a_stream_of_messages(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_text(f'{{"a": {number}}}\nbad\n')
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "in"))
    found: list[tuple[int, Any, bool]] = []

    def keep(batch: DataFrame, number: int) -> None:
        found.extend((number, row.a, row._rejected) for row in batch.collect())

    read = read_messages(lines, AB, request("a", on_error="skip"))
    query = read.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "state"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert {number for number, _, _ in found} == {0, 1, 2}
    assert sorted(a for _, a, rejected in found if not rejected) == [0, 1, 2]
    assert sum(rejected for _, _, rejected in found) == 3
