"""A sound connector that goes on reading, and broken ones that the conformance suite must catch.

A spool is a file of JSON lines. A position in it is the number of a line; one that is forgotten stays, empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pydantic import Field
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from penstock.connectors.base import Capabilities, Column, Connector, Limits, ReadRequest, SourceOptions, Uri
from penstock.options import Value
from penstock.schema import ddl, quoted

from .subject import COLUMNS, Row, Subject, known_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = "line BIGINT, value STRING"
_numbers = count(1)


def lines_of(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines()


class Source(SourceOptions):
    file: str = Field(description="The spool.")
    follow: bool = Field(False, description="Whether to go on with lines that are added later.")


class Tail(DataSourceStreamReader):
    """Spark's view of a spool. Spark keeps where batches end; where the first one begins, its end tells."""

    def __init__(self, file: str, latest: bool) -> None:
        self.file = file
        self.first = len(lines_of(file)) if latest else 0

    def initialOffset(self) -> dict[str, int]:
        return {"first": -1, "end": -1}

    def latestOffset(self) -> dict[str, int]:
        return {"first": self.first, "end": len(lines_of(self.file))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        begin = end["first"] if start["end"] < 0 else start["end"]
        return [InputPartition((begin, end["end"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
        begin, end = partition.value
        yield from list(enumerate(lines_of(self.file)))[begin:end]


class Spooled(Connector):
    name = "spooled"
    capabilities = Capabilities(bounded=True, unbounded=True, replay=True, lookup=True)
    Source = Source
    Tailing: type[Tail] = Tail

    def settings_of(self, uri: Uri) -> dict[str, Value]:
        return {"file": uri.path}

    def is_unbounded(self, source: Any) -> bool:
        return bool(source.follow)

    def identity(self, source: Any) -> str:
        return str(source.file)

    def discover(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Column, ...]:
        fields = spark.read.json(source.file).schema.fields
        return tuple(Column(field.name, field.dataType.simpleString()) for field in fields)

    def stream(self, spark: SparkSession, source: Any, limits: Limits) -> DataFrame:
        name = f"spool_{next(_numbers)}"
        tail, told = self.Tailing, (source.file, limits.start == "latest")
        spark.dataSource.register(type(name, (_Spool,), {"alias": name, "tail": tail, "told": told}))
        return spark.readStream.format(name).load()

    def to_acknowledge(self, source: Any, records: DataFrame) -> Value:
        return {"forget": sorted(row.line for row in records.select("line").collect())}

    def acknowledge(self, spark: SparkSession, source: Any, what: Any) -> None:
        lines = lines_of(source.file)
        for line in what["forget"]:
            lines[line] = ""
        Path(source.file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        from pyspark.sql import functions as f

        lines = self.records(spark, source) if request.records is None else request.records
        columns = request.columns or self.discover(spark, source, request)
        rows = lines.where("value != ''").select(f.from_json("value", ddl(columns)).alias("row"))
        for column, operator, value in request.filters:
            keys = value if operator == "in" else (value,)
            rows = rows.where(f.col(f"row.{column}").isin(*keys))
        return rows.select(*(f"row.{quoted(c.name)}" for c in request.prune(columns)))

    def records(self, spark: SparkSession, source: Any) -> DataFrame:
        lines = list(enumerate(lines_of(source.file)))
        return spark.createDataFrame(lines, RECORDS)


class _Spool(DataSource):
    alias = ""
    tail: type[Tail] = Tail
    told: tuple[str, bool] = ("", False)

    @classmethod
    def name(cls) -> str:
        return cls.alias

    def schema(self) -> str:
        return RECORDS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return self.tail(*self.told)


class _SkipsAhead(Tail):
    begin = 0

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        (part,) = super().partitions(start, end)
        begin, stop = part.value
        return [InputPartition((max(begin, self.begin), stop))]


class _TakesArrivedForRead(_SkipsAhead):
    def commit(self, end: dict[str, int]) -> None:
        self.begin = len(lines_of(self.file))


class LosesBetweenBatches(Spooled):
    Tailing = _TakesArrivedForRead


class _ReadsToTheEnd(Tail):
    def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
        yield from list(enumerate(lines_of(self.file)))[partition.value[0] :]


class ReadsBeyondTheBatch(Spooled):
    Tailing = _ReadsToTheEnd


class _FromTheFirstLine(Tail):
    def __init__(self, file: str, latest: bool) -> None:
        super().__init__(file, False)


class IgnoresLatest(Spooled):
    Tailing = _FromTheFirstLine


class _StartsAnew(_SkipsAhead):
    def __init__(self, file: str, latest: bool) -> None:
        super().__init__(file, latest)
        self.begin = self.first


class StartsAnew(Spooled):
    Tailing = _StartsAnew


class ForgetsTwice(Spooled):
    def acknowledge(self, spark: SparkSession, source: Any, what: Any) -> None:
        left = [number for number, line in enumerate(lines_of(source.file)) if line]
        super().acknowledge(spark, source, {"forget": left[: len(what["forget"])]})


class ChangesIdentity(Spooled):
    def identity(self, source: Any) -> str:
        return f"{source.file} {uuid4()}"


class FindsOneKey(Spooled):
    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        first = tuple((c, "=", v[0]) if op == "in" else (c, op, v) for c, op, v in request.filters)
        return super().read(spark, source, replace(request, filters=first))


class KeepsWhatItFound(Spooled):
    def __init__(self) -> None:
        self.found: dict[str, DataFrame] = {}

    def records(self, spark: SparkSession, source: Any) -> DataFrame:
        if source.file not in self.found:
            self.found[source.file] = super().records(spark, source)
        return self.found[source.file]


class SpooledSubject(Subject):
    required = frozenset({"bounded", "unbounded", "replay", "lookup"})

    def __init__(self, folder: Path, connector: Spooled | None = None) -> None:
        self.connector = connector or Spooled()
        self.folder = folder

    def request(self, **changes: Any) -> ReadRequest:
        return super().request(**{"columns": COLUMNS} | changes)  # JSON does not tell dates and times

    def source(self) -> SourceOptions:
        return Source(file=self._spool("first"))

    def unbounded_source(self, name: str = "first") -> SourceOptions:
        return Source(file=self._spool(name), follow=True)

    def _spool(self, name: str) -> str:
        file = self.folder / name
        if not file.exists():
            self._append(file, known_rows())
        return str(file)

    def add(self, rows: list[Row]) -> None:
        self._append(self.folder / "first", rows)

    def _append(self, file: Path, rows: list[Row]) -> None:
        lines = [json.dumps(row, default=lambda value: value.isoformat()) + "\n" for row in rows]
        with file.open("a", encoding="utf-8") as opened:
            opened.write("".join(lines))
