"""Named sources, tables, sinks and views, and the pipelines that ran: one SQLite file beside the state.

What is stored is a statement's own text, with literal secrets taken out beforehand.
"""

from __future__ import annotations

import getpass
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from penstock.errors import Place, SetupError, StatementError, did_you_mean

_TABLES = """
CREATE TABLE IF NOT EXISTS objects (
    name TEXT PRIMARY KEY COLLATE NOCASE, kind TEXT NOT NULL, statement TEXT NOT NULL,
    version INTEGER NOT NULL, owner TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pipelines (
    name TEXT PRIMARY KEY COLLATE NOCASE, id TEXT NOT NULL UNIQUE, statement TEXT NOT NULL,
    version INTEGER NOT NULL, owner TEXT NOT NULL, created TEXT NOT NULL,
    state TEXT NOT NULL, batches INTEGER NOT NULL, inputs TEXT NOT NULL, outputs TEXT NOT NULL,
    updated TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS leases (
    pipeline TEXT PRIMARY KEY, fence INTEGER NOT NULL, holder TEXT NOT NULL, until REAL NOT NULL,
    stop INTEGER NOT NULL);
"""


@dataclass(frozen=True)
class Entry:
    """A named source, table, sink or view."""

    name: str
    kind: str
    statement: str
    version: int
    owner: str
    created: str


