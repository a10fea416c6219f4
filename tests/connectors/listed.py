"""A sound connector on the toolkit, and broken ones that the conformance suite must catch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from penstock.connectors.base import (
    Batch,
    Capabilities,
    Column,
    Connector,
    Offset,
    Part,
    Reader,
    SinkOptions,
    SourceOptions,
    Split,
    Uri,
    Writer,
)

from .subject import COLUMNS, Row, Subject, known_rows


class Source(SourceOptions):
    count: int = Field(description="How many rows there are.")


class Sink(SinkOptions):
    folder: str = Field(description="Where files of JSON lines go.")


class ListReader(Reader):
    """Two splits; an offset is the number of a row in its split."""

    def __init__(self, count: int) -> None:
        self.parts = {"a": known_rows(0, count // 2), "b": known_rows(count // 2, count - count // 2)}

    def columns(self) -> tuple[Column, ...]:
        return COLUMNS

    def splits(self) -> list[Split]:
        return [Split(id) for id in self.parts]

    def earliest(self, split: Split) -> Offset:
        return 0

    def latest(self, split: Split) -> Offset:
        return len(self.parts[split.id])

    def read(self, split: Split, start: Offset, stop: Offset) -> Iterator[Row]:
        yield from self.parts[split.id][int(start) : int(stop)]


class FolderWriter(Writer):
    """Each part is a file; `commit` gives the files their names."""

    def __init__(self, folder: str, mode: str | None) -> None:
        self.folder = folder
        self.mode = mode

    def _aside(self, batch: Batch) -> Path:
        return Path(self.folder, f".{batch.number}")

    def write(self, rows: Iterator[Any], part: Part) -> None:
        aside = self._aside(part.batch)
        aside.mkdir(parents=True, exist_ok=True)
        with (aside / part.name).open("w") as file:
            for batch in rows:
                for row in self.kept(batch.to_pylist()):
                    file.write(json.dumps(row, default=lambda value: value.isoformat()) + "\n")

    def kept(self, rows: list[Row]) -> list[Row]:
        return rows

    def commit(self, batch: Batch) -> None:
        if self.mode == "overwrite":
            for old in Path(self.folder).glob("[0-9]*"):
                old.unlink()
        for part in self._aside(batch).iterdir():
            part.rename(Path(self.folder, f"{batch.number}-{part.name}"))
        self._aside(batch).rmdir()

    def abort(self, batch: Batch) -> None:
        shutil.rmtree(self._aside(batch), ignore_errors=True)


class Listed(Connector):
    name = "listed"
    capabilities = Capabilities(
        bounded=True, replay=True, append=True, overwrite=True, create_target=True, evolve_schema=True
    )
    Source = Source
    Sink = Sink
    Reading: type[ListReader] = ListReader
    Writing: type[FolderWriter] = FolderWriter

    def settings_of(self, uri: Uri) -> dict[str, Any]:
        return {}

    def reader(self, source: Any) -> Reader:
        return self.Reading(source.count)

    def writer(self, sink: Any) -> Writer:
        return self.Writing(sink.folder, sink.mode)

    def holds_rows(self, spark: Any, sink: Any) -> bool:
        return any(Path(sink.folder).glob("[0-9]*"))


class _DropsReading(ListReader):
    def read(self, split: Split, start: Offset, stop: Offset) -> Iterator[Row]:
        yield from list(super().read(split, start, stop))[:-1]


class _DropsWriting(FolderWriter):
    def kept(self, rows: list[Row]) -> list[Row]:
        return rows[:-1]


class DropsRows(Listed):
    Reading, Writing = _DropsReading, _DropsWriting


class _DoublesReading(ListReader):
    def read(self, split: Split, start: Offset, stop: Offset) -> Iterator[Row]:
        for row in super().read(split, start, stop):
            yield row
            if row["id"] % 10 == 0:
                yield row


class _DoublesWriting(FolderWriter):
    def kept(self, rows: list[Row]) -> list[Row]:
        return rows + rows[:1]


class DoublesRows(Listed):
    Reading, Writing = _DoublesReading, _DoublesWriting


class _IgnoresStart(ListReader):
    def read(self, split: Split, start: Offset, stop: Offset) -> Iterator[Row]:
        yield from super().read(split, 0, stop)


class IgnoresStart(Listed):
    Reading = _IgnoresStart


class _WritesAtOnce(FolderWriter):
    def _aside(self, batch: Batch) -> Path:
        return Path(self.folder)

    def commit(self, batch: Batch) -> None:
        pass

    def abort(self, batch: Batch) -> None:
        pass


class LeavesHalf(Listed):
    Writing = _WritesAtOnce


class _WritesKnownColumns(FolderWriter):
    def kept(self, rows: list[Row]) -> list[Row]:
        return [{c.name: row[c.name] for c in COLUMNS} for row in rows]


class LosesNewColumn(Listed):
    Writing = _WritesKnownColumns


class ListedSubject(Subject):
    required = frozenset({"bounded", "replay", "append", "overwrite", "create_target", "evolve_schema"})

    def __init__(self, folder: Path, connector: Listed | None = None) -> None:
        self.connector = connector or Listed()
        self.folder = folder / "listed"

    def source(self) -> SourceOptions:
        return Source(count=len(self.rows()))

    def sink(self, mode: Any) -> SinkOptions:
        return Sink(folder=str(self.folder), mode=mode)

    def stored(self) -> list[Row]:
        lines = [line for file in self.folder.glob("[0-9]*") for line in file.read_text().splitlines()]
        rows = [json.loads(line) for line in lines]
        times = {"day": date.fromisoformat, "at": datetime.fromisoformat}
        return [{k: times[k](v) if k in times else v for k, v in row.items()} for row in rows]

    def leftovers(self) -> list[str]:
        return [str(path) for path in self.folder.glob(".*")]
