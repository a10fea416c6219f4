"""What tables of a lake have in common: made on first write, merged into, their columns following the rows'.

Delta's and Iceberg's are modules of their own; both are written by Spark's SQL, under the names that they
have there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from penstock.connectors import merging
from penstock.connectors.base import Batch, Capabilities, Column, Connector, ReadRequest, Refused, Unknown
from penstock.connectors.evolving import changes, fitted, type_of
from penstock.connectors.merging import Merging
from penstock.connectors.session_settings import changed
from penstock.errors import DataError, OptionError, PenstockError, RunError, did_you_mean, said
from penstock.options import Names
from penstock.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_VIEW = "penstock_changes"
_FOLDING = {
    # Most keys of a batch are there once: a first sort, to shuffle fewer rows, costs more.
    "spark.sql.optimizer.windowGroupLimitThreshold": "-1",
    # Only then does Spark know how the folded changes lie, and merges them without another shuffle and sort.
    "spark.sql.adaptive.enabled": "false",
}
_BEING_MADE, _LATER = "table-busy", "later-columns"


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
    missing: ClassVar[re.Pattern[str]]
    """What is said when there is no such table."""
    conflicts: ClassVar[re.Pattern[str]]
    """What is said when another writer was faster."""
    merging: ClassVar[Mapping[str, str]] = {}
    """Settings of a MERGE."""

    def named(self, options: Any) -> str:
        """What is read and written, by its name in SQL."""
        raise NotImplementedError

    def table(self, options: Any) -> str:
        """The table itself, which `named` may be a branch of."""
        return self.named(options)

    def columns_of(self, spark: SparkSession, options: Any) -> StructType | None:
        """The table's columns; None when there is no table."""
        from pyspark.errors import AnalysisException

        try:
            return spark.table(self.table(options)).schema
        except AnalysisException as failure:
            if self.missing.search(said(failure)):
                return None
            raise

    def make_way(self, spark: SparkSession, sink: Any) -> None:
        """Removes what would keep a table from being made, such as the rest of a try that was killed."""

    def layout(self, sink: Any, columns: StructType) -> str:
        """The clause of a new table that says how its rows lie."""
        raise NotImplementedError

    def laid_by(self, sink: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The columns that the layout names, and the fields in them, each with its option."""
        for name in sink.partition_by:
            yield "partition_by", (name,)

    def properties_of(self, sink: Any) -> dict[str, str]:
        """Those of a new table."""
        return dict(sink.properties)

    def widen(self, spark: SparkSession, table: str) -> None:
        """Lets the types of the table's columns become wider."""

    def marked(self, spark: SparkSession, sink: Any, batch: Batch) -> AbstractContextManager[bool]:
        """While it lasts, what is committed tells its batch; gives whether that was committed before."""
        raise NotImplementedError

    def is_ordered(self, source: Any) -> bool:
        """Files of several commits are read side by side."""
        return False

    def discover(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Column, ...]:
        if request.columns:
            return request.columns
        return _columns(self.read(spark, source, replace(request, used=None, hidden=frozenset())))

    def unknown(self, spark: SparkSession, source: Any, request: ReadRequest) -> tuple[Unknown, ...]:
        assert request.records is not None
        known = {column.name.lower() for column in request.columns}
        now = _columns(spark.table(self.named(source)))
        new = [column for column in now if column.name.lower() not in known]
        there = {name.lower() for name in request.records.columns}
        if any(column.name.lower() not in there for column in new):
            raise RunError(
                _LATER,
                f"{self.named(source)} has columns that it had not when the stream began to read",
                hint="nothing is lost: it begins again by itself, by `retries`, and has them then",
            )
        return tuple(Unknown(column, self.named(source)) for column in new)

    def check_rows(self, frame: DataFrame, sink: Any, format: Any) -> None:
        if sink.merge_on:
            merging.check(frame, sink)
        columns = frame.select(*map(quoted, merging.stored(frame, sink))).schema
        strange = [(option, names) for option, names in self.laid_by(sink) if not _reaches(columns, names)]
        if strange and self.columns_of(frame.sparkSession, sink) is None:
            option, names = strange[0]
            hint = did_you_mean(names[0], columns.names)
            raise OptionError(
                "unknown-column", f"{option} names '{'.'.join(names)}', which the rows do not have", hint=hint
            )

    def holds_rows(self, spark: SparkSession, sink: Any) -> bool:
        """A sink that merges says with `merge_on` what is to be done with them."""
        if sink.merge_on or self.columns_of(spark, sink) is None:
            return False
        return not spark.table(self.named(sink)).isEmpty()

    def takes_new_columns(self, sink: Any, format: Any) -> bool:
        return bool(sink.schema_evolution == "evolve")

    def is_atomic(self, sink: Any) -> bool:
        return True

    def is_passing(self, failure: Exception) -> bool:
        if isinstance(failure, PenstockError):
            return failure.code in (_BEING_MADE, _LATER)
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
        there = self.columns_of(spark, sink)
        columns = self._followed(spark, there or self._made(spark, rows.schema, sink), rows.schema, sink)
        with self.marked(spark, sink, batch) as delivered:
            if not delivered:
                self._deliver(frame, columns, sink, replaces=sink.mode == "overwrite" and there is not None)
        return refused

    def _deliver(self, frame: DataFrame, there: StructType, sink: Any, *, replaces: bool) -> None:
        from pyspark.sql import functions as f

        spark, table = frame.sparkSession, self.named(sink)
        if sink.merge_on:
            columns, deletes = merging.stored(frame, sink), merging.may_delete(frame, sink)
            # Keys are told apart as the table does: fitted first.
            control = [quoted(column) for column in frame.columns if column not in columns]
            folded = merging.fold(fitted(frame, there, control), sink)
            folded = folded if deletes else folded.drop(merging.CHANGE)
            with _laid_down(folded), changed(spark, self.merging):
                spark.sql(merging.statement(table, _VIEW, columns, sink, deletes=deletes)).collect()
            return
        writer = fitted(frame, there).writeTo(table)
        if replaces:
            writer.overwrite(f.lit(True))
        else:
            writer.append()

    def _made(self, spark: SparkSession, rows: StructType, sink: Any) -> StructType:
        """The columns of a table that is made for such rows, by this writer or by another one meanwhile."""
        from pyspark.errors import AnalysisException

        self.make_way(spark, sink)
        table = self.table(sink)
        try:
            spark.sql(self._creation(table, rows, sink))
        except AnalysisException as failure:
            if not self.conflicts.search(said(failure)):
                raise
        there = self.columns_of(spark, sink)
        if there is None:
            hint = "nothing is lost: run it again; `retries` sets how often it is tried"
            raise RunError(_BEING_MADE, f"another writer is making {table}", hint=hint)
        return there

    def _followed(self, spark: SparkSession, there: StructType, rows: StructType, sink: Any) -> StructType:
        """The columns of a table once they have followed those of the rows."""
        table = self.table(sink)
        wanted = list(changes(there, rows, table))
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
        return spark.table(table).schema if wanted else there

    def _creation(self, table: str, rows: StructType, sink: Any) -> str:
        columns = ", ".join(f"{quoted(f.name)} {type_of(f.dataType)}" for f in rows.fields)
        properties = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in self.properties_of(sink).items())
        clauses = [
            f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING {self.using}",
            self.layout(sink, rows),
            f"COMMENT {literal(sink.comment)}" if sink.comment else "",
            f"TBLPROPERTIES ({properties})" if properties else "",
        ]
        return " ".join(filter(None, clauses))


