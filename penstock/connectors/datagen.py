"""Made-up rows, the same ones each time for the same seed: to read only. Replayable from any row. With a
`rate` they never end.

Columns are those that are declared, or `id`, `ts`, `name`, `amount`, `flag`. Each has a generator that suits
its type, and can be told more by options: `'fields.amount.max' = 100`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from penstock.connectors.base import (
    Capabilities,
    Column,
    Connector,
    Limits,
    Offset,
    Reader,
    ReadRequest,
    SourceOptions,
    Split,
    Uri,
)
from penstock.errors import OptionError, did_you_mean
from penstock.options import Options, Value
from penstock.schema import ddl

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    Column("id", "BIGINT"),
    Column("ts", "TIMESTAMP"),
    Column("name", "STRING"),
    Column("amount", "DOUBLE"),
    Column("flag", "BOOLEAN"),
)
_BATCH = 65_536


class Generator(Options):
    """How the values of a column are made."""

    kind: Literal["sequence", "random", "choice", "string", "uuid", "name", "word"] | None = Field(
        None, description="What is made; by the column's type unless set."
    )
    min: int | float | str | None = Field(None, description="The least random value; a date for times.")
    max: int | float | str | None = Field(None, description="The greatest random value; a date for times.")
    start: int | float | str | None = Field(None, description="The first value of a sequence.")
    step: int | float | None = Field(None, description="What a sequence adds each time; seconds for times.")
    values: tuple[str, ...] | None = Field(None, description="Values to choose from, separated by commas.")
    length: int | None = Field(None, gt=0, description="How many letters a string has.")
    null_ratio: float = Field(
        0.0,
        ge=0,
        le=1,
        description="The share of nulls, from 0 to 1.",
        validation_alias=AliasChoices("null_ratio", "nulls"),
    )

    @field_validator("values", mode="before")
    @classmethod
    def _values(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(text.strip() for text in value.split(","))
        return tuple(str(v) for v in value) if isinstance(value, list | tuple) else value


class Source(SourceOptions):
    rows: int = Field(
        1000,
        ge=0,
        description="How many rows there are, unless there is a `rate`.",
        validation_alias=AliasChoices("rows", "number-of-rows"),
    )
    rate: int | None = Field(
        None,
        gt=0,
        description="Rows a second that are made without an end.",
        validation_alias=AliasChoices("rate", "rows-per-second", "datagen.rows.per.second"),
    )
    seed: int = Field(0, description="Another seed gives other rows.")
    splits: int = Field(2, gt=0, description="How many parts are made side by side.")
    fields: dict[str, Generator] = Field(
        {}, description="A column's generator: fields.<column>.kind, .min, .max, .values, ..."
    )

    @model_validator(mode="after")
    def _endless(self) -> Source:
        if self.rate is not None and "rows" in self.model_fields_set:
            raise ValueError("rows are made at a `rate` without an end, or there are so many `rows`")
        return self


class Datagen(Connector):
    name = "datagen"
    schemes = ("datagen",)
    capabilities = Capabilities(bounded=True, replay=True)
    Source = Source

    def settings_of(self, uri: Uri) -> dict[str, Value]:
        return dict(uri.query)

    def is_unbounded(self, source: Any) -> bool:
        return source.rate is not None

    def identity(self, source: Any) -> str:
        return f"{source.rate} rows a second, seed {source.seed}"

    def discover(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Column, ...]:
        return request.columns or COLUMNS

    def stream(self, spark: SparkSession, source: Any, limits: Limits) -> DataFrame:
        numbers = spark.readStream.format("rate").option("rowsPerSecond", source.rate)
        return numbers.option("numPartitions", source.splits).load().select("value")

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        from penstock.connectors.adapter import as_declared, chosen, read

        rows = Rows(source, request.columns or COLUMNS)
        if request.records is None:
            return read(spark, rows, request)
        columns = chosen(rows.columns(), request)
        return as_declared(request.records.mapInArrow(rows.only(columns).of_numbers, ddl(columns)), request)

    def reader(self, source: Any) -> Reader:
        return Rows(source, COLUMNS)


class Rows(Reader):
    """Offsets are the numbers of rows, from 0; each split has a range of them."""

    def __init__(
        self, source: Source, columns: tuple[Column, ...], known: tuple[Column, ...] | None = None
    ) -> None:
        from penstock.connectors.generators import maker

        self._source = source
        self._columns = columns
        told = {name.lower(): (name, generator) for name, generator in source.fields.items()}
        for key, (name, _) in told.items():
            if key not in {c.name.lower() for c in known or columns}:
                hint = did_you_mean(name, [c.name for c in columns])
                raise OptionError("unknown-option", f"datagen makes no column '{name}'", hint=hint)
        self._makers = [
            maker(c, told.get(c.name.lower(), ("", Generator()))[1], source.seed) for c in columns
        ]

    def columns(self) -> tuple[Column, ...]:
        return self._columns

    def splits(self) -> list[Split]:
        return [Split(str(number)) for number in range(self._source.splits)]

    def earliest(self, split: Split) -> Offset:
        return self._source.rows * int(split.id) // self._source.splits

    def latest(self, split: Split) -> Offset:
        return self._source.rows * (int(split.id) + 1) // self._source.splits

    def read(self, split: Split, start: Offset, stop: Offset) -> Iterator[pa.RecordBatch | dict[str, Any]]:
        import numpy as np

        for first in range(int(start), int(stop), _BATCH):
            yield self._made(np.arange(first, min(first + _BATCH, int(stop)), dtype=np.uint64))

    def only(self, columns: tuple[Column, ...]) -> Rows:
        """The same rows with some of the columns."""
        return Rows(self._source, columns, self._columns)

    def of_numbers(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of these numbers."""
        import numpy as np

        for batch in batches:
            yield self._made(batch.column(0).to_numpy().astype(np.uint64))

    def _made(self, numbers: Any) -> pa.RecordBatch:
        import pyarrow as pa

        names = [c.name for c in self._columns]
        return pa.RecordBatch.from_arrays([make(numbers) for make in self._makers], names=names)
