"""Readers and writers of the toolkit, run by Spark: a Python data source for the one, tasks for the other."""

from __future__ import annotations

import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from pyspark import TaskContext
from pyspark import cloudpickle as _cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from penstock.connectors.base import Batch, Column, Offset, Part, Reader, ReadRequest, Refused, Split, Writer
from penstock.errors import DataError, did_you_mean
from penstock.schema import ddl, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

cloudpickle: Any = _cloudpickle
_ROWS = 10_000
"""How many rows that a reader yields one by one are put into an Arrow batch."""
_GROUP = "spark.jobGroup.id"
_PATIENCE = 60.0
"""Seconds that a failed batch waits for its last tasks."""
_numbers = count(1)


def read(spark: SparkSession, reader: Reader, request: ReadRequest) -> DataFrame:
    """What there is in a reader's splits now: one task for each, of the columns that are used."""
    columns = chosen(reader.columns(), request)
    return as_declared(read_ranges(spark, reader, all_ranges(reader), columns), request)


def chosen(columns: tuple[Column, ...], request: ReadRequest) -> tuple[Column, ...]:
    """Those of a source's columns that a request wants; one at least, to count rows by."""
    there = {c.name.lower(): c for c in columns}
    for column in request.columns:
        if column.name.lower() not in there:
            hint = did_you_mean(column.name, [c.name for c in columns])
            raise DataError("unknown-column", f"the source has no column '{column.name}'", hint=hint)
    wanted = request.prune(request.columns or columns)
    return tuple(there[c.name.lower()] for c in wanted) or columns[:1]


def as_declared(frame: DataFrame, request: ReadRequest) -> DataFrame:
    """The rows under the names and types that were declared."""
    from pyspark.sql import functions as f

    declared = {c.name.lower(): c for c in request.columns}
    if not declared:
        return frame
    pairs = [(name, declared.get(name.lower())) for name in frame.columns]
    return frame.select(*(f.col(quoted(name)).cast(c.type).alias(c.name) for name, c in pairs if c))


def all_ranges(reader: Reader) -> list[Range]:
    """From the earliest to the latest row of each split, as they are now."""
    ends = [Range(split, reader.earliest(split), reader.latest(split)) for split in reader.splits()]
    return [r for r in ends if r.start != r.stop]


def read_ranges(
    spark: SparkSession, reader: Reader, ranges: list[Range], columns: tuple[Column, ...]
) -> DataFrame:
    """The rows of these ranges, one task for each."""
    name = register(spark, _Source, reader, (reader, ranges), columns)
    return spark.read.format(name).load()


def write(frame: DataFrame, writer: Writer, batch: Batch) -> list[Refused]:
    """Stores every partition of a frame as a part; makes them visible when all are there."""
    payload = pickled((writer, batch))
    with _named_jobs(frame.sparkSession):
        parts = frame.mapInArrow(lambda rows: _store(payload, iter(rows)), "payload STRING, error STRING")
        try:
            refused = [Refused(row.payload, row.error) for row in parts.collect()]
            writer.commit(batch)
            return refused
        except BaseException:
            _wait_for_tasks(frame.sparkSession)
            with suppress(Exception):  # the first failure is the one to tell
                writer.abort(batch)
            raise


@contextmanager
def _named_jobs(spark: SparkSession) -> Iterator[None]:
    """Names the jobs that run inside, unless somebody did already, so that they can be found again."""
    context = spark.sparkContext
    named = context.getLocalProperty(_GROUP) is not None
    if not named:
        context.setLocalProperty(_GROUP, f"penstock-{uuid4()}")
    try:
        yield
    finally:
        if not named:
            context.setLocalProperty(_GROUP, None)  # type: ignore[arg-type]


def _wait_for_tasks(spark: SparkSession) -> None:
    """Waits for tasks that outlive their failed job, so that none stores a part after `abort`."""
    context = spark.sparkContext
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(context.getLocalProperty(_GROUP)))
    stages = [stage for job in jobs if job is not None for stage in job.stageIds]
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        running = [info for info in map(tracker.getStageInfo, stages) if info and info.numActiveTasks]
        if not running:
            return
        time.sleep(0.02)


def _store(payload: bytes, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    writer, batch = cloudpickle.loads(payload)
    context = TaskContext.get()
    part = Part(batch, f"{context.partitionId() if context else 0:05d}")
    refused = writer.write(rows, part) or ()
    yield pa.RecordBatch.from_pydict(
        {
            "payload": pa.array([r.payload for r in refused], pa.string()),
            "error": pa.array([r.error for r in refused], pa.string()),
        }
    )


@dataclass(frozen=True)
class Range(InputPartition):
    """The rows of a split from `start` up to, and without, `stop`."""

    split: Split
    start: Offset
    stop: Offset


class Pickled(DataSource):
    """A source of Spark's that carries a reader, and what it is to read; made anew for each read."""

    alias: ClassVar[str]
    payload: ClassVar[bytes]
    ddl: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return cls.alias

    def schema(self) -> str:
        return self.ddl


def register(
    spark: SparkSession, base: type[Pickled], reader: Reader, payload: Any, columns: tuple[Column, ...]
) -> str:
    """The name under which Spark finds a source of a kind, with its payload."""
    alias = f"penstock_{type(reader).__name__.lower()}_{next(_numbers)}"
    told = {"alias": alias, "payload": pickled(payload), "ddl": ddl(columns)}
    spark.dataSource.register(type(alias, (base,), told))
    return alias


class _Source(Pickled):
    def reader(self, schema: StructType) -> DataSourceReader:
        return _Ranges(self.payload, schema)


class _Ranges(DataSourceReader):
    def __init__(self, payload: bytes, schema: StructType) -> None:
        self._payload = payload
        self._schema = schema

    def partitions(self) -> list[Range]:
        ranges: list[Range] = cloudpickle.loads(self._payload)[1]
        return ranges

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        # Spark asks for a partition None when there are none.
        if partition is not None:
            reader, _ = cloudpickle.loads(self._payload)
            rows = reader.read(partition.split, partition.start, partition.stop)
            yield from in_batches(iter(rows), to_arrow_schema(self._schema))


def in_batches(
    rows: Iterator[pa.RecordBatch | dict[str, Any]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Whatever a reader yields, as Arrow batches of `schema`; a key that a row lacks is null."""
    import pyarrow as pa

    for first in rows:
        if isinstance(first, pa.RecordBatch):
            yield first.select(schema.names).cast(schema)
        else:
            more: list[Any] = [first]
            for row in islice(rows, _ROWS - 1):
                if isinstance(row, pa.RecordBatch):
                    raise TypeError("a reader yields Arrow batches or dicts, not both")
                more.append(row)
            yield pa.RecordBatch.from_pylist(more, schema=schema)


def pickled(thing: Any) -> bytes:
    """`thing` with the code of its classes where a worker could not import them: a script, a test."""
    tops = {c.__module__.partition(".")[0] for part in thing for c in type(part).__mro__}
    here = [sys.modules[name] for name in sorted(tops) if name in sys.modules and not _installed(name)]
    for package in here:
        cloudpickle.register_pickle_by_value(package)
    try:
        payload: bytes = cloudpickle.dumps(thing)
        return payload
    finally:
        for package in here:
            cloudpickle.unregister_pickle_by_value(package)


def _installed(name: str) -> bool:
    """Whether a top-level package is one that a worker finds, too."""
    if name in ("penstock", "__main__"):  # cloudpickle takes care of a script's own code
        return True
    places = tuple(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
    file = getattr(sys.modules[name], "__file__", None)
    return file is None or file.startswith(places)
