"""Batches to sinks: checked before anything is read, read once for all sinks, every record accounted for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from penstock.connectors.base import Batch, Refused
from penstock.engine import failures, kept, letters
from penstock.engine.build import Built, Counter
from penstock.engine.jars import fetch
from penstock.engine.pacing import paced
from penstock.engine.retrying import retried
from penstock.engine.state import State
from penstock.errors import DataError, PenstockError
from penstock.plan.nodes import Pipeline, Write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Delivered:
    """What a batch did."""

    rows: int
    rejected: int
    """Records that could not be read."""
    refused: int
    """Rows that a sink did not take."""
    dead_letters: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Run:
    """A batch of a pipeline: its number and time are the same when it runs again."""

    state: State
    number: int
    time: datetime
    pause: Callable[[float], None] = sleep
    """Waits before a retry; may raise when there is to be none."""
    on_retry: Callable[[str, Exception, float], None] = lambda label, failure, seconds: None
    streaming: bool = False
    again: bool = True
    """Whether it may have run before."""
    replay: str | None = None
    """What sets its number apart from those of the pipeline's own batches."""

    @property
    def folder(self) -> Path:
        """What must be the same when it runs again, until it is done."""
        if self.replay is not None:
            return self.state.replay(self.number) / self.replay
        return self.state.staged(self.number)

    def batch(self, sink: str, target: Write | None = None) -> Batch:
        pipeline = "-".join(filter(None, (self.state.id, self.replay)))
        form = target.format if target else None
        return Batch(
            pipeline, sink, self.number, self.time, form, str(self.folder), self.streaming, self.again
        )


def check_targets(spark: SparkSession, sinks: Sequence[Write], *, streaming: bool = False) -> None:
    """Stops before reading when a target cannot be written, or holds rows and nothing says what to do."""
    for sink in sinks:
        with failures.at_end(sink):
            sink.connector.jar_files = tuple(fetch(sink.connector.private_jars))
            sink.connector.check_target(spark, sink.options)
    # Invariant 4: a stream adds to what is there.
    for sink in () if streaming else sinks:
        if not (sink.connector.capabilities.append or sink.connector.capabilities.overwrite):
            continue
        with failures.at_end(sink):
            full = sink.options.mode is None and sink.connector.holds_rows(spark, sink.options)
        if full:
            raise DataError(
                "target-not-empty",
                f"{sink.label} already holds rows",
                at=sink.at,
                hint="say what to do with them: WITH (mode = 'append') keeps them, 'overwrite' replaces them",
            )


def check_rows(frame: DataFrame, sinks: Sequence[Write]) -> None:
    """Stops before reading when a target does not take rows with such columns."""
    for sink in sinks:
        with failures.at_end(sink):
            sink.connector.check_rows(frame, sink.options, sink.format)


def deliver(spark: SparkSession, pipeline: Pipeline, make: Callable[[], Built], run: Run) -> Delivered:
    """Writes one batch, which `make` builds, to every sink; accounts for what cannot be read or written."""
    delivery = _Delivery(spark, pipeline, run)
    started = monotonic()
    try:
        if any(sink.connector.needs_parts(sink.options) for sink in pipeline.sinks):
            delivery.by_parts(make)
        else:
            delivery.directly(make)
    except Exception as failure:
        raise delivery.explained(failure) from failure
    return delivery.done(monotonic() - started)


@dataclass
class _Accounts:
    """What became of the records that were read."""

    rows: int = 0
    rejected: int = 0
    dead_letters: list[str] = field(default_factory=list)


