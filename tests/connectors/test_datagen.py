"""Made-up rows: the same for the same seed, within their bounds, of every type."""

from __future__ import annotations

import re
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors.base import Column, ReadRequest, Uri
from penstock.connectors.datagen import COLUMNS, Datagen, Rows, Source
from penstock.errors import OptionError
from penstock.options import Setting, bind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def source(**options: Any) -> Source:
    return bind(Source, [Setting(k.replace("__", "."), v) for k, v in options.items()], "datagen")


def column(
    of: str, *, rows: int = 500, seed: int = 1, name: str = "c", nullable: bool = True, **field: Any
) -> list[Any]:
    """The values of one column."""
    options = {f"fields.{name}.{key}": value for key, value in field.items()}
    reader = Rows(source(rows=rows, seed=seed, **options), (Column(name, of, nullable),))
    batches = [b for s in reader.splits() for b in reader.read(s, reader.earliest(s), reader.latest(s))]
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def test_a_uri_gives_options() -> None:
    settings = Datagen().settings_of(Uri.parse("datagen://orders?rows=5&fields.id.start=9"))
    made = bind(Source, [Setting(k, v) for k, v in settings.items()], "datagen")
    assert made.rows == 5
    assert made.fields["id"].start == "9"


def test_the_same_seed_gives_the_same_rows() -> None:
    for kind in ("INT", "DOUBLE", "STRING", "BOOLEAN", "DATE"):
        assert column(kind) == column(kind)
        assert column(kind) != column(kind, seed=2)


def test_columns_differ_from_each_other() -> None:
    assert column("BIGINT", name="a") != column("BIGINT", name="b")


def test_known_values_stay_what_they_were() -> None:
    assert column("INT", rows=5) == [175, 641, 77, 561, 227]
    assert column("STRING", rows=1, length=15) == ["sxritepenjndvni"]
    assert column("STRING", rows=1, kind="uuid") == ["b765e015-fd1f-46ca-ba0e-81221af8e6e1"]


def test_splits_cut_the_same_rows_elsewhere() -> None:
    def all_rows(splits: int) -> list[dict[str, Any]]:
        reader = Rows(source(rows=100, splits=splits), COLUMNS)
        parts = [reader.read(s, reader.earliest(s), reader.latest(s)) for s in reader.splits()]
        return [row for part in parts for batch in part for row in batch.to_pylist()]

    assert all_rows(1) == all_rows(7)
    assert [row["id"] for row in all_rows(7)] == list(range(100))


def test_the_default_columns() -> None:
    reader = Rows(source(rows=2, splits=1), COLUMNS)
    (split,) = reader.splits()
    first = next(iter(reader.read(split, 1, 2))).to_pylist()[0]
    assert first["id"] == 1
    assert first["ts"] == datetime(2024, 1, 1, 0, 0, 1, tzinfo=timezone.utc)
    assert isinstance(first["flag"], bool)
    assert first["name"].istitle()


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("TINYINT", 0, 100),
        ("SMALLINT", -5, 5),
        ("INTEGER", 3, 3),
        ("BIGINT", -(2**62), 2**62),
        ("DECIMAL(10, 2)", Decimal("-1.50"), Decimal("1.50")),
        ("NUMERIC(3)", Decimal(0), Decimal(999)),
        ("DATE", date(2024, 2, 27), date(2024, 3, 1)),
        ("TIMESTAMP", datetime(1960, 1, 1, tzinfo=timezone.utc), datetime(1970, 1, 2, tzinfo=timezone.utc)),
        ("TIMESTAMP_NTZ", datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 1)),
    ],
)
def test_random_values_fill_their_bounds(kind: str, low: Any, high: Any) -> None:
    values = column(kind, rows=2000, min=str(low), max=str(high))
    assert min(values) >= low
    assert max(values) <= high
    assert kind == "INTEGER" or len(set(values)) > 3
    if kind in ("SMALLINT", "DATE"):
        assert {min(values), max(values)} == {low, high}


def test_doubles_spread_evenly() -> None:
    values = column("DOUBLE", rows=4000, min=10, max=20)
    assert all(10 <= v < 20 for v in values)
    assert sum(values) / len(values) == pytest.approx(15, abs=0.3)


