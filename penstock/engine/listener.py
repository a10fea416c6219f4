"""What Spark tells of a stream -> metrics, and the `Progress` that people see. Never more than that: whatever
goes wrong in here, the rows go on.

Spark's progress is read in the stream's own loop. It comes in order, Spark keeps the last hundred so that
none is missed, and there is no listener's thread that is still behind when the query has ended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from penstock.engine.delivery import Delivered
from penstock.engine.progress import Progress
from penstock.engine.state import State
from penstock.errors import Place
from penstock.metrics import REGISTRY
from penstock.plan.nodes import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_RUNNING = REGISTRY.gauge("penstock_running", "1 while a pipeline runs, else 0.")
_ROWS_IN = REGISTRY.counter("penstock_rows_in_total", "Rows read, where the source tells how many.")
_FILES_IN = REGISTRY.counter("penstock_files_in_total", "Files read of a watched folder.")
_BYTES_IN = REGISTRY.counter("penstock_bytes_in_total", "Bytes read, where the source tells how many.")
_ROWS_OUT = REGISTRY.counter("penstock_rows_out_total", "Rows handed to a sink.")
_REJECTED = REGISTRY.counter("penstock_rejected_total", "Bad records, by what was done with them.")
_REFUSED = REGISTRY.counter("penstock_refused_total", "Rows that a sink did not take.")
_LATE = REGISTRY.counter("penstock_late_total", "Rows that came after their watermark.")
_BATCHES = REGISTRY.counter("penstock_batches_total", "Batches delivered.")
_SECONDS = REGISTRY.counter("penstock_batch_seconds_total", "Time spent on batches.")
_LAST_SECONDS = REGISTRY.gauge("penstock_last_batch_seconds", "How long the last batch took.")
_LAST_TIME = REGISTRY.gauge("penstock_last_batch_timestamp_seconds", "When the last batch was done.")
_LAG = REGISTRY.gauge("penstock_lag_records", "Records in a source that are not read yet.")
_RATE = REGISTRY.gauge("penstock_input_rows_per_second", "Rows a second, lately.")
_RETRIES = REGISTRY.counter("penstock_retries_total", "Deliveries tried again.")
_RESTARTS = REGISTRY.counter("penstock_restarts_total", "Queries begun again after a failure.")

_INPUT = {"rows_in": _ROWS_IN, "files_in": _FILES_IN, "bytes_in": _BYTES_IN}
_PATH, _LENGTH = "path", "length"
"""Columns of the records of a watched folder."""
_EVERY = 1.0
"""Seconds between two notes for `penstock ps`."""

P = ParamSpec("P")
Report = dict[str, Any]
Positions = dict[tuple[str, str], int]


def _harmless(
    method: Callable[Concatenate[Watch, P], None],
) -> Callable[Concatenate[Watch, P], None]:
    @wraps(method)
    def guarded(self: Watch, /, *args: P.args, **kwargs: P.kwargs) -> None:
        with suppress(Exception):
            method(self, *args, **kwargs)

    return guarded


class Watch:
    """Follows a pipeline while it runs."""

    def __init__(
        self,
        name: str,
        plan: Pipeline,
        progress: Progress,
        *,
        state: State | None = None,
        report: Callable[[Report], None] = lambda report: None,
    ) -> None:
        self._name, self._progress, self._state, self._report = name, progress, state, report
        self._scans = [scan for scan in plan.root.scans() if scan.unbounded]
        self._sinks = [sink.label for sink in plan.sinks]
        self._on_error = _policies(scan.options.on_error for scan in plan.root.scans())
        self._on_refusal = _policies(sink.options.on_error for sink in plan.sinks)
        self._delivered: dict[int, Delivered] = {}
        self._counted: dict[int, dict[Place, _Counted]] = {}
        self._by_position: set[Place] = set()
        """Sources whose positions tell how many rows are between two of them."""
        self._batch = -1
        self._text = ""
        self._noted = 0.0
        for metric in (_BATCHES, _SECONDS, _LATE, _RETRIES, _RESTARTS):
            metric.add(0, pipeline=name)
        for sink in self._sinks:
            _ROWS_OUT.add(0, pipeline=name, sink=sink)

    @_harmless
    def running(self, is_so: bool) -> None:
        _RUNNING.set(int(is_so), pipeline=self._name)
        if not is_so:
            _RATE.set(0, pipeline=self._name)

    @_harmless
    def retried(self) -> None:
        _RETRIES.add(pipeline=self._name)

    @_harmless
    def restarted(self) -> None:
        _RESTARTS.add(pipeline=self._name)

    def counting(self, number: int, records: Mapping[Place, DataFrame]) -> dict[Place, DataFrame]:
        """The same records, which are counted as they are read, where positions do not tell how many."""
        found = dict(records)
        with suppress(Exception):
            watches = self._counted[number] = {}
            for at in [at for at in records if at not in self._by_position]:
                watches[at] = counted = _Counted(records[at])
                found[at] = counted.frame
        return found

    @_harmless
    def delivered(self, number: int, done: Delivered) -> None:
        """A batch is in its sinks."""
        name = self._name
        self._delivered[number] = done
        _BATCHES.add(pipeline=name)
        _SECONDS.add(done.seconds, pipeline=name)
        _LAST_SECONDS.set(done.seconds, pipeline=name)
        _LAST_TIME.set(time.time(), pipeline=name)
        for sink in self._sinks:
            _ROWS_OUT.add(done.rows, pipeline=name, sink=sink)
        if self._on_error:
            _REJECTED.add(done.rejected, pipeline=name, on_error=self._on_error)
        if self._on_refusal:
            _REFUSED.add(done.refused, pipeline=name, on_error=self._on_refusal)

    @_harmless
    def read(self, query: StreamingQuery) -> None:
        """Takes in what Spark has told since the last time."""
        last = query._jsq.lastProgress()
        text = last.json() if last is not None else ""
        if text and text != self._text:
            self._text = text
            told = json.loads(text)
            missed = told["batchId"] > self._batch + 1
            recent = [json.loads(one.json()) for one in query._jsq.recentProgress()] if missed else [told]
            for one in recent:
                self.take(one)
        _RATE.set(self._progress.rate.now(), pipeline=self._name)
        self._note()

    def take(self, told: Report) -> None:
        """Takes in one of Spark's progress reports: of a batch, or of nothing new."""
        self._take_lag(told)
        number = told["batchId"]
        if number <= self._batch or "addBatch" not in told["durationMs"]:
            return
        self._batch = self._progress.batch = number
        late = sum(state.get("numRowsDroppedByWatermark", 0) for state in told["stateOperators"])
        self._progress.late += late
        _LATE.add(late, pipeline=self._name)
        taken = self._take_input(number, told["sources"])
        done = self._delivered.pop(number, None) or self._by_spark(told)
        self._progress.rate.add(done.rows if taken["rows_in"] is None else taken["rows_in"])
        total = self._progress.to_dict()
        now = {"late": late, "lag": total.pop("lag"), "rate": total.pop("rate")}
        mine = {"rows_out": done.rows, "rejected": done.rejected, "refused": done.refused, **now}
        head = {"name": self._name, "batch": number, "seconds": round(done.seconds, 3)}
        self._report({**head, **taken, **mine, "total": total})

    def _by_spark(self, told: Report) -> Delivered:
        """A batch that Spark's own sink has written."""
        done = Delivered(max(0, told["sink"]["numOutputRows"]), 0, 0, (), told["batchDuration"] / 1000)
        self._progress.add(done)
        self.delivered(told["batchId"], done)
        return self._delivered.pop(told["batchId"])

    def _take_input(self, number: int, sources: list[Report]) -> Report:
        """What a batch has read, of all sources together; None for what they do not tell."""
        total: Report = {"rows_in": None, "files_in": None, "bytes_in": None}
        watches = self._counted.pop(number, {})
        for scan, source in zip(self._scans, sources, strict=False):
            found: dict[str, int] = {}
            begin, end = _positions(source["startOffset"]), _positions(source["endOffset"])
            if end is not None:
                self._by_position.add(scan.at)
            if begin is not None and end is not None:
                found["rows_in"] = sum(max(0, to - begin.get(split, 0)) for split, to in end.items())
            elif scan.at in watches:
                found = watches[scan.at].found()
            for what, amount in found.items():
                total[what] = (total[what] or 0) + amount
                setattr(self._progress, what, (getattr(self._progress, what) or 0) + amount)
                _INPUT[what].add(amount, pipeline=self._name, source=scan.label)
        return total

    def _take_lag(self, told: Report) -> None:
        behind: dict[str, int] = {}
        for scan, source in zip(self._scans, told["sources"], strict=False):
            end, latest = _positions(source["endOffset"]), _positions(source["latestOffset"])
            if end is not None and latest is not None:
                lag = sum(max(0, to - end.get(split, 0)) for split, to in latest.items())
                behind[scan.label] = behind.get(scan.label, 0) + lag
        for label, lag in behind.items():
            _LAG.set(lag, pipeline=self._name, source=label)
        self._progress.lag = sum(behind.values()) if behind else None

    def _note(self) -> None:
        """Leaves word for other processes."""
        if self._state is not None and time.monotonic() > self._noted + _EVERY:
            self._noted = time.monotonic()
            self._state.tell(self._progress.to_dict())


