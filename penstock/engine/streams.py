"""A pipeline that goes on: Spark plans batches of records, and each is delivered like a bounded statement.

The streaming query holds nothing but the records of the sources. What is made of them, the whole statement,
is built anew for each batch; so there is one way to decode, to reject, to join and to write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Literal

from penstock.catalog import Catalog, PipelineEntry
from penstock.connectors.base import Limits, ReadRequest
from penstock.engine import analysis, failures, real_time
from penstock.engine.build import build
from penstock.engine.delivery import Delivered, Run, check_rows, check_targets, deliver
from penstock.engine.evolution import Columns, as_kept, declared
from penstock.engine.holding import held
from penstock.engine.leases import Lease
from penstock.engine.listener import Report, Watch
from penstock.engine.progress import Progress
from penstock.engine.retrying import wait_before
from penstock.engine.session import see_jars
from penstock.engine.state import State
from penstock.errors import DataError, PenstockError, Place, StatementError
from penstock.plan import realtime
from penstock.plan.nodes import Pipeline, Scan
from penstock.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_EVERY = 0.2
_WAITING = 1.0
"""Seconds between two looks into a source that has nothing yet."""
_NUMBER = "_penstock_scan"


class _Stopped(Exception):
    """Ends a query before a batch has begun."""


class Stream:
    """Runs in a thread of its own, from `start` until it is stopped, has caught up, or fails for good."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Pipeline,
        entry: PipelineEntry,
        root: Path,
        *,
        catalog: Path,
        until_caught_up: bool = False,
        tell: Callable[[str], None] = lambda text: None,
        report: Callable[[Report], None] = lambda report: None,
    ) -> None:
        self.name, self.id = entry.name, entry.id
        self.progress = Progress()
        self.failure: PenstockError | None = None
        self._spark, self._plan, self._entry = spark, plan, entry
        self._state = State(root, entry.id)
        self._catalog = catalog
        self._bounded = until_caught_up
        self._tell = tell
        self._watch = Watch(entry.name, plan, self.progress, state=self._state, report=report)
        self._scans = {scan.at: scan for scan in plan.root.scans()}
        self._columns = Columns(self._state, self._scans, lambda text: tell(f"{entry.name}: {text}"))
        self._since = datetime.now(timezone.utc)
        self._working = Lock()
        self._stopping, self._started = Event(), Event()
        self._cause: Exception | None = None
        self._last: int | None = None
        self._again = True
        """Whether the next batch may have run before: the first of a query may, all others are new."""
        self._lease: Lease | None = None
        self._thread = Thread(target=self._run, name=f"penstock-{entry.name}", daemon=True)

    def start(self) -> None:
        """Returns once it runs, or waits for its first record; raises what keeps it from that."""
        self._thread.start()
        self._started.wait()
        if self.failure is not None and self.progress.state == "failed":
            self._thread.join()
            raise self.failure

    def stop(self) -> None:
        """Lets it end after the batch at hand."""
        self._stopping.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended; raises what it failed of."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        if self.failure is not None:
            raise self.failure
        return True

    def _run(self) -> None:
        catalog = Catalog(self._catalog)
        try:
            see_jars(self._spark)
            with held(catalog, self._entry, self._plan, self._state, self.stop) as (self._lease, _):
                self._watch.running(True)
                self._supervise()
                catalog.finish(self.id, self._outcome(), self._state.batches())
        except Exception as failure:  # noqa: BLE001 (who waits for it gets it)
            self.failure = failures.translate(failure, ends=self._plan.ends)
            self.progress.state = "failed"
            if self._lease is not None:  # else it is another's, who may be running it
                catalog.finish(self.id, "failed", self._state.batches())
        finally:
            if self._lease is not None:
                self._watch.running(False)
            self._started.set()
            catalog.close()

    def _outcome(self) -> str:
        self.progress.state = "stopped" if self._stopping.is_set() else "finished"
        return self.progress.state

    def _supervise(self) -> None:
        """Runs the query; begins again when it failed of something that passes."""
        attempt = 0
        policy = max(self._plan.sinks, key=lambda sink: sink.options.retries).options
        ends = self._plan.ends
        while not self._stopping.is_set():
            before = self.progress.batches
            try:
                self._open()
                return self._to_its_end()
            except Exception as failure:  # noqa: BLE001 (judged below)
                cause = self._cause or failure
                if isinstance(cause, _Stopped):
                    return None
                attempt = 0 if self.progress.batches > before else attempt
                # One that has never run is told at once, to whoever waits for its start.
                passing = self._started.is_set() and failures.is_passing(
                    cause, [connector for end in ends for connector in end.connectors]
                )
                if not passing or attempt >= policy.retries:
                    raise failures.translate(cause, ends=ends) from cause
                seconds = wait_before(attempt, policy.retry_backoff)
                self._tell(f"{self.name}: {failures.translate(cause, ends=ends)}; again in {seconds:.0f} s")
            self.progress.restarts += 1
            self._watch.restarted()
            attempt += 1
            self._stopping.wait(seconds)
        return None

    def _open(self) -> None:
        """Finds out all that batches need to know, the first time from the sources themselves."""
        check_targets(self._spark, [*self._plan.sinks, *self._plan.dead_letters()], streaming=True)
        kept = self._state.kept()
        if kept is None:
            now = datetime.now(timezone.utc).isoformat()
            columns = {scan.identity: as_kept(self._discovered(scan)) for scan in self._unbounded()}
            if self._stopping.is_set():
                return
            kept = {"since": now, "sources": self._identities(), "columns": columns}
        else:
            self._check_ends(kept)
        kept["sinks"] = self._targets()
        kept["recognised"] = self._recognised(kept.get("recognised", {}))
        self._state.keep(kept)
        self._since = datetime.fromisoformat(kept["since"])
        others = {at: self._discovered(scan) for at, scan in self._scans.items() if not scan.unbounded}
        self._columns.open(kept, others)

    def _check_ends(self, kept: Mapping[str, Any]) -> None:
        """Raises when what is known of sources and sinks says nothing of those in the statement."""
        if kept["sources"] != self._identities():
            raise StatementError(
                "changed-sources",
                f"pipeline '{self.name}' read {', '.join(kept['sources'])} until now; its position there"
                " means nothing for other sources",
                at=self._plan.statement.at,
                hint="give it another --name, or begin anew with --reset",
            )
        batch, sinks = self._state.planned(), kept.get("sinks", self._targets())
        if batch is not None and batch >= self._state.batches() and sinks != self._targets():
            raise StatementError(
                "changed-sinks",
                f"batch {batch} of pipeline '{self.name}' was for {', '.join(sinks)}, and is not in all"
                " of them yet; with other sinks rows might be lost, or there twice",
                at=self._plan.sinks[0].at,
                hint="run it once more as it was (--until-caught-up), or begin anew with --reset",
            )

    def _identities(self) -> list[str]:
        return [scan.identity for scan in self._unbounded()]

    def _targets(self) -> list[str]:
        return [sink.label for sink in self._plan.sinks]

    def _recognised(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """What tells each source from another of its name; raises when one is not what it was."""
        found = {}
        for scan in self._unbounded():
            with failures.at_end(scan):
                found[scan.identity] = scan.connector.recognise(scan.options, known.get(scan.identity))
        return found

    def _unbounded(self) -> list[Scan]:
        return [scan for scan in self._scans.values() if scan.unbounded]

    def _discovered(self, scan: Scan) -> tuple[Column, ...]:
        """The columns of a source; waits for the first record of a stream that has none."""
        if columns := declared(scan):
            return columns
        while not self._stopping.is_set():
            try:
                with failures.at_end(scan):
                    return scan.connector.discover(self._spark, scan.options, scan.request)
            except DataError as failure:  # noqa: PERF203
                if failure.code != "empty-source" or not scan.unbounded:
                    raise
                self._wait_for(scan)
        return ()

    def _wait_for(self, scan: Scan) -> None:
        if self._bounded:
            self.stop()
            self._tell(f"{self.name}: there is nothing in {scan.label} yet")
            return
        if self.progress.state != "waiting":
            self.progress.state = "waiting"
            self._tell(f"{self.name}: waits for the first record of {scan.label}, to see its columns")
            self._started.set()
        self._stopping.wait(_WAITING)

    def _to_its_end(self) -> None:
        if self._stopping.is_set():
            return
        self._cause = None
        query = self._begin()
        self.progress.state = "running"
        self._started.set()
        if self._ends() == "in_batches":
            Thread(target=self._stop_at_its_end, args=(query,), daemon=True).start()
        while not query.awaitTermination(_EVERY):  # type: ignore[arg-type]
            self._acknowledge()
            self._watch.read(query)
            if self._stopping.is_set():
                self._end(query)
        self._acknowledge()
        self._watch.read(query)

    def _stop_at_its_end(self, query: StreamingQuery) -> None:
        """Spark runs such a query for ever; but its sources give nothing new, so no batch is cut off."""
        with suppress(Exception):  # it failed, and its own thread tells
            query.processAllAvailable()
            query.stop()

    def _ends(self) -> Literal["never", "in_batches", "at_once"]:
        """How a query ends by itself. Where all sources are Spark's own, it sees to that, in batches."""
        fixed = [scan.connector.fixes_its_end for scan in self._unbounded()]
        if not self._bounded or not any(fixed):
            return "never"
        return "in_batches" if all(fixed) else "at_once"

    def _begin(self) -> StreamingQuery:
        limits = self._limits()
        records = self._records(limits)
        self._check_query(records)
        self._state.tidy()
        planned = self._state.planned()
        where = f"at the {limits.start} position" if planned is None else f"after batch {planned}"
        self._tell(f"{self.name}: begins {where}")
        self._again = True
        if realtime.is_wanted(self._plan) and not self._bounded:
            obstacle = realtime.obstacle(self._plan) or self._obstacle_here()
            if obstacle is None:
                return self._begin_in_real_time(records)
            self._tell(f"{self.name}: in batches, since for real time {obstacle}")
        return self._triggered(self._kept(records.writeStream.foreachBatch(self._batch)), limits).start()

    def _obstacle_here(self) -> str | None:
        (scan,) = self._unbounded()
        return real_time.obstacle(self._spark, scan.connector.tasks(scan.options))

    def _begin_in_real_time(self, records: DataFrame) -> StreamingQuery:
        (scan,), (sink,) = self._unbounded(), self._plan.sinks
        request = replace(self._request(scan, {scan.at: records}), streaming=True)
        rows = build(self._spark, self._plan.root, lambda _: request).frame
        batch = Run(self._state, 0, datetime.now(timezone.utc)).batch(f"0-{sink.connector.name}", sink)
        return real_time.start(self._kept(sink.connector.stream_into(rows, sink.options, batch)))

    def _kept(self, writer: DataStreamWriter) -> DataStreamWriter:
        return writer.queryName(self.id).option("checkpointLocation", f"file://{self._state.checkpoint}")

    def _triggered(self, writer: DataStreamWriter, limits: Limits) -> DataStreamWriter:
        if self._bounded and limits.ends != "in_batches":
            return writer.trigger(availableNow=True)
        interval = None if self._bounded else self._interval(limits)
        if interval is None:
            return writer
        return writer.trigger(processingTime=f"{int(interval.total_seconds() * 1000)} milliseconds")

    def _check_query(self, records: DataFrame) -> None:
        """Builds the statement over a batch without records, to find what is wrong with it now."""
        from pyspark.sql import functions as f

        # Not by createDataFrame, which loads pandas.
        empty = self._spark.range(0).select(
            *(f.lit(None).cast(c.dataType).alias(c.name) for c in records.schema)
        )
        built = build(self._spark, self._plan.root, lambda s: self._request(s, self._by_scan(empty)))
        analysis.check(built, frozenset(built.views[scan.at] for scan in self._unbounded()))
        check_rows(built.frame, self._plan.sinks)

    def _limits(self) -> Limits:
        options = [sink.options for sink in self._plan.sinks]
        looks = all(sink.connector.name == "terminal" for sink in self._plan.sinks)
        patience = min((o.batch_timeout for o in options if o.batch_timeout is not None), default=None)
        fill = max((o.batch_size for o in options if o.batch_size is not None), default=None)
        wait = patience is not None and not self._bounded
        return Limits(
            start="latest" if looks else "earliest",
            since=self._since,
            fill=fill if wait else None,
            patience=patience if wait else None,
            ends=self._ends(),
        )

    def _interval(self, limits: Limits) -> timedelta | None:
        """The least time between two batches."""
        scans = self._unbounded()
        triggers = [*(s.options.trigger for s in self._plan.sinks), *(s.options.trigger for s in scans)]
        chosen = [trigger for trigger in triggers if trigger is not None]
        filled = limits.fill is not None and all(scan.connector.fills_batches for scan in scans)
        return chosen[0] if chosen else None if filled else limits.patience

    def _records(self, limits: Limits) -> DataFrame:
        """The records of all unbounded sources in one streaming frame, by the numbers of their scans."""
        scans = self._unbounded()
        frames = []
        for scan in scans:
            with failures.at_end(scan):
                frames.append(scan.connector.stream(self._spark, scan.options, limits))
        return frames[0] if len(frames) == 1 else _union(frames)

    def _request(self, scan: Scan, records: Mapping[Place, DataFrame]) -> ReadRequest:
        return self._columns.request(scan, records.get(scan.at))

    def _batch(self, frame: DataFrame, number: int) -> None:
        """Called by Spark for each batch; when it returns, Spark commits the batch."""
        with self._working:
            try:
                if self._stopping.is_set():
                    raise _Stopped
                self._deliver(frame, number)
            except Exception as failure:
                self._cause = failure
                raise
            self._last, self._again = number, False

    def _deliver(self, frame: DataFrame, number: int) -> None:
        assert self._lease is not None
        self._lease.check()
        spark, records = frame.sparkSession, self._by_scan(frame)
        told = [s.connector.to_acknowledge(s.options, records[s.at]) for s in self._unbounded()]
        if any(what is not None for what in told):
            self._state.remember(number, told)
        time = self._state.time_of(number)
        run = Run(self._state, number, time, self._pause, self._on_retry, streaming=True, again=self._again)
        self._columns.follow(spark, self._unbounded(), records, atomic=self._is_atomic())
        try:
            done = self._move(spark, records, run)
        except PenstockError as failure:
            if not failures.met_unknown(failure):
                raise
            self._columns.look(spark, self._unbounded(), records)
            done = self._move(spark, records, replace(run, again=True))
        self.progress.add(done)
        self._watch.delivered(number, done)

    def _move(self, spark: SparkSession, records: Mapping[Place, DataFrame], run: Run) -> Delivered:
        counted = self._watch.counting(run.number, records)
        return deliver(
            spark, self._plan, lambda: build(spark, self._plan.root, lambda s: self._request(s, counted)), run
        )

    def _is_atomic(self) -> bool:
        """Whether a batch that cannot be read leaves nothing in any sink: the first one reads it for all."""
        sinks = self._plan.sinks
        first = sinks[0].connector.is_atomic(sinks[0].options)
        return first or any(sink.connector.needs_parts(sink.options) for sink in sinks)

    def _by_scan(self, frame: DataFrame) -> dict[Place, DataFrame]:
        """Which records are of which source."""
        places = [scan.at for scan in self._unbounded()]
        if len(places) == 1:
            return {places[0]: frame}
        return {at: _part(frame, number) for number, at in enumerate(places)}

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopped

    def _on_retry(self, label: str, failure: Exception, seconds: float) -> None:
        self.progress.retries += 1
        self._watch.retried()
        self._tell(f"{self.name}: {label}: {failures.translate(failure)}; again in {seconds:.0f} s")

    def _acknowledge(self) -> None:
        """Tells sources of the batches that Spark has committed."""
        scans = self._unbounded()
        for batch, told in self._state.remembered():
            for scan, what in zip(scans, told, strict=False):
                if what is not None:
                    scan.connector.acknowledge(self._spark, scan.options, what)
            self._state.forget(batch)

    def _end(self, query: StreamingQuery) -> None:
        """Stops a query between two batches: in the middle of one, its sinks might have it uncommitted."""
        self.progress.state = "stopping"
        with self._working:
            last = self._last
        while query.isActive and last is not None and self._state.batches() <= last:
            time.sleep(_EVERY / 10)
        query.stop()


def _union(frames: list[DataFrame]) -> DataFrame:
    from functools import reduce

    from pyspark.sql import functions as f

    def packed(number: int, frame: DataFrame) -> DataFrame:
        own = [
            (f.struct("*") if i == number else f.lit(None).cast(other.schema)).alias(f"r{i}")
            for i, other in enumerate(frames)
        ]
        return frame.select(f.lit(number).alias(_NUMBER), *own)

    return reduce(lambda a, b: a.unionByName(b), (packed(i, frame) for i, frame in enumerate(frames)))


def _part(frame: DataFrame, number: int) -> DataFrame:
    from pyspark.sql import functions as f

    return frame.where(f.col(_NUMBER) == number).select(f"r{number}.*")
