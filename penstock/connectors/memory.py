"""Tables in this process's memory, by name: for Python users and for tests. Exactly once: a batch that runs
again takes the place of its own earlier rows. Gone when the process ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from penstock.connectors.base import (
    Batch,
    Capabilities,
    Connector,
    ReadRequest,
    Refused,
    SinkOptions,
    SourceOptions,
    Uri,
)
from penstock.errors import DataError, did_you_mean
from penstock.options import Value

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_tables: dict[str, dict[tuple[str, str, int], pa.Table]] = {}
"""The parts of each table by pipeline, sink and batch."""


def put(name: str, rows: pa.Table | Sequence[Mapping[str, Any]]) -> None:
    """Makes or replaces a table."""
    import pyarrow as pa

    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist([dict(row) for row in rows])
    _tables[name] = {("", "", 0): table}


def table(name: str) -> pa.Table:
    """A table as Arrow keeps it."""
    import pyarrow as pa

    if name not in _tables:
        hint = did_you_mean(name, _tables) or "nothing was written to memory yet"
        raise DataError("missing-table", f"there is no memory://{name}", hint=hint)
    return pa.concat_tables(_tables[name].values(), promote_options="default")


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    found: list[dict[str, Any]] = table(name).to_pylist()
    return found


def clear() -> None:
    """Forgets all tables."""
    _tables.clear()


class Source(SourceOptions):
    table: str = Field(description="The table to read.")


class Sink(SinkOptions):
    table: str = Field(description="The table to write; made when it is not there.")


class Memory(Connector):
    name = "memory"
    schemes = ("memory",)
    capabilities = Capabilities(
        bounded=True, append=True, overwrite=True, transactional=True, create_target=True
    )
    Source = Source
    Sink = Sink

    def settings_of(self, uri: Uri) -> dict[str, Value]:
        return {"table": uri.authority or uri.path, **dict(uri.query)}

    def read(self, spark: SparkSession, source: Any, request: ReadRequest) -> DataFrame:
        from penstock.connectors.adapter import as_declared, chosen
        from penstock.schema import Column, quoted

        frame = spark.createDataFrame(table(source.table))
        columns = tuple(Column(f.name, f.dataType.simpleString()) for f in frame.schema.fields)
        return as_declared(frame.select(*(quoted(c.name) for c in chosen(columns, request))), request)

    def holds_rows(self, spark: SparkSession, sink: Any) -> bool:
        return any(part.num_rows for part in _tables.get(sink.table, {}).values())

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        import pyarrow as pa

        key = (batch.pipeline, batch.sink, batch.number)
        arrived = frame.toArrow()
        kept = {} if sink.mode == "overwrite" else _tables.get(sink.table, {})
        parts = {**kept, key: arrived}
        try:
            pa.concat_tables(parts.values(), promote_options="default")
        except pa.ArrowException as failure:
            message = f"the rows do not fit those in memory://{sink.table}: {failure}"
            raise DataError("schema-mismatch", message, hint="set mode = 'overwrite'") from None
        _tables[sink.table] = parts
        return ()