@contextmanager
def _laid_down(folded: DataFrame) -> Iterator[None]:
    """While it lasts, the changes are at rest on disk, and are the view `_VIEW`."""
    from pyspark import StorageLevel

    spark = folded.sparkSession
    with changed(spark, _FOLDING):
        rows = folded.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
    rows.createOrReplaceTempView(_VIEW)
    try:
        yield
    finally:
        spark.catalog.dropTempView(_VIEW)
        # Else Spark keeps them until the JVM collects its garbage, which may be many batches later.
        rows._jdf.queryExecution().logical().rdd().unpersist(False)


def chosen(frame: DataFrame, request: ReadRequest) -> DataFrame:
    """The columns of a table that are declared, or all, with the hidden ones that are asked for; less those
    that are not used."""
    from pyspark.sql import functions as f

    if request.columns:
        declared = (f.col(quoted(c.name)).cast(c.type).alias(c.name) for c in request.columns)
        frame = frame.select(*declared, *map(quoted, sorted(request.hidden)))
    if request.used is None:
        return frame
    return frame.select(*(quoted(c) for c in frame.columns if c.lower() in request.used))


def _reaches(columns: StructType, names: Sequence[str]) -> bool:
    """Whether there is a column of the first name, a field in it of the second, and so on."""
    kind: Any = columns
    for name in names:
        found = [f for f in getattr(kind, "fields", ()) if f.name.lower() == name.lower()]
        if not found:
            return False
        kind = found[0].dataType
    return True


def _columns(frame: DataFrame) -> tuple[Column, ...]:
    return tuple(Column(field.name, type_of(field.dataType)) for field in frame.schema.fields)


def literal(text: str) -> str:
    """A text as SQL has it; `${...}` stays as it is, where Spark would put the value of a setting."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"