@pytest.mark.parametrize(
    ("kind", "field", "values"),
    [
        ("INT", {"kind": "sequence", "start": 5, "step": -2}, [5, 3, 1]),
        ("DECIMAL(5,1)", {"start": "0.5", "step": 0.5}, [Decimal("0.5"), Decimal("1.0"), Decimal("1.5")]),
        ("DOUBLE", {"step": 0.25}, [0.0, 0.25, 0.5]),
        ("DATE", {"start": "2024-02-28"}, [date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1)]),
        ("TIMESTAMP_NTZ", {"step": 60}, [datetime(2024, 1, 1, 0, m) for m in range(3)]),
    ],
)  # fmt: skip
def test_sequences(kind: str, field: dict[str, Any], values: list[Any]) -> None:
    assert column(kind, rows=3, **field) == values


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("STRING", "a, b", {"a", "b"}),
        ("INT", "1,2,3", {1, 2, 3}),
        ("DATE", ["2024-01-01"], {date(2024, 1, 1)}),
        ("BOOLEAN", "true", {True}),
    ],
)
def test_choices(kind: str, values: Any, expected: set[Any]) -> None:
    assert set(column(kind, values=values)) == expected


def test_strings_uuids_and_words() -> None:
    texts = column("VARCHAR(5)")
    assert all(re.fullmatch("[a-z]{5}", t) for t in texts)
    assert all(re.fullmatch("[a-z]{40}", t) for t in column("STRING", length=40))
    uuids = column("STRING", kind="uuid")
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", u) for u in uuids
    )
    assert len(set(uuids)) == 500
    assert "river" in column("STRING", kind="word")
    assert "Ada" in column("STRING", name="name")


def test_nulls_come_in_their_share() -> None:
    nulls = [value for value in column("INT", rows=4000, nulls=0.25) if value is None]
    assert 900 < len(nulls) < 1100
    assert set(column("STRING", null_ratio=1)) == {None}


@pytest.mark.parametrize(
    ("kind", "field", "message"),
    [
        ("INT", {"kind": "uuid"}, "'uuid' makes no INT"),
        ("STRING", {"min": 1}, "'string' does not take it"),
        ("INT", {"min": 5, "max": 1}, "min is above max"),
        ("TINYINT", {"max": 1000}, "not in range"),
        ("DECIMAL(3,1)", {"max": 1000}, "do not fit"),
        ("INT", {"min": "many"}, "fields.c"),
        ("DATE", {"min": "yesterday"}, "yesterday"),
        ("INT", {"values": "a,b"}, "fields.c"),
        ("STRING", {"kind": "choice"}, "needs values"),
        ("ARRAY<INT>", {}, "cannot make column 'c' of type ARRAY<INT>"),
    ],
)
def test_what_makes_no_sense_is_refused(kind: str, field: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        column(kind, **field)


def test_nulls_in_a_column_that_forbids_them_are_refused() -> None:
    with pytest.raises(OptionError, match="NOT NULL"):
        column("INT", nullable=False, nulls=0.5)


def test_unknown_options_and_columns_are_refused_with_a_hint() -> None:
    with pytest.raises(OptionError) as caught:
        source(**{"fields.amount.mim": 1})
    assert caught.value.hint == "did you mean 'min'?"
    with pytest.raises(OptionError) as caught:
        Rows(source(**{"fields.amuont.min": 1}), COLUMNS)
    assert caught.value.hint == "did you mean 'amount'?"


@pytest.mark.spark
def test_declared_columns_in_spark(spark: SparkSession) -> None:
    columns = (
        Column("id", "INT", nullable=False),
        Column("at", "TIMESTAMP"),
        Column("price", "DECIMAL(8,2)"),
    )
    request = ReadRequest(columns=columns, used=frozenset({"id", "price"}))
    frame = Datagen().read(spark, source(rows=70_000, **{"fields.PRICE.max": 5}), request)
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema.fields] == [
        ("id", "int"), ("price", "decimal(8,2)"),
    ]  # fmt: skip
    least, most, count = frame.selectExpr("min(price)", "max(price)", "count(DISTINCT id)").collect()[0]
    assert (least, most, count) == (Decimal("0.00"), Decimal("5.00"), 70_000)
