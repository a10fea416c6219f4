"""Batches into a stream, each message once.

Workers stage the parts of a batch in files beside the stream. The driver takes the right to write it, and
notes what it is about to append: the batch, its files, and where each shard ends. From then on those files
are the batch, and they stay until a second note says that it is done. A batch that comes again is

- done, by its note: nothing is appended;
- begun: from the ends that were noted on, the ids of its messages tell how far each shard came, and the
  rest of the files is appended;
- neither: nothing of it is in the stream, and it is staged anew.

Notes and files are on the disk before what relies on them happens.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.base import Batch, Part, Refused, Writer
from penstock.connectors.messaging.records import ROW
from penstock.connectors.telling import telling
from penstock.errors import DataError
from penstock.streams.file.block import microseconds, pack_headers
from penstock.streams.file.folder import StreamFolder
from penstock.streams.file.once import Appender, mark_of

if TYPE_CHECKING:
    import pyarrow as pa

_LARGEST = 48 * 1024 * 1024
"""Bytes of a message that is refused when it has more."""
_SHOWN = 200


@dataclass
class Note:
    """What is known of a pipeline's last batch in a stream."""

    batch: int
    staged: str
    """The folder of its parts."""
    parts: list[str]
    ends: list[int]
    """Where each shard ended before anything of the batch was appended."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    done: bool = False


@dataclass(frozen=True)
class LogWriter(Writer):
    stream: StreamFolder
    keeps_refused: bool
    """Whether a row that is refused is handed back, and the others are stored; else the first raises."""
    attempt: str
    """A name of its own, so that what another attempt still stages is never taken for this one's."""

    def write(self, rows: Iterator[pa.RecordBatch], part: Part) -> None:
        import pyarrow as pa

        folder = self._folder(part.batch) / self.attempt
        folder.mkdir(parents=True, exist_ok=True)
        refused: list[tuple[str, str]] = []
        with telling(), (folder / f".{part.name}").open("wb") as file:
            keeping: Any = None
            for batch in rows:
                good = self._accepted(batch, refused)
                keeping = keeping or pa.ipc.new_stream(file, good.schema)
                keeping.write_batch(good)
            if keeping is not None:
                keeping.close()
            file.flush()
            os.fsync(file.fileno())
        _write(folder / f"{part.name}.refused", json.dumps(refused))
        (folder / f".{part.name}").replace(folder / f"{part.name}.arrow")

    def has_begun(self, batch: Batch) -> bool:
        """Whether something of the batch may be in the stream, so that it is no longer to be staged."""
        note = self._note(batch)
        return note is not None and note.batch >= batch.number

    def refused(self, batch: Batch) -> Sequence[Refused]:
        """The rows of a batch that were refused, also when it was done before."""
        note = self._note(batch)
        told = note.refused if note is not None and note.batch == batch.number else []
        return [Refused(*pair) for pair in told]

    def commit(self, batch: Batch) -> None:
        # Invariant 3
        note = self._note(batch)
        if note is None or note.batch < batch.number or not note.done:
            with Appender(self.stream, mark_of(batch.pipeline, batch.sink, batch.number)) as appender:
                if note is None or note.batch < batch.number:
                    note = self._begun(batch, appender)
                self._append(batch, note, appender)
            note.done = True
            self._keep(batch, note)
        self.tidy(batch)

    def abort(self, batch: Batch) -> None:
        if not self.has_begun(batch):
            self.tidy(batch)

    def tidy(self, batch: Batch) -> None:
        """Removes what attempts have staged."""
        shutil.rmtree(self._folder(batch), ignore_errors=True)

    def _begun(self, batch: Batch, appender: Appender) -> Note:
        folder = self._folder(batch) / self.attempt
        parts = sorted(path.stem for path in folder.glob("[!.]*.arrow")) if folder.is_dir() else []
        refused = [
            (payload, error)
            for part in parts
            for payload, error in json.loads((folder / f"{part}.refused").read_text(encoding="utf-8"))
        ]
        if parts:
            _flush_folder(folder)
        note = Note(batch.number, self.attempt, parts, appender.ends(), refused)
        self._keep(batch, note)
        return note

    def _append(self, batch: Batch, note: Note, appender: Appender) -> None:
        last = appender.last(note.ends)
        time = microseconds(batch.time)
        folder = self._folder(batch) / note.staged
        number = 0
        for part in note.parts:
            for payload, key, headers, when, shard in _messages(folder / f"{part}.arrow"):
                place = appender.shard_of(number, key) if shard is None else shard
                if number > last[place]:
                    appender.append(number, place, payload, key, time if when is None else when, headers)
                number += 1
        appender.flush()

    def _accepted(self, batch: pa.RecordBatch, refused: list[tuple[str, str]]) -> pa.RecordBatch:
        """The messages that a stream can take; the others are told, or the first one raises."""
        import pyarrow as pa
        import pyarrow.compute as pc

        reasons = _refusals(batch, self.stream.shards)
        if not reasons:
            return batch
        name = ROW if ROW in batch.schema.names else "value"
        for row, reason in reasons.items():
            value = batch.column(name)[row].as_py()
            text = value if isinstance(value, str) else (value or b"null").decode("utf-8", "replace")
            if not self.keeps_refused:
                raise DataError(
                    "row-refused",
                    f"stream '{self.stream.name}' refuses a row, {reason}: {text[:_SHOWN]}",
                    hint="on_error = 'skip' drops such rows and counts them, 'dead_letter' keeps them aside",
                )
            refused.append((text, reason))
        wanted = pc.invert(pc.is_in(pa.array(range(len(batch))), pa.array(list(reasons))))
        return batch.filter(wanted)

    def _folder(self, batch: Batch) -> Path:
        return self._notes / mark_of(batch.pipeline, batch.sink).hex()

    @property
    def _notes(self) -> Path:
        return self.stream.path / "batches"

    def _note(self, batch: Batch) -> Note | None:
        try:
            told = json.loads(self._folder(batch).with_suffix(".json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return Note(**{k: v for k, v in told.items() if k not in ("pipeline", "sink")})

    def _keep(self, batch: Batch, note: Note) -> None:
        self._notes.mkdir(exist_ok=True)
        told = {"pipeline": batch.pipeline, "sink": batch.sink, **asdict(note)}
        _write(self._folder(batch).with_suffix(".json"), json.dumps(told))
        _flush_folder(self._notes)


def _refusals(batch: pa.RecordBatch, shards: int) -> dict[int, str]:
    """Why messages are refused, by their number."""
    import pyarrow.compute as pc

    value = batch.column("value")
    found = dict.fromkeys(_where(pc.is_null(value)), "a message without a value")
    sizes = pc.binary_length(value)
    for row in _where(pc.greater(sizes, _LARGEST)):
        found[row] = f"a message of {sizes[row].as_py()} bytes: it takes {_LARGEST} at most"
    if "_shard" in batch.schema.names:
        column = batch.column("_shard")
        for row in _where(pc.or_(pc.less(column, 0), pc.greater_equal(column, shards))):
            found[row] = f"shard {column[row].as_py()}: it has {shards}"
    return found


def _where(mask: pa.Array) -> list[int]:
    import pyarrow.compute as pc

    return pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()  # type: ignore[no-any-return]


def _messages(file: Path) -> Iterator[tuple[bytes, bytes | None, bytes, int | None, int | None]]:
    """Payload, key, headers, time and shard of the messages of a part."""
    import pyarrow as pa

    if not file.stat().st_size:
        return
    with pa.OSFile(str(file)) as opened:
        for batch in pa.ipc.open_stream(opened):
            names, nothing = batch.schema.names, [None] * len(batch)
            times: list[Any] = nothing
            if "_timestamp" in names:
                micros = batch.column("_timestamp").cast(pa.timestamp("us", "UTC"))
                times = micros.cast(pa.int64()).to_pylist()
            headers: list[Any] = batch.column("_headers").to_pylist() if "_headers" in names else nothing
            yield from zip(
                (_bytes(value) for value in batch.column("value").to_pylist()),
                batch.column("_key").to_pylist() if "_key" in names else nothing,
                (
                    pack_headers(tuple((h["key"], h["value"] or b"") for h in row)) if row else b""
                    for row in headers
                ),
                times,
                batch.column("_shard").to_pylist() if "_shard" in names else nothing,
                strict=True,
            )


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _write(path: Path, text: str) -> None:
    """A file that is there whole or not at all, also after the machine stops."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _flush_folder(path: Path) -> None:
    with suppress(OSError):  # not every file system can
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
