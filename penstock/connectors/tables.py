"""What tables of a lake have in common: made on first write, merged into, their columns following the rows'.

Delta's and Iceberg's are modules of their own; both are written by Spark's SQL, under the names that they
have there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from penstock.connectors import merging
from penstock.connectors.base import Batch, Capabilities, Column, Connector, ReadRequest, Refused, Unknown
from penstock.connectors.evolving import changes, fitted, type_of
from penstock.connectors.merging import Merging
from penstock.errors import DataError, PenstockError, said
from penstock.options import Names
from penstock.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_VIEW = "penstock_changes"


class TableSink(Merging):
    """Options of all tables that are written."""

    partition_by: Names = Field((), description="Columns by which a new table is partitioned.")
    comment: str | None = Field(None, description="What a new table says of itself.")
    properties: dict[str, str] = Field(
        default_factory=dict, description="Properties of a new table: properties.name = 'value'."
    )
    schema_evolution: Literal["evolve", "freeze"] = Field(
        "evolve",
        description="What happens when rows have columns that the table lacks, or wider types: `evolve`"
        " changes the table, `freeze` stops.",
    )


class Tables(Connector):
    """Tables that Spark's SQL writes."""

    capabilities = Capabilities(
        bounded=True,
        unbounded=True,
        replay=True,
        lookup=True,
        append=True,
        overwrite=True,
        upsert=True,
        delete=True,
        transactional=True,
        create_target=True,
        evolve_schema=True,
    )
    using: ClassVar[str]
    """The name of the format in Spark's SQL."""
    conflicts: ClassVar[re.Pattern[str]]
    """What is said when another writer was faster."""

    def named(self, options: Any) -> str:
        """The table's name in SQL."""
        raise NotImplementedError

    def exists(self, spark: SparkSession, options: Any) -> bool:
        raise NotImplementedError

    def layout(self, sink: Any) -> str:
        """The clause of a new table that says how its rows lie."""
        raise NotImplementedError

    def properties_of(self, sink: Any) -> dict[str, str]:
        """Those of a new table."""
        return dict(sink.properties)

    def widen(self, spark: SparkSession, table: str) -> None:
        """Lets the types of the table's columns become wider."""

    def marked(self, spark: SparkSession, sink: Any, batch: Batch) -> AbstractContextManager[bool]:
        """While it lasts, what is committed tells its batch; gives whether that was committed before."""
        raise NotImplementedError

    def discover(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Column, ...]:
        if request.columns:
            return request.columns
        return _columns(self.read(spark, source, replace(request, used=None, hidden=frozenset())))

    def unknown(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Unknown, ...]:
        assert request.records is not None
        known = {column.name.lower() for column in request.columns}
        now = _columns(self.read(spark, source, replace(request, columns=(), used=None)))
        return tuple(Unknown(c, self.named(source)) for c in now if c.name.lower() not in known)

    def settled(self, changes: DataFrame) -> DataFrame:
        """Changes that are to be merged, as the format needs them."""
        return changes

    def check_rows(self, frame: DataFrame, sink: Any, format: Any) -> None:
        if sink.merge_on:
            merging.check(frame, sink)

    def holds_rows(self, spark: SparkSession, sink: Any) -> bool:
        """A sink that merges says with `merge_on` what is to be done with them."""
        if sink.merge_on or not self.exists(spark, sink):
            return False
        return not spark.table(self.named(sink)).isEmpty()

    def takes_new_columns(self, sink: Any, format: Any) -> bool:
        return bool(sink.schema_evolution == "evolve")

    def is_atomic(self, sink: Any) -> bool:
        return True

    def is_passing(self, failure: Exception) -> bool:
        return self.conflicts.search(said(failure)) is not None

    def explain_failure(self, failure: Exception, options: Any) -> PenstockError | None:
        text = said(failure)
        if isinstance(options, Merging):
            null = merging.explain_failure(failure, options)
            if null is not None:
                return null
            if self.conflicts.search(text):
                return DataError(
                    "conflict",
                    f"another writer changed {self.named(options)} at the same time, again and again",
                    hint="nothing is lost: run it again; `retries` sets how often it is tried",
                )
        return None

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        spark, refused = frame.sparkSession, list[Refused]()
        if sink.merge_on:
            merging.check(frame, sink)
            frame, found = merging.without_keys(frame, sink)
            refused += found
        rows = frame.select(*map(quoted, merging.stored(frame, sink)))
        made = self._ensure(spark, rows.schema, sink)
        with self.marked(spark, sink, batch) as delivered:
            if not delivered:
                self._deliver(frame, sink, replaces=sink.mode == "overwrite" and not made)
        return refused

    def _deliver(self, frame: DataFrame, sink: Any, *, replaces: bool) -> None:
        from pyspark.sql import functions as f

        spark, table = frame.sparkSession, self.named(sink)
        schema = spark.table(table).schema
        if sink.merge_on:
            folded = fitted(merging.fold(frame, sink), schema, (merging.CHANGE,))
            columns = merging.stored(frame, sink)
            self.settled(folded).createOrReplaceTempView(_VIEW)
            try:
                spark.sql(merging.statement(table, _VIEW, columns, sink)).collect()
            finally:
                spark.catalog.dropTempView(_VIEW)
            return
        writer = fitted(frame, schema).writeTo(table)
        if replaces:
            writer.overwrite(f.lit(True))
        else:
            writer.append()

    def _ensure(self, spark: SparkSession, rows: StructType, sink: Any) -> bool:
        """Makes the table, or lets its columns follow those of the rows; tells whether it was made."""
        table = self.named(sink)
        if not self.exists(spark, sink):
            spark.sql(self._creation(table, rows, sink))
            return True
        wanted = list(changes(spark.table(table).schema, rows, table))
        if wanted and sink.schema_evolution == "freeze":
            raise DataError(
                "changed-columns",
                f"the rows have what {table} lacks: {', '.join(c.what for c in wanted)}",
                hint="schema_evolution = 'evolve' changes the table; or leave it out of the SELECT",
            )
        if any(change.widens for change in wanted):
            self.widen(spark, table)
        for change in wanted:
            spark.sql(f"ALTER TABLE {table} {change.clause}")
        return False

    def _creation(self, table: str, rows: StructType, sink: Any) -> str:
        columns = ", ".join(f"{quoted(f.name)} {type_of(f.dataType)}" for f in rows.fields)
        properties = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in self.properties_of(sink).items())
        clauses = [
            f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING {self.using}",
            self.layout(sink),
            f"COMMENT {literal(sink.comment)}" if sink.comment else "",
            f"TBLPROPERTIES ({properties})" if properties else "",
        ]
        return " ".join(filter(None, clauses))


def chosen(frame: DataFrame, request: ReadRequest) -> DataFrame:
    """The columns of a table that are declared, or all; less those that are not used."""
    from pyspark.sql import functions as f

    if request.columns:
        frame = frame.select(*(f.col(quoted(c.name)).cast(c.type).alias(c.name) for c in request.columns))
    if request.used is None:
        return frame
    return frame.select(*(quoted(c) for c in frame.columns if c.lower() in request.used))


def _columns(frame: DataFrame) -> tuple[Column, ...]:
    return tuple(Column(field.name, type_of(field.dataType)) for field in frame.schema.fields)


def literal(text: str) -> str:
    """A text as SQL has it; `${...}` stays as it is, where Spark would put the value of a setting."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"
