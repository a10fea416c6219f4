"""What statements answer with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.plan.nodes import Plan
from penstock.schema import Column

if TYPE_CHECKING:
    from penstock.connectors.scanned import Scanned


@dataclass(frozen=True)
class Ran:
    """A pipeline that moved its rows."""

    name: str
    id: str
    rows: int
    rejected: int
    sinks: tuple[str, ...]
    dead_letters: tuple[str, ...]
    seconds: float
    refused: int = 0
    """Rows that a sink did not take."""
    batches: int = 1


@dataclass(frozen=True)
class Started:
    """A pipeline that goes on while the next statements run."""

    name: str
    id: str
    sinks: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """A statement that changed the catalog or a setting."""

    message: str


@dataclass(frozen=True)
class Table:
    """A statement whose answer is a table."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Text:
    """A statement whose answer is a text, such as EXPLAIN."""

    text: str


Outcome = Ran | Started | Done | Table | Text


@dataclass(frozen=True)
class Inspected:
    """What a source holds: its columns, its first rows, and what its connector tells of it."""

    label: str
    connector: str
    format: str | None
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Any], ...]
    facts: dict[str, Any]


@dataclass(frozen=True)
class Physical:
    """How Spark would run a pipeline."""

    plan: str
    """In Spark's words."""
    scans: tuple[Scanned, ...]
    """What is read of files and tables, and what is left out."""


@dataclass(frozen=True)
class Checked:
    """Plans of a text, bound and ready to run; `text` and `source` are where they came from."""

    plans: tuple[Plan, ...]
    text: str
    source: str
    notes: tuple[str, ...] = field(default=())
