"""What a connector that goes on reading must do: the conformance suite's checks of streams."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from penstock.connectors.base import Limits, SourceOptions
from penstock.options import Value

from .subject import Row, Subject, known_rows, rows_of, same_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Seen:
    """A batch as it came."""

    number: int
    rows: list[Row]
    told: Value
    """What the connector wants to be told when the batch is durable."""


class Stream:
    """One source and one checkpoint, read as the engine does: batch by batch, each like a bounded source."""

    def __init__(
        self,
        spark: SparkSession,
        subject: Subject,
        checkpoint: Path,
        start: Literal["earliest", "latest"] = "earliest",
    ) -> None:
        self.spark = spark
        self.subject = subject
        self.source: SourceOptions = subject.unbounded_source()
        self.checkpoint = checkpoint
        self.limits = Limits(start=start, since=datetime.now(timezone.utc))

    def run(
        self, *steps: Callable[[], None], amid: Callable[[], None] | None = None, **changes: Any
    ) -> list[Seen]:
        """Runs until all that is there was read, and again after each step; gives the batches of this run.

        `amid` happens in the middle of the first one; `changes` are those of what is asked of the source.
        """
        connector, seen = self.subject.connector, list[Seen]()
        asked = {"columns": self.subject.columns} | changes

        def take(records: DataFrame, number: int) -> None:
            if amid is not None and not seen:
                amid()
            request = self.subject.request(**asked, records=records)
            rows = rows_of(connector.read(records.sparkSession, self.source, request))
            seen.append(Seen(number, rows, connector.to_acknowledge(self.source, records)))

        frame = connector.stream(self.spark, self.source, self.limits)
        assert frame.isStreaming, "stream() gives a frame that ends"
        query = (
            frame.writeStream.foreachBatch(take).option("checkpointLocation", str(self.checkpoint)).start()
        )
        try:
            query.processAllAvailable()
            for step in steps:
                step()
                query.processAllAvailable()
        finally:
            query.stop()
        return seen

    def forget_last_commit(self) -> None:
        """As after a crash between the delivery of a batch and the note that it is done."""
        done = max(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*"))
        for name in (str(done), f".{done}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)


@contextmanager
def stream_of(
    spark: SparkSession, subject: Subject, start: Literal["earliest", "latest"] = "earliest"
) -> Iterator[Stream]:
    with tempfile.TemporaryDirectory() as folder:
        yield Stream(spark, subject, Path(folder), start)


def rows_in(batches: Iterable[Seen]) -> list[Row]:
    return [row for batch in batches for row in batch.rows]


def more_rows(groups: int) -> list[list[Row]]:
    """Groups of rows that are to be added, unlike those that are there."""
    return [known_rows(1000 + 100 * group, 7) for group in range(groups)]


def streams_rows_as_they_arrive(spark: SparkSession, subject: Subject) -> None:
    amid, later, last = more_rows(3)
    with stream_of(spark, subject) as stream:
        assert subject.connector.is_unbounded(stream.source), "an unbounded source says that it ends"
        seen = stream.run(
            lambda: subject.add(later), lambda: subject.add(last), amid=lambda: subject.add(amid)
        )
    numbers = [batch.number for batch in seen]
    assert numbers == list(range(len(seen))), f"batches are numbered {numbers}"
    same_rows(rows_in(seen), subject.rows() + amid + later + last, "streamed")


def goes_on_after_a_restart(spark: SparkSession, subject: Subject) -> None:
    down, later = more_rows(2)
    with stream_of(spark, subject) as stream:
        same_rows(rows_in(stream.run()), subject.rows(), "streamed at first")
        subject.add(down)
        same_rows(rows_in(stream.run(lambda: subject.add(later))), down + later, "streamed after a restart")
        same_rows(rows_in(stream.run()), [], "streamed with nothing new")


def tells_sources_apart(spark: SparkSession, subject: Subject) -> None:
    first, again, other = (
        subject.connector.identity(subject.unbounded_source(name)) for name in ("first", "first", "other")
    )
    assert first == again, f"the same source is {first}, and then {again}"
    assert first != other, f"two sources are both {first}"


def discovers_the_columns_of_a_stream(spark: SparkSession, subject: Subject) -> None:
    source = subject.unbounded_source()
    columns = subject.connector.discover(spark, source, subject.request(columns=()))
    got, wanted = (sorted(c.name for c in found) for found in (columns, subject.columns))
    assert got == wanted, f"discovered {got}, but there are {wanted}"
    with stream_of(spark, subject) as stream:
        seen = stream.run(columns=columns, used=frozenset({"id", "unrelated"}))
    same_rows(rows_in(seen), [{"id": row["id"]} for row in subject.rows()], "column id, as discovered")


def acknowledges_more_than_once(spark: SparkSession, subject: Subject) -> None:
    (added,) = more_rows(1)
    with stream_of(spark, subject) as stream:
        told = [batch.told for batch in stream.run() if batch.told is not None]
        kept = json.loads(json.dumps(told))
        assert kept == told, f"JSON does not keep what is to be acknowledged: {told}"
        subject.add(added)
        for what in [*kept, *kept]:
            subject.connector.acknowledge(spark, stream.source, what)
        same_rows(rows_in(stream.run()), added, "streamed after two acknowledgements")


def repeats_a_batch_as_it_was(spark: SparkSession, subject: Subject) -> None:
    later, down = more_rows(2)
    with stream_of(spark, subject) as stream:
        *_, last = stream.run(lambda: subject.add(later))
        same_rows(last.rows, later, "the last batch")
        _repeats(stream, last, down)


def starts_after_what_is_there(spark: SparkSession, subject: Subject) -> None:
    (later,) = more_rows(1)
    with stream_of(spark, subject, "latest") as stream:
        seen = stream.run(lambda: subject.add(later))
    same_rows(rows_in(seen), later, "streamed from the latest row")


def keeps_to_where_it_started(spark: SparkSession, subject: Subject) -> None:
    later, down = more_rows(2)
    with stream_of(spark, subject, "latest") as stream:
        *_, last = stream.run(lambda: subject.add(later))
        _repeats(stream, last, down)


def _repeats(stream: Stream, last: Seen, added: list[Row]) -> None:
    """The last batch runs again after a crash, while there are more rows."""
    stream.forget_last_commit()
    stream.subject.add(added)
    first, *others = stream.run() or [Seen(-1, [], None)]
    assert first.number == last.number, f"after batch {last.number} was cut off comes {first.number}"
    same_rows(first.rows, last.rows, "the batch that ran again")
    same_rows(rows_in(others), added, "after the batch that ran again")


UNBOUNDED = (
    streams_rows_as_they_arrive,
    goes_on_after_a_restart,
    tells_sources_apart,
    discovers_the_columns_of_a_stream,
    acknowledges_more_than_once,
)
REPLAY = (repeats_a_batch_as_it_was, starts_after_what_is_there, keeps_to_where_it_started)
