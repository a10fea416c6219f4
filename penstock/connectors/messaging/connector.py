"""A connector whose rows stand in messages: what is done with messages once they are there is done here."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.base import Batch, Column, Connector, Format, ReadRequest, Unknown
from penstock.connectors.messaging.records import Layout
from penstock.errors import DataError
from penstock.options import Value
from penstock.schema import from_avsc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMALESS = ("json", "msgpack")
"""Formats whose messages need not all have the same columns."""


class MessageConnector(Connector):
    layout: ClassVar[Layout]
    noun: ClassVar[str]
    """What its people call a stream of messages."""

    @abstractmethod
    def title(self, source: Any) -> str:
        """The name of what is read."""

    @abstractmethod
    def sample(self, source: Any) -> list[bytes]:
        """Messages to tell the columns from."""

    @abstractmethod
    def records(
        self, spark: SparkSession, source: Any, request: ReadRequest, *, again: bool = False
    ) -> DataFrame:
        """Messages as `layout` has them: of a batch; or those that are there now, the same ones `again`."""

    def format_options(self, options: Any) -> dict[str, Value]:
        given = {key: getattr(options, key, None) for key in ("schema_registry", "schema_file")}
        return {key: value for key, value in given.items() if value is not None}

    def hidden(self, source: Any) -> tuple[Column, ...]:
        return self.layout.hidden(source)

    def is_unbounded(self, source: Any) -> bool:
        return True

    def discover(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Column, ...]:
        if source.schema_file:
            return from_avsc(source.schema_file)
        messages = self.sample(source)
        if not messages:
            raise DataError(
                "empty-source",
                f"{self.noun} '{self.title(source)}' has no messages to tell its columns from",
                hint="declare them with CREATE SOURCE or schema_file, or send a message",
            )
        return format_of(request).sample(spark, messages, f"{self.noun} {self.title(source)}")

    def unknown(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Unknown, ...]:
        records = self.records(spark, source, request)
        return format_of(request).unknown_in_messages(records, request.columns, tuple(self.layout.place))

    def meets_unknown(self, source: Any, request: ReadRequest) -> bool:
        return format_of(request).meets_unknown(request.columns, request)

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        return self._rows(spark, source, request)

    def traced(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        return self._rows(spark, source, request, traced=True)

    def rejects(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        records = self.records(spark, source, request, again=True)
        columns = self._columns(spark, source, request)
        return format_of(request).decode_rejects(
            records, columns, request, carried=tuple(self.layout.position)
        )

    def as_records(self, letters: DataFrame) -> DataFrame | None:
        return self.layout.records_of(letters)

    def takes_new_columns(self, sink: Any, format: Format | None) -> bool:
        return format is not None and format.name in _SCHEMALESS

    def _rows(
        self, spark: SparkSession, source: Any, request: ReadRequest, *, traced: bool = False
    ) -> DataFrame:
        found = self.records(spark, source, request, again=traced)
        records, names = self.layout.carried(found, source, request, traced=traced)
        columns = self._columns(spark, source, request)
        place = tuple(self.layout.place)
        return format_of(request).decode(records, columns, request, carried=names, place=place)

    def _columns(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Column, ...]:
        return request.columns or self.discover(spark, source, request)


def format_of(request: ReadRequest | Batch) -> Format:
    assert request.format is not None, "messages are in some format"
    return request.format
