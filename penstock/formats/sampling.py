"""What a source looks like: columns found in the first records of a few files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import DataError
from penstock.formats.frames import columns_of, nothing_to_infer
from penstock.formats.lines.csv_record import Dialect, Value, skipped, split_record
from penstock.formats.lines.kinds import Mismatch
from penstock.formats.lines.splits import DAMAGED, sample
from penstock.formats.paths import local_files
from penstock.formats.whole_files import bad_file
from penstock.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 10_000
"""Records that are looked at, over all files."""
FILES = 20
"""Files that are looked at."""


def sample_lines(
    spark: SparkSession, paths: list[str], *, encoding: str = "utf-8", quote: bytes | None = None
) -> list[list[bytes]]:
    """The first records of each of the first files, with their line ends."""
    files = local_files(spark, paths)
    if files is None:
        frame = spark.read.text(paths).select("value").limit(RECORDS)
        return [[row.value.encode() + b"\n" for row in frame.collect()]]
    found = _readable(files, encoding, quote)
    share = max(1, RECORDS // max(1, len(found)))
    return [records[:share] for records in found if records]


def _readable(files: Sequence[Path], encoding: str, quote: bytes | None) -> list[list[bytes]]:
    """The first records of each file; damaged ones are left to reading, unless there are no others."""
    found: list[list[bytes]] = []
    damaged: list[DataError] = []
    for file in files[:FILES]:
        with _damage_to(damaged, file):
            found += [list(_records(c.data, quote)) for c in sample([file], encoding=encoding, quote=quote)]
    if damaged and not any(found):
        raise damaged[0]
    return found


@contextmanager
def _damage_to(damaged: list[DataError], file: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGED as failure:
        if isinstance(failure, OSError) and failure.errno:  # of the machine, not of the content
            raise
        damaged.append(bad_file(str(file), str(failure)))


def _records(data: bytes, quote: bytes | None) -> Iterator[bytes]:
    """Lines, or what quotes make of them."""
    pending = b""
    for line in io.BytesIO(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if quote is None else data):
        pending += line
        if quote is None or pending.count(quote) % 2 == 0:
            yield pending
            pending = b""
    if pending:
        yield pending


def json_columns(spark: SparkSession, paths: list[str], lines: Sequence[bytes]) -> tuple[Column, ...]:
    """The columns of JSON records by Spark's inference, in the order in which their keys first appear."""
    texts = [text for line in lines if (text := line.decode("utf-8", "replace").strip().lstrip("\ufeff"))]
    if not texts:
        raise nothing_to_infer(paths)
    order: dict[str, int] = {}
    for text in texts:
        for key in _keys(text):
            order.setdefault(key, len(order))
    frame = spark.read.option("mode", "DROPMALFORMED").json(spark.sparkContext.parallelize(texts, 1))
    found = columns_of(frame.schema)
    if not found:
        raise DataError(
            "no-records",
            f"cannot tell the columns of {paths[0]}: no line of it is a JSON object",
            hint="is it another format? one document for each file needs multiline = true",
        )
    return tuple(sorted(found, key=lambda column: order.get(column.name, len(order))))


def _keys(text: str) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    items = value if isinstance(value, list) else [value]
    return [key for item in items if isinstance(item, dict) for key in item]


def header_of(record: bytes, dialect: Dialect, file: str) -> list[str]:
    """The names that a header gives."""
    text = record.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r\n")
    try:
        names = [value.text for value in split_record(text, dialect)]
    except Mismatch as failure:
        raise DataError("bad-header", f"the header of {file} cannot be read: {failure}") from None
    lower = [name.lower() for name in names]
    twice = next((name for name in names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        raise DataError(
            "bad-header",
            f"the header of {file} names the column '{twice}' twice",
            hint="declare the columns, and set header = false and comment or a filter for the first line",
        )
    return names


def csv_columns(
    spark: SparkSession, paths: list[str], files: Sequence[Sequence[bytes]], dialect: Dialect, header: bool
) -> tuple[Column, ...]:
    """The columns of CSV records: names by the header, types by Spark's inference over the values."""
    names: list[str] = []
    rows: list[list[Value]] = []
    for records in files:
        data = (r for r in records if not skipped(r.decode("utf-8", "replace"), dialect))
        if header:
            first = next(data, None)
            names = names or (header_of(first, dialect, paths[0]) if first else [])
        rows += filter(None, (_split(record, dialect) for record in data))
    if not header and rows:
        names = [f"_c{i}" for i in range(len(rows[0]))]
    if not names:
        raise nothing_to_infer(paths)
    fitting = [row for row in rows if len(row) == len(names)]
    if not fitting:
        return tuple(Column(name, "STRING") for name in names)
    reader = (
        spark.read.option("inferSchema", True).option("escape", '"').option("nullValue", dialect.null_value)
    )
    lines = spark.sparkContext.parallelize(list(_rewritten(fitting)), 1)
    frame = reader.csv(lines)  # type: ignore[arg-type]
    types = [_widened(column.type) for column in columns_of(frame.schema)]
    return tuple(Column(name, type) for name, type in zip(names, types, strict=True))


def _split(record: bytes, dialect: Dialect) -> list[Value] | None:
    try:
        return split_record(record.decode("utf-8", "replace").rstrip("\r\n"), dialect)
    except Mismatch:
        return None


def _rewritten(rows: Sequence[Sequence[Value]]) -> Iterator[str]:
    """Records as Spark's inference reads them: one line each."""
    for row in islice(rows, RECORDS):
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow([value.text.replace("\n", " ") for value in row])
        yield text.getvalue()


def _widened(type: str) -> str:
    """Later records may hold larger numbers than the sample does."""
    return "bigint" if type == "int" else type
