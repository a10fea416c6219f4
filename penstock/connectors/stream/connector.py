"""The embedded log: streams in a folder, with no server. Exactly once: a batch that runs again, after a kill
at whatever moment, appends what is missing and nothing twice, whoever writes the stream meanwhile.

One process writes a stream at a time, for as long as it appends a batch; another one is tried again later.
Messages of a batch can be read as they are appended; one that was cut off is finished by the next run. A
message's key, headers, shard and time are `_key`, `_headers`, `_shard` and `_timestamp`, both ways; `_stream`
and `_sequence` tell where it stands.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from penstock.connectors.base import (
    Batch,
    Capabilities,
    Limits,
    Offset,
    Places,
    ReadRequest,
    Refused,
    Split,
    Uri,
)
from penstock.connectors.messaging.connector import MessageConnector, format_of
from penstock.connectors.messaging.records import messages_of
from penstock.connectors.messaging.start import EARLIEST, LATEST, Start
from penstock.connectors.stream.options import Sink, Source
from penstock.connectors.stream.reader import LAYOUT, LogReader
from penstock.connectors.stream.writer import LogWriter
from penstock.connectors.telling import heard, lost
from penstock.errors import InputError, PenstockError
from penstock.options import Value
from penstock.streams.base import Retention
from penstock.streams.file.folder import StreamFolder
from penstock.streams.file.lock import busy, writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.connectors.adapter import Range

_ranges: dict[str, list[Range]] = {}
"""What was read last of each source, so that its bad records are those of the same messages."""


class Stream(MessageConnector):
    name = "stream"
    schemes = ("stream",)
    noun = "stream"
    layout = LAYOUT
    capabilities = Capabilities(
        bounded=True,
        unbounded=True,
        replay=True,
        formats=True,
        append=True,
        transactional=True,
        create_target=True,
    )
    fixes_its_end = True
    Source = Source
    Sink = Sink

    def settings_of(self, uri: Uri) -> dict[str, Value]:
        """`stream:///folder/name`, `stream://./folder/name`; `stream://name` is one of the project's own."""
        folder, _, name = f"{uri.authority}/{uri.path}".rstrip("/").rpartition("/")
        told: dict[str, Value] = {"folder": folder or "/"} if uri.path else {}
        return {**told, **({"stream": name} if name else {}), **dict(uri.query)}

    def settings_in(self, project: Places) -> dict[str, Value]:
        state = ".penstock" if "://" in project.state else project.state
        return {"folder": os.path.join(state, "streams")}

    def title(self, source: Any) -> str:
        return str(source.stream)

    def identity(self, source: Any) -> str:
        return str(source.cluster / source.stream)

    def recognise(self, source: Any, known: Value) -> Value:
        number: int = source.opened().number
        if known is not None and known != number:
            raise lost(f"stream '{source.stream}' was deleted and made again since it was read last")
        return number

    def reader(self, source: Any) -> LogReader:
        return LogReader.of(source.opened())

    def sample(self, source: Any) -> list[bytes]:
        return self.reader(source).sample()

    def stream(self, spark: SparkSession, source: Any, limits: Limits) -> DataFrame:
        from penstock.connectors.following import follow

        reader = self.reader(source)
        start = source.begin or Start(limits.start)
        begin = {split.id: begin_of(reader, split, start, source.stream) for split in reader.splits()}
        end = None if limits.ends == "never" else {s.id: reader.latest(s) for s in reader.splits()}
        rows = min(filter(None, (limits.rows, source.max_rows_per_batch)), default=None)
        rows = None if limits.ends == "at_once" else rows
        return follow(spark, reader, source.stream, begin, end=end, rows=rows)

    def tasks(self, source: Any) -> int:
        return int(source.opened().shards)

    def records(
        self, spark: SparkSession, source: Any, request: ReadRequest, *, again: bool = False
    ) -> DataFrame:
        from penstock.connectors.adapter import Range, read_ranges

        if request.records is not None:
            return request.records
        reader, key = self.reader(source), f"{self.identity(source)}/{source.begin}"
        if not again or key not in _ranges:
            start = source.begin or Start("earliest")
            bounds = [
                Range(s, begin_of(reader, s, start, source.stream), reader.latest(s)) for s in reader.splits()
            ]
            _ranges[key] = [r for r in bounds if r.start != r.stop]
        return read_ranges(spark, reader, _ranges[key], reader.columns())

    def facts(self, spark: SparkSession, source: Any) -> dict[str, Value]:
        reader = self.reader(source)
        bounds = [(reader.earliest(s), reader.latest(s)) for s in reader.splits()]
        return {"messages": sum(int(end) - int(first) for first, end in bounds), "shards": len(bounds)}

    def check_target(self, spark: SparkSession, sink: Any) -> None:
        _made(sink)

    def is_atomic(self, sink: Any) -> bool:
        return True

    def is_passing(self, failure: Exception) -> bool:
        return isinstance(failure, PenstockError) and failure.code == "stream-busy"

    def explain_failure(self, failure: Exception, options: Any) -> PenstockError | None:
        return heard(failure)

    def writer(self, sink: Any) -> LogWriter:
        return LogWriter(_made(sink), sink.on_error != "fail", uuid4().hex)

    def write(self, frame: DataFrame, sink: Any, batch: Batch) -> Sequence[Refused]:
        from penstock.connectors import adapter

        writer = self.writer(sink)
        if writer.has_begun(batch):
            writer.commit(batch)
            return writer.refused(batch)
        holder = writing(writer.stream)
        if holder not in (None, os.getpid()):  # told before the work is done, not after it
            raise busy(writer.stream, holder or 0)
        writer.tidy(batch)
        others = {"_shard": lambda column: None if column is None else column.cast("int")}
        rows = messages_of(
            frame, sink, format_of(batch), others, name=sink.stream, tell_rows=writer.keeps_refused
        )
        try:
            adapter.write(rows, writer, replace(batch, format=None))
        except Exception as failure:
            told = heard(failure)
            if told is None:
                raise
            raise told from failure
        return writer.refused(batch)


def _made(sink: Sink) -> StreamFolder:
    """The sink's stream, made now if need be."""
    try:
        return StreamFolder.open(sink.cluster, sink.stream)
    except InputError as failure:
        if failure.code != "missing-stream":
            raise
    try:
        return StreamFolder.create(sink.cluster, sink.stream, sink.shards, Retention())
    except InputError as failure:
        if failure.code != "exists":
            raise
    return StreamFolder.open(sink.cluster, sink.stream)  # somebody else made it just now


def begin_of(reader: LogReader, split: Split, start: Start, stream: str) -> Offset:
    """The position in a shard that a start means."""
    if start.kind == "time":
        return reader.at(split, datetime.fromtimestamp(start.time / 1000, timezone.utc))
    words = {"earliest": EARLIEST, "latest": LATEST}
    position = words.get(start.kind) or start.offsets.get(stream, {}).get(int(split.id), EARLIEST)
    if position == EARLIEST:
        return reader.earliest(split)
    return reader.latest(split) if position == LATEST else position