class _Counted:
    """Records, and how many were read once a batch is delivered."""

    def __init__(self, records: DataFrame) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        self._watch = Observation()
        self._files = {_PATH, _LENGTH} <= set(records.columns)
        size = [f.coalesce(f.sum(_LENGTH), f.lit(0)).alias("bytes")] if self._files else []
        self.frame = records.observe(self._watch, f.count(f.lit(1)).alias("rows"), *size)

    def found(self) -> dict[str, int]:
        # `Observation.get` would wait for ever when Spark found that it need not read the records.
        assert self._watch._jo is not None
        row = self._watch._jo.getRowOrEmpty()
        names = ("files_in", "bytes_in") if self._files else ("rows_in",)
        return {name: int(row.get().get(i)) if row.isDefined() else 0 for i, name in enumerate(names)}


def _positions(offset: Any) -> Positions | None:
    """How far each part of a source is read, as Kafka's offsets say: {"topic": {"0": 17}}."""
    if not isinstance(offset, dict) or not all(isinstance(parts, dict) for parts in offset.values()):
        return None
    found = {(name, part): to for name, parts in offset.items() for part, to in parts.items()}
    return found if all(isinstance(to, int) for to in found.values()) else None


def _policies(on_error: Iterable[str]) -> str:
    """What is done with bad rows, other than to fail."""
    return " or ".join(sorted({policy for policy in on_error if policy != "fail"}))