@dataclass(frozen=True)
class PipelineEntry:
    """A pipeline: people use its name; its files, markers and metrics use its id, which is never reused."""

    name: str
    id: str
    statement: str
    version: int
    owner: str
    created: str
    state: str
    """`new`, `running`, `finished`, `stopped` or `failed`."""
    batches: int
    """How many batches it has delivered."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    updated: str


@dataclass(frozen=True)
class LeaseEntry:
    """Who may run a pipeline, and until when."""

    pipeline: str
    fence: int
    """Grows with each holder: of two that believe they hold it, the higher one does."""
    holder: str
    until: float
    """Seconds since 1970; 0 when it was given back."""
    stop: bool
    """Whether the holder was asked to stop."""


class Catalog:
    def __init__(self, path: Path | None = None) -> None:
        """Opens or makes the catalog at `path`; without one it lives in memory."""
        self.path = path
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                path or ":memory:", timeout=30, isolation_level=None, check_same_thread=False
            )
            self._db.row_factory = sqlite3.Row
            self._db.executescript(_TABLES)
        except (OSError, sqlite3.Error) as failure:
            raise SetupError(
                "catalog",
                f"cannot open the catalog {path}: {failure}",
                hint="check the permissions of the folder, or set another one with `state:`",
            ) from None

    def copy(self) -> Catalog:
        """The same objects in memory: for checking statements without keeping what they create."""
        twin = Catalog()
        self._db.backup(twin._db)
        return twin

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except sqlite3.Error as failure:
            full = "disk is full" in str(failure)
            raise SetupError(
                "disk-full" if full else "catalog",
                f"cannot write to the catalog {self.path}: {failure}",
                hint="free some space and run it again" if full else None,
            ) from failure
        finally:
            if self._db.in_transaction:  # SQLite has ended it already when the disk is full
                self._db.execute("ROLLBACK")

    def find(self, name: str) -> Entry | None:
        row = self._db.execute("SELECT * FROM objects WHERE name = ?", (name,)).fetchone()
        return Entry(**row) if row else None

    def objects(self, kind: str | None = None) -> list[Entry]:
        rows = self._db.execute("SELECT * FROM objects WHERE ? IN (kind, '') ORDER BY name", (kind or "",))
        return [Entry(**row) for row in rows]

    def put(
        self, kind: str, name: str, statement: str, *, replace: bool, if_not_exists: bool, at: Place | None
    ) -> bool:
        """Keeps an object; False when it was there and `if_not_exists` lets it be."""
        with self._transaction() as db:
            old = self.find(name)
            if old is not None and if_not_exists:
                return False
            if old is not None and not replace:
                raise StatementError(
                    "name-taken",
                    f"there is a {old.kind} '{old.name}' already",
                    at=at,
                    hint=f"CREATE OR REPLACE, or DROP {old.kind.upper()} {old.name} first",
                )
            version = old.version + 1 if old else 1
            db.execute(
                "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)",
                (name, kind, statement, version, getpass.getuser(), _now()),
            )
        return True

    def remove(self, kind: str, name: str, *, if_exists: bool, at: Place | None) -> bool:
        with self._transaction() as db:
            table, known = (
                ("pipelines", [p.name for p in self.pipelines()])
                if kind == "pipeline"
                else ("objects", [entry.name for entry in self.objects(kind)])
            )
            if name.lower() not in {k.lower() for k in known}:
                if if_exists:
                    return False
                raise StatementError(
                    "unknown-name", f"there is no {kind} '{name}'", at=at, hint=did_you_mean(name, known)
                )
            db.execute(f"DELETE FROM {table} WHERE name = ?", (name,))  # noqa: S608 - one of two names
        return True

    def pipelines(self) -> list[PipelineEntry]:
        return [_pipeline(row) for row in self._db.execute("SELECT * FROM pipelines ORDER BY name")]

    def pipeline(self, name: str) -> PipelineEntry | None:
        row = self._db.execute("SELECT * FROM pipelines WHERE name = ?", (name,)).fetchone()
        return _pipeline(row) if row else None

    def register(
        self, name: str, statement: str, inputs: Sequence[str], outputs: Sequence[str]
    ) -> PipelineEntry:
        """The pipeline of a name; a new one gets its id here."""
        with self._transaction() as db:
            if self.pipeline(name) is None:
                ends = ("\n".join(inputs), "\n".join(outputs))
                db.execute(
                    "INSERT INTO pipelines VALUES (?, ?, ?, 1, ?, ?, 'new', 0, ?, ?, ?)",
                    (name, uuid.uuid4().hex[:12], statement, getpass.getuser(), _now(), *ends, _now()),
                )
        entry = self.pipeline(name)
        assert entry is not None
        return entry

    def start(self, id: str, statement: str, inputs: Sequence[str], outputs: Sequence[str]) -> PipelineEntry:
        """Records that a pipeline runs, and by which statement."""
        ends = ("\n".join(inputs), "\n".join(outputs))
        with self._transaction() as db:
            db.execute(
                "UPDATE pipelines SET version = version + (statement <> ?), statement = ?, inputs = ?,"
                " outputs = ?, state = 'running', updated = ? WHERE id = ?",
                (statement, statement, *ends, _now(), id),
            )
        return next(entry for entry in self.pipelines() if entry.id == id)

    def finish(self, id: str, state: str, batches: int) -> None:
        """Records how a run ended, and how many batches the pipeline has delivered in all."""
        with self._transaction() as db:
            db.execute(
                "UPDATE pipelines SET state = ?, batches = ?, updated = ? WHERE id = ?",
                (state, batches, _now(), id),
            )

    def renew(self, name: str) -> PipelineEntry | None:
        """Gives a pipeline a new id, so that it begins anew; None when there is none of this name."""
        with self._transaction() as db:
            db.execute(
                "UPDATE pipelines SET id = ?, state = 'new', batches = 0, updated = ? WHERE name = ?",
                (uuid.uuid4().hex[:12], _now(), name),
            )
        return self.pipeline(name)

    def take_over(self, name: str, successor: str) -> None:
        """Gives the name of a pipeline to another one; the first is kept under its name and id."""
        with self._transaction() as db:
            db.execute("UPDATE pipelines SET name = name || '~' || id WHERE name = ?", (name,))
            db.execute("UPDATE pipelines SET name = ? WHERE name = ?", (name, successor))

    def lease(self, pipeline: str) -> LeaseEntry | None:
        row = self._db.execute("SELECT * FROM leases WHERE pipeline = ?", (pipeline,)).fetchone()
        return LeaseEntry(**{**row, "stop": bool(row["stop"])}) if row else None

    def take_lease(
        self, pipeline: str, holder: str, until: float, is_over: Callable[[LeaseEntry], bool]
    ) -> LeaseEntry | int:
        """The new holder's fencing number; or the lease that is in the way, unless it `is_over`."""
        with self._transaction() as db:
            old = self.lease(pipeline)
            if old is not None and not is_over(old):
                return old
            fence = old.fence + 1 if old else 1
            db.execute(
                "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, 0)", (pipeline, fence, holder, until)
            )
        return fence

    def renew_lease(self, pipeline: str, fence: int, until: float) -> LeaseEntry | None:
        """The lease for longer; None when another holder has it by now."""
        with self._transaction() as db:
            db.execute(
                "UPDATE leases SET until = ? WHERE pipeline = ? AND fence = ?", (until, pipeline, fence)
            )
            lease = self.lease(pipeline)
        return lease if lease is not None and lease.fence == fence else None

    def ask_to_stop(self, pipeline: str) -> None:
        """Tells whoever runs a pipeline to end after the batch at hand."""
        with self._transaction() as db:
            db.execute("UPDATE leases SET stop = 1 WHERE pipeline = ?", (pipeline,))


def _pipeline(row: sqlite3.Row) -> PipelineEntry:
    values = dict(row)
    values["inputs"] = tuple(values["inputs"].splitlines())
    values["outputs"] = tuple(values["outputs"].splitlines())
    return PipelineEntry(**values)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
