"""The dead letters of a pipeline as they lie in files: counted, shown, and handed out. Needs no JVM."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from penstock.connectors import storage as stores
from penstock.engine.state import State
from penstock.errors import DataError, InputError
from penstock.plan.nodes import Write

Stage = Literal["read", "query", "write"]
STAGES: tuple[Stage, ...] = ("read", "query", "write")
_COLUMNS = ("payload", "encoding", "error", "stage", "source", "position", "time")
_READERS = {
    "parquet": "read_parquet(?, union_by_name = true, filename = true)",
    "json": "read_json(?, format = 'newline_delimited', filename = true, columns = {"
    + ", ".join(f"{name}: '{'TIMESTAMPTZ' if name == 'time' else 'VARCHAR'}'" for name in _COLUMNS)
    + "})",
}
"""How DuckDB reads the formats in which letters can be handed out."""


@dataclass(frozen=True)
class Letter:
    """What could not be read, computed or delivered, and why."""

    time: str
    stage: str
    source: str
    """The source that it is from; of a row that was refused, the sink."""
    position: dict[str, Any] | None
    error: str
    payload: str | None
    encoding: str
    """`text`; `base64` of what is no text; `row` for a row as a JSON object."""


@dataclass(frozen=True)
class Letters:
    """The letters of one stage and source in one place."""

    pipeline: str
    stage: str | None
    source: str | None
    letters: int | None
    """How many; None for those in a place that has to be asked itself."""
    oldest: str | None
    newest: str | None
    place: str


@dataclass(frozen=True)
class File:
    """A file of letters, all of one stage and one source unless somebody else has written it."""

    path: str
    kinds: frozenset[tuple[str, str]]
    letters: int


class Letterbox:
    """All places in which the letters of a pipeline lie."""

    def __init__(self, name: str, state: State, places: Iterable[Write], done: int) -> None:
        """`done` tells how many batches are: letters of later ones are written again with them."""
        self.name, self._state, self._done = name, state, done
        self.own = str(state.dead_letters)
        self._files = {
            ("parquet", self.own): [str(p) for p in sorted(state.dead_letters.glob("[!.]*.parquet"))]
        }
        self.elsewhere: list[str] = []
        """Places whose letters cannot be handed out."""
        for place in {place.label: place for place in places}.values():
            target = getattr(place.options, "target", None) if place.connector.name == "files" else None
            form = place.format.name if place.format else ""
            if target is None or stores.is_remote(target.root) or form not in _READERS:
                self.elsewhere.append(place.label)
            else:
                found = (path for path in target.data_files(stores.Local()) if self._batch(path) is not None)
                self._files[form, place.label] = sorted(found)

    def _batch(self, path: str) -> int | None:
        """The number of the batch that wrote a file of this pipeline; -1 for a replay."""
        written = rf"{re.escape(self._state.id)}(-replay(?:-\d+)?)?-(\d{{6,}})-[0-9a-f]{{6}}-\d{{5,}}"
        found = re.search(written, path.rpartition("/")[2])
        return None if found is None else -1 if found[1] else int(found[2])

    def groups(self) -> list[Letters]:
        """How many letters there are, by stage and source."""
        found = []
        for (form, place), files in self._files.items():
            counted = "stage, source, count(*), min(time), max(time)"
            rows = self._ask(form, files, counted, "GROUP BY stage, source ORDER BY stage, source")
            found += [Letters(self.name, s, o, n, old, new, place) for s, o, n, old, new in rows]
        return found + [Letters(self.name, None, None, None, None, None, place) for place in self.elsewhere]

    def letters(self, limit: int | None = None) -> list[Letter]:
        """The letters, oldest first."""
        chosen = "time, stage, source, position, error, payload, encoding"
        end = (
            f"ORDER BY time, position LIMIT {int(limit)}" if limit is not None else "ORDER BY time, position"
        )
        rows = [
            row for (form, _), files in self._files.items() for row in self._ask(form, files, chosen, end)
        ]
        rows.sort(key=lambda row: row[0] or "")
        found = [Letter(t, s, o, json.loads(p) if p else None, *rest) for t, s, o, p, *rest in rows]
        return found if limit is None else found[:limit]

    def files(self) -> list[File]:
        """The files whose letters will not be written again by the pipeline itself."""
        found: list[File] = []
        for (form, _), files in self._files.items():
            final = [path for path in files if (n := self._batch(path)) is None or n < self._done]
            grouped = self._ask(form, final, "filename, stage, source, count(*)", "GROUP BY ALL ORDER BY ALL")
            for path in dict.fromkeys(row[0] for row in grouped):
                kinds = [row[1:] for row in grouped if row[0] == path]
                found.append(File(path, frozenset((s, o) for s, o, _ in kinds), sum(n for *_, n in kinds)))
        return found

    def hand_out(self, files: Sequence[File], into: Path) -> None:
        """Copies the letters of these files into one Parquet file."""
        import duckdb

        paths = {file.path for file in files}
        chosen = [(form, [f for f in own if f in paths]) for (form, _), own in self._files.items()]
        readers = [(_READERS[form], own) for form, own in chosen if own]
        columns = ", ".join(name for name in _COLUMNS if name != "time")
        every = " UNION ALL ".join(
            f"SELECT {columns} FROM {reader}"  # noqa: S608
            for reader, _ in readers
        )
        copy = f"COPY ({every}) TO '{_escaped(into)}' (FORMAT parquet)"
        with duckdb.connect() as database:
            database.execute(copy, [own for _, own in readers])

    def _ask(self, form: str, files: list[str], columns: str, end: str) -> list[tuple[Any, ...]]:
        if not files:
            return []
        import duckdb

        time = "strftime(make_timestamp(epoch_us(time)), '%Y-%m-%dT%H:%M:%S.%fZ') AS time"
        query = f"SELECT {columns} FROM (SELECT * REPLACE ({time}) FROM {_READERS[form]}) {end}"  # noqa: S608
        try:
            with duckdb.connect() as database:
                return database.execute(query, [files]).fetchall()
        except duckdb.Error as failure:
            message = str(failure).splitlines()[0]
            raise DataError("bad-letters", f"cannot read letters of '{self.name}': {message}") from None

    def check_elsewhere(self) -> None:
        """Raises when there are places whose letters cannot be handed out."""
        for place in self.elsewhere:
            move = f"SELECT * FROM '{place}' INTO '{self.own}/*.parquet' WITH (mode = 'append')"  # noqa: S608
            raise InputError(
                "letters-elsewhere",
                f"the dead letters of '{self.name}' go to {place}, from where they cannot be replayed",
                hint=f'move them first: penstock run --until-caught-up -e "{move}"',
            )


def _escaped(path: Path) -> str:
    return str(path).replace("'", "''")