class _Delivery:
    def __init__(self, spark: SparkSession, pipeline: Pipeline, run: Run) -> None:
        self.spark, self.pipeline, self.run = spark, pipeline, run
        self.built: Built | None = None
        self.accounts = _Accounts()
        self.refused = 0

    def directly(self, make: Callable[[], Built]) -> None:
        built, counted = self._counted(make)
        several = len(self.pipeline.sinks) > 1
        if several:
            built.frame.persist()
        try:
            self._write_all(built.frame)
            accounts = self._account(built, counted)
            accounts.dead_letters += self.accounts.dead_letters
            self.accounts = accounts
        finally:
            if several:
                built.frame.unpersist()

    def by_parts(self, make: Callable[[], Built]) -> None:
        """Through files, so that a part that a sink has already is the same when the batch runs again."""
        folder = self.run.folder
        told = kept.load(folder)
        if told is None:
            built, counted = self._counted(make)
            kept.save(built.frame, folder)
            self.accounts = self._account(built, counted)
            kept.seal(folder, asdict(self.accounts))
        else:
            self.accounts = _Accounts(told["rows"], told["rejected"], told["dead_letters"])
        with kept.opened(self.spark, folder) as frame:
            self._write_all(frame)

    def _counted(self, make: Callable[[], Built]) -> tuple[Built, Callable[[], int]]:
        """The batch, and how many rows it had once an action has run."""
        from pyspark.sql import functions as f

        built = self.built = make()
        counter = Counter.on(built.frame, f.lit(True))
        return replace(built, frame=counter.frame), counter.count

    def _account(self, built: Built, counted: Callable[[], int]) -> _Accounts:
        """Counts what was read, and keeps what was rejected before the batch counts as delivered."""
        # Invariant 1
        accounts = _Accounts(counted())
        for position, rejection in enumerate(built.rejected):
            number, scan = rejection.counter.count(), rejection.reading.scan
            accounts.rejected += number
            if number and scan.options.on_error == "dead_letter":
                batch = self.run.batch(f"dead_letters-{position}")
                found = letters.of_records(rejection.records(self.spark), scan, batch, rejection.stage)
                place = letters.store(found, scan.dead_letter, batch, self.run.state)
                accounts.dead_letters.append(place)
        return accounts

    def _write_all(self, frame: DataFrame) -> None:
        for position, sink in enumerate(self.pipeline.sinks):
            refused = self._write(frame, sink, self.run.batch(f"{position}-{sink.connector.name}", sink))
            self.refused += len(refused)
            if refused and sink.options.on_error == "dead_letter":
                batch = self.run.batch(f"refused-{position}")
                found = letters.of_rows(self.spark, refused, sink, batch)
                place = letters.store(found, sink.dead_letter, batch, self.run.state)
                self.accounts.dead_letters.append(place)

    def _write(self, frame: DataFrame, sink: Write, batch: Batch) -> Sequence[Refused]:
        options, tries = sink.options, count()
        with _placed(sink), paced(frame, options.rate_limit) as rows:
            return retried(
                lambda: sink.connector.write(
                    rows, options, replace(batch, again=batch.again or next(tries) > 0)
                ),
                retries=options.retries,
                backoff=options.retry_backoff,
                is_passing=lambda failure: failures.is_passing(failure, sink.connectors),
                pause=self.run.pause,
                on_retry=lambda failure, seconds: self.run.on_retry(sink.label, failure, seconds),
            )

    def explained(self, failure: Exception) -> PenstockError:
        """Our error for a failed job; for a bad record that Spark met, the record is looked up."""
        if failures.is_malformed(failure) and self.built is not None:
            for reading in self.built.readings:
                if reading.scan.format is None:
                    continue
                first = reading.rejects(self.spark).limit(1).collect()
                if first:
                    return failures.rejected(first[0].asDict(), reading.scan.at)
        queries = self.built.queries if self.built else ()
        return failures.translate(failure, queries, ends=self.pipeline.ends)

    def done(self, seconds: float) -> Delivered:
        places = tuple(dict.fromkeys(self.accounts.dead_letters))
        return Delivered(self.accounts.rows, self.accounts.rejected, self.refused, places, seconds)


@contextmanager
def _placed(sink: Write) -> Iterator[None]:
    """Our errors without a place are placed at the sink."""
    try:
        yield
    except PenstockError as failure:
        failure.at = failure.at or sink.at
        raise
