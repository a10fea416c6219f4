"""What a statement will do, with every name and option bound. Plain data: nothing here starts Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from penstock.connectors.base import Connector, ReadRequest, SinkOptions, SourceOptions
from penstock.connectors.declarations import SchemaEvolution
from penstock.errors import Place
from penstock.formats.base import Format
from penstock.options import Setting
from penstock.schema import Column
from penstock.sql.statements import ObjectKind, Query, Statement


@dataclass(frozen=True)
class Scan:
    """Rows out of a system."""

    label: str
    """As it was written, without secrets: for people."""
    connector: Connector
    options: SourceOptions
    format: Format | None
    columns: tuple[Column, ...]
    """Declared columns; empty when they are discovered on opening."""
    used: frozenset[str] | None
    """Names that the query mentions; None when it may use every column."""
    hidden: frozenset[str]
    """The connector's hidden columns that the query mentions."""
    metadata: frozenset[str]
    filters: tuple[tuple[str, str, Any], ...]
    """Conditions that the source may apply itself; Spark checks them again."""
    settings: tuple[Setting, ...]
    """As they were written, secrets and references included: shown only after redaction."""
    at: Place
    dead_letter: Write | None = None
    """Where bad records go, when the statement says so itself."""
    evolution: SchemaEvolution | None = None
    """What happens to fields that the discovered columns lack; None where no such fields are asked for."""
    store: Connector | None = None
    """That of the store which its table stands in."""

    @property
    def connectors(self) -> tuple[Connector, ...]:
        """All that takes part in reading it."""
        return (self.connector, self.store) if self.store else (self.connector,)

    @property
    def unbounded(self) -> bool:
        return self.connector.is_unbounded(self.options)

    @property
    def identity(self) -> str:
        """What a position in an unbounded source belongs to."""
        return f"{self.connector.name} {self.connector.identity(self.options)}"

    @property
    def request(self) -> ReadRequest:
        return ReadRequest(
            columns=self.columns,
            used=self.used,
            hidden=self.hidden,
            metadata=self.metadata,
            filters=self.filters,
            format=self.format,
            on_error=self.options.on_error,
        )


@dataclass(frozen=True)
class Transform:
    """A SELECT over its inputs, one for each relation of the query, in the same order."""

    label: str
    query: Query
    inputs: tuple[Scan | Transform, ...]

    def scans(self) -> Iterator[Scan]:
        for node in self.inputs:
            if isinstance(node, Scan):
                yield node
            else:
                yield from node.scans()


@dataclass(frozen=True)
class Write:
    """Rows into a system."""

    label: str
    connector: Connector
    options: SinkOptions
    format: Format | None
    settings: tuple[Setting, ...]
    at: Place
    dead_letter: Write | None = None
    """Where rows go that it refuses, when the statement says so itself."""
    store: Connector | None = None
    """That of the store which its table stands in."""

    @property
    def connectors(self) -> tuple[Connector, ...]:
        """All that takes part in writing it."""
        return (self.connector, self.store) if self.store else (self.connector,)


@dataclass(frozen=True)
class Pipeline:
    """Rows from sources through a query to sinks."""

    statement: Statement
    root: Transform
    sinks: tuple[Write, ...]
    name: str | None = None
    """The name that the statement itself gives it (CREATE SINK name), if any."""
    notes: tuple[str, ...] = ()
    """What is accepted without effect, or easily misread: said once, never hidden."""

    @property
    def ends(self) -> tuple[Scan | Write, ...]:
        """All its sources and sinks."""
        return (*self.root.scans(), *self.sinks)

    @property
    def streaming(self) -> bool:
        """Whether it goes on as rows arrive."""
        return any(scan.unbounded for scan in self.root.scans())

    @property
    def bounded(self) -> bool:
        """Whether a stream is to read only what there is, because all of its sources say so."""
        return all(getattr(s.options, "bounded", False) for s in self.root.scans() if s.unbounded)

    @property
    def only_looks(self) -> bool:
        """Whether it leaves nothing behind, so that it needs no identity."""
        letters = any(end.options.on_error == "dead_letter" for end in self.ends)
        return not letters and all(sink.connector.name == "terminal" for sink in self.sinks)

    def dead_letters(self) -> list[Write]:
        """Where dead letters go, as far as the statement says so itself."""
        return [end.dead_letter for end in self.ends if end.dead_letter is not None]


@dataclass(frozen=True)
class Define:
    """Keeps a named source, table or view in the catalog."""

    statement: Statement
    kind: ObjectKind
    name: str
    replace: bool
    if_not_exists: bool
    settings: tuple[Setting, ...] = ()
    node: Scan | Transform | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Remove:
    statement: Statement
    kind: ObjectKind
    name: str
    if_exists: bool


@dataclass(frozen=True)
class Listing:
    statement: Statement
    kind: ObjectKind


@dataclass(frozen=True)
class Description:
    """Shows what a name or URI holds: its columns and settings."""

    statement: Statement
    node: Scan | Transform


@dataclass(frozen=True)
class Upkeep:
    """Keeps a table's files in order."""

    statement: Statement
    action: Literal["optimize", "vacuum"]
    node: Scan
    retain: timedelta
    """How far back a table can still be read after VACUUM."""


@dataclass(frozen=True)
class Assign:
    statement: Statement
    setting: Setting


@dataclass(frozen=True)
class Explanation:
    statement: Statement
    plan: Plan


Plan = Pipeline | Define | Remove | Listing | Description | Upkeep | Assign | Explanation
